"""Messages in the formats of company topics as rows: Avro and Protobuf behind a schema's number, Debezium, your own."""

import base64
import functools
import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, TypeAlias

import pyarrow as pa

from streamsketch.core.numbers import short
from streamsketch.errors import InvalidInputError

Decoder: TypeAlias = Callable[[bytes], pa.RecordBatch]
"""Returns the rows of a message. What it raises, but for an OSError, means that the message cannot be decoded."""

_HEAD = 5  # a zero byte, and the number of the schema
_SECONDS = 10.0  # in which the registry must answer
_MOST_SCHEMA = 1 << 22  # bytes
_MOST_SCHEMAS = 1024  # of one topic
_KEPT, _REMOVED = ("c", "r"), {"u": "an update", "d": "a deletion", "t": "a truncation", "m": "a message"}
_NOT_FOUND = 404
_INTEGERS = 64  # bytes of the indexes of a Protobuf message


class Registry:
    """The writer's schemas of messages, by number, from a Confluent schema registry or one with the same interface.

    A schema is fetched once, and never changes. A registry that cannot be reached raises an OSError: no row is then
    malformed.

    Parameters
    ----------
    url
        Its address, ``http://…`` or ``https://…``.
    login
        ``"USER:PASSWORD"``, if it asks for one.

    Raises
    ------
    InvalidInputError
        For another address, or one that holds a password: job files are no secrets.
    """

    def __init__(self, url: str, login: str | None = None) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidInputError(
                f"a schema registry has an address such as https://registry.example, got {short(url)}"
            )
        if parts.password or parts.username:
            raise InvalidInputError(
                "the address of the schema registry holds a login: write schema.registry.basic.auth.user.info to the "
                "file of client_settings instead"
            )
        self._url, self._login = url.rstrip("/"), login
        self._schemas: dict[int, Any] = {}

    def schema(self, number: int) -> Any:
        """Return the Avro schema of a number.

        Raises
        ------
        InvalidInputError
            If the registry has none of this number, or it is not Avro, or refers to others.
        OSError
            If the registry does not answer.
        """
        if number not in self._schemas:
            if len(self._schemas) >= _MOST_SCHEMAS:
                raise InvalidInputError(f"messages of more than {_MOST_SCHEMAS:,} schemas in one topic")
            self._schemas[number] = self._fetched(number)
        return self._schemas[number]

    def _fetched(self, number: int) -> Any:
        request = urllib.request.Request(f"{self._url}/schemas/ids/{number}")  # noqa: S310 - http or https, as checked
        if self._login is not None:
            login = base64.b64encode(self._login.encode()).decode()
            request.add_unredirected_header("Authorization", f"Basic {login}")  # never for another server
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310
                fields = json.loads(answer.read(_MOST_SCHEMA))
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == _NOT_FOUND:
                raise InvalidInputError(f"the schema registry has no schema {number}") from None
            raise OSError(f"the schema registry answers with status {error.code}") from None
        except (http.client.HTTPException, ValueError, RecursionError):
            raise OSError("the schema registry does not answer with JSON") from None
        if not isinstance(fields, dict) or not isinstance(fields.get("schema"), str):
            raise OSError("the schema registry answers without a schema")
        if fields.get("schemaType", "AVRO") != "AVRO" or fields.get("references"):
            raise InvalidInputError(f"the schema {number} is not Avro, or refers to other schemas; use a decoder")
        return json.loads(fields["schema"])


def avro_rows(registry: Registry, columns: Sequence[str]) -> Decoder:
    """Return a decoder of Avro records, each behind a zero byte and the number of its schema (four bytes, big-endian).

    Values are read as they are stored, as from files of Avro.

    Parameters
    ----------
    registry
        Where schemas come from.
    columns
        The columns that are read; others are skipped.

    Raises
    ------
    ImportError
        If fastavro is not installed, which the extra ``beam`` brings.
    """
    return _AvroRows(registry, columns)


