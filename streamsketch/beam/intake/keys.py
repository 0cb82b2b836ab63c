"""The keys to release: given as a list, a file or a collection, and never taken from the data."""

import copy
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.transforms.window import GlobalWindows

from streamsketch.agreement.agreement import Agreement
from streamsketch.beam.run.steps import Listed, Step
from streamsketch.core.documents import TableKey
from streamsketch.data.columns import keys_named, plain_key
from streamsketch.errors import InvalidInputError

METRICS = "streamsketch"

Keys: TypeAlias = Iterable[Any] | os.PathLike[str] | beam.PCollection


class PublicKeys:
    """Keys chosen without looking at the data.

    Parameters
    ----------
    keys
        Text, bytes or integers in a list; a `pathlib.Path` to a text file with one key a line, in UTF-8 with or without
        a byte order mark, on any file system Beam knows; or a PCollection of keys in the global window.

    Raises
    ------
    InvalidInputError
        If ``keys`` is a single string or an empty list, a key has another type, or a collection is not in the global
        window. In the workers, if a line of a file is not UTF-8, or begins or ends with white space: data rarely have
        such keys, and a key without data is released as noise alone. To release such keys, pass a list.
    """

    def __init__(self, keys: Keys) -> None:
        self._path = os.fspath(keys) if isinstance(keys, os.PathLike) else None
        self._keys = keys if isinstance(keys, beam.PCollection) else None
        self._listed: list[Any] | None = None
        self._agreement: Agreement | None = None
        if not isinstance(keys, os.PathLike | beam.PCollection):
            try:
                named = keys_named(keys, "public_keys")
                self._listed = plain_keys(named.to_pylist() if hasattr(named, "to_pylist") else named)
            except InvalidInputError as error:
                raise InvalidInputError(f"{error}; to read keys from a file, pass pathlib.Path(…)") from None
            if not self._listed:
                raise InvalidInputError("public_keys is empty, so nothing would be released; pass at least one key")

    def with_agreement(self, agreement: Agreement | None) -> "PublicKeys":
        """Return the keys cast to the type of an agreement's; `InvalidInputError` if a listed key does not fit."""
        if agreement is None or agreement.key is None:
            return self
        keys = copy.copy(self)
        keys._agreement = agreement  # noqa: SLF001 - of this class
        if self._listed is not None:
            keys._listed = plain_keys(agreement.keys_of(self._listed))  # noqa: SLF001
        return keys

    def collection(self, pipeline: beam.Pipeline) -> beam.PCollection:
        """Return the different keys, as a collection in the global window."""
        if self._listed is not None:
            listed = beam.ParDo(Listed(self._listed)).with_output_types(Any)
            return pipeline | "Once" >> beam.Impulse() | "Public keys" >> listed
        keys = self._keys
        if keys is None:
            # as bytes, since Beam's own decoding keeps a byte order mark
            lines = pipeline | "Read public keys" >> beam.io.ReadFromText(self._path, coder=beam.coders.BytesCoder())
            keys = lines | "Keys of lines" >> beam.FlatMap(_key_of_line, self._path).with_output_types(str)
        elif not isinstance(keys.windowing.windowfn, GlobalWindows):
            raise InvalidInputError(
                "public_keys must be in the global window, because a key is public in all windows, got a collection "
                f"in {type(keys.windowing.windowfn).__name__}. Apply beam.WindowInto(beam.window.GlobalWindows()) to "
                "it"
            )
        checked = keys | "Check public keys" >> beam.Map(_public_key, self._agreement).with_output_types(Any)
        return checked | "Different public keys" >> beam.Distinct()

    def keep(self, keyed: beam.PCollection, keys: beam.PCollection, *, count: bool) -> beam.PCollection:
        """Return those of ``KV[key, value]`` whose key is public; ``keys`` is what `collection` returned."""
        side_inputs = {} if self._listed is not None else {"public": as_dict(keys)}
        keep = beam.ParDo(KeepKeys(self.listed, count=count), **side_inputs)
        return keyed | "Keep public keys" >> keep.with_output_types(keyed.element_type)

    @property
    def listed(self) -> frozenset[Any] | None:
        """The keys, if they were given as a list."""
        return None if self._listed is None else frozenset(self._listed)


def as_dict(keys: beam.PCollection) -> beam.pvalue.AsDict:
    """Return a collection of keys as a side input that looks a key up fast."""
    return beam.pvalue.AsDict(keys | "With nothing" >> beam.Map(lambda key: (key, None)))


class KeepKeys(Step):
    """Drop elements whose keys are not listed, or not in the side input."""

    def __init__(self, listed: frozenset[TableKey] | None, *, count: bool) -> None:
        self._listed, self._count = listed, count

    def process(
        self, keyed: tuple[Any, Any], public: Mapping[TableKey, None] | None = None
    ) -> Iterator[tuple[Any, Any]]:
        """Yield the element if its key is public."""
        keys = public if self._listed is None else self._listed
        # only plain types: True and 1.0 equal 1 in Python
        if type(keyed[0]) in (str, bytes, int) and keys is not None and keyed[0] in keys:
            yield keyed
        elif self._count:
            Metrics.counter(METRICS, "keys_dropped").inc()


def plain_keys(keys: Iterable[TableKey]) -> list[TableKey]:
    """Return the different keys in plain types: equal keys of two types would be released twice."""
    return list(dict.fromkeys(map(_public_key, keys)))


def _public_key(key: TableKey, agreement: Agreement | None = None) -> Any:
    plain = plain_key(key, "public_keys")
    return plain if agreement is None else plain_key(agreement.keys_of([plain])[0], "public_keys")


def _key_of_line(line: bytes, path: str) -> Iterator[str]:
    try:
        key = line.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInputError(f"{path} has a line that is not UTF-8; convert the file to UTF-8") from None
    if key.strip() == key:
        yield from [key] if key else []
    elif key.strip():
        raise InvalidInputError(
            f"the public key {key!r:.80} in {path} begins or ends with white space; remove it, or pass the keys as a "
            "list"
        )