class _AvroRows:
    """A decoder of Avro records, which other processes can have: each fetches schemas itself."""

    def __init__(self, registry: Registry, columns: Sequence[str]) -> None:
        from streamsketch.data.readers.avro import Records  # noqa: PLC0415 - fastavro loads where Avro is read

        self._of = registry, list(columns)

        @functools.lru_cache(maxsize=_MOST_SCHEMAS)
        def records(number: int) -> Records:
            return Records(registry.schema(number), "the message", list(columns))

        self._records = records

    def __reduce__(self) -> tuple[Any, ...]:
        return _AvroRows, self._of

    def __call__(self, content: bytes) -> pa.RecordBatch:
        number, record = _framed(content)
        return self._records(number).read(record)


def protobuf_rows(kind: Any, *, framed: bool = True) -> Decoder:
    """Return a decoder of Protobuf messages of one generated class, whose fields are the columns.

    Fields of messages, lists and maps are left out. A field that is not set has its default; one with presence is null.

    Parameters
    ----------
    kind
        The class, as ``protoc`` generates it.
    framed
        Whether a schema's number and the indexes of the message stand before it, as registries have it.
    """
    fields = [field for field in kind.DESCRIPTOR.fields if field.message_type is None and not field.is_repeated]

    def decode(content: bytes) -> pa.RecordBatch:
        message = kind()
        message.ParseFromString(_without_indexes(_framed(content)[1]) if framed else content)
        row = {
            field.name: None
            if field.has_presence and not message.HasField(field.name)
            else getattr(message, field.name)
            for field in fields
        }
        return pa.RecordBatch.from_pylist([row])

    return decode


def debezium_rows(content: bytes) -> pa.RecordBatch:
    """Return the row that a change of Debezium in JSON inserts, with its envelope's schema or without.

    A sketch counts events. So only inserts and rows of a first snapshot have one; a table of which rows are updated or
    deleted is no log of events.

    Raises
    ------
    InvalidInputError
        For an update, a deletion, or a text that is no such change.
    """
    try:
        change = json.loads(content)
    except ValueError:
        raise InvalidInputError("the message is not JSON") from None
    if isinstance(change, dict) and "payload" in change:
        change = change["payload"]
    operation = change.get("op") if isinstance(change, dict) else None
    if operation in _REMOVED:
        raise InvalidInputError(f"{_REMOVED[operation]} of a table, which adds no row: only inserts are counted")
    row = change.get("after") if isinstance(change, dict) else None
    if operation not in _KEPT or not isinstance(row, dict):
        raise InvalidInputError("the message is not a change of Debezium, with the fields op and after")
    return pa.RecordBatch.from_pylist([row])


def imported(
    place: str, what: str = "decoder", purpose: str = "of the bytes of a message that returns a RecordBatch"
) -> Callable[..., Any]:
    """Return the function of your own that ``"MODULE:FUNCTION"`` names.

    Parameters
    ----------
    place
        The text.
    what, purpose
        What it is, and what it takes and returns, for errors.

    Raises
    ------
    InvalidInputError
        If there is no such function.
    """
    module, colon, name = place.partition(":")
    try:
        attribute = getattr(import_module(module), name) if colon else None
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInputError(f"the {what} {short(place)} cannot be imported: {error}") from None
    if not callable(attribute):
        raise InvalidInputError(f"a {what} is a function MODULE:FUNCTION {purpose}, got {short(place)}")
    function: Callable[..., Any] = attribute
    return function


def _framed(content: bytes) -> tuple[int, bytes]:
    """Return the number of a message's schema, and what follows."""
    if len(content) < _HEAD or content[0] != 0:
        raise InvalidInputError("the message does not begin with a zero byte and the number of its schema")
    return int.from_bytes(content[1:_HEAD], "big"), content[_HEAD:]


def _without_indexes(content: bytes) -> bytes:
    """Return a Protobuf message without the indexes before it: a count and as many zigzag varints, 0 for [0]."""
    count, at = _varint(content, 0)
    for _ in range(count):
        _, at = _varint(content, at)
    return content[at:]


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(content) or at >= _INTEGERS:
            raise InvalidInputError("the indexes of the message do not end")
        byte = content[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
