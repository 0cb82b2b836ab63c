"""Formats of company topics: each message gives the rows of the same message in JSON, or is counted as undecodable."""

import contextlib
import datetime as dt
import io
import json
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import streamsketch as ss
from streamsketch.agreement import Windows
from streamsketch.streams import Job
from tests.jobs.topic import AGREEMENT
from tests.serving import Page, serving_pages

pytest.importorskip("confluent_kafka")

import fastavro

from streamsketch.cli._jobs import decoder_of, message_form
from streamsketch.data.readers.avro import Records
from streamsketch.intake.rows import Intake
from streamsketch.jobs import (
    Decoder,
    Malformed,
    Message,
    Payloads,
    Registry,
    avro_rows,
    debezium_rows,
    imported,
    protobuf_rows,
)

COLUMNS = ["person", "shop", "item", "at"]
ROWS = [
    {"person": "a", "shop": "north", "item": item, "at": f"2026-11-22T00:0{place}:00Z"}
    for place, item in enumerate(["tea", "jam", "söl"])
]
SCHEMA = {
    "type": "record",
    "name": "Sale",
    "fields": [
        {"name": "note", "type": ["null", "string"], "default": None},
        *({"name": name, "type": "string"} for name in COLUMNS[:3]),
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}


class Answers(Page):
    """A registry that has one schema, and answers 503 as often as asked."""

    away = 0
    asked: ClassVar[list[tuple[str, str | None]]] = []
    schemas: ClassVar[dict[str, Any]] = {"/schemas/ids/258": {"schema": json.dumps(SCHEMA)}}

    def respond(self) -> None:
        Answers.asked.append((self.path, self.headers["Authorization"]))
        if Answers.away:
            Answers.away -= 1
            self.answer(503)
        elif self.path not in Answers.schemas:
            self.answer(404)
        else:
            self.answer_json(200, Answers.schemas[self.path])


@pytest.fixture
def registry() -> Iterator[str]:
    Answers.away, Answers.asked = 0, []
    with serving_pages(Answers) as address:
        yield f"{address}/"


def avro(row: dict[str, str], number: int = 258) -> bytes:
    out = io.BytesIO()
    at = dt.datetime.fromisoformat(row["at"])
    fastavro.schemaless_writer(out, SCHEMA, row | {"at": at, "note": "private"})
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()


def sale() -> Any:
    """Return a class of Protobuf messages, as a program that protoc makes has it."""
    file = descriptor_pb2.FileDescriptorProto(name="sale.proto", package="test", syntax="proto3")
    kind = file.message_type.add(name="Sale")
    for number, name in enumerate(COLUMNS, 1):
        kind.field.add(name=name, number=number, type="TYPE_STRING", label="LABEL_OPTIONAL")
    kind.field.add(name="tags", number=9, type="TYPE_STRING", label="LABEL_REPEATED")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("test.Sale"))


def protobuf(row: dict[str, str], indexes: bytes = b"\0") -> bytes:
    return b"\0" + (7).to_bytes(4, "big") + indexes + sale()(**row, tags=["x"]).SerializeToString()


def debezium(row: dict[str, str], operation: str = "c", *, enveloped: bool = True) -> bytes:
    change = {"before": None, "after": row, "op": operation, "ts_ms": 1}
    return json.dumps({"schema": {}, "payload": change} if enveloped else change).encode()


def read(form: Any, contents: list[bytes]) -> tuple[list[tuple[Any, ...]], Malformed]:
    """Return the rows of messages as the stream would get them, and what could not be read."""
    malformed, found = Malformed(None), list[tuple[Any, ...]]()

    def add(batch: pa.RecordBatch, _: int) -> None:
        events = Intake(AGREEMENT, time="at", windows=Windows(time="at", every="1 hour").of_times).read(batch)
        assert events.window is not None
        found.extend(zip(events.indices.tolist(), events.window.tolist(), strict=True))

    messages = [Message(offset, 0, content) for offset, content in enumerate(contents)]
    Payloads(AGREEMENT, "at", form, malformed).add(0, messages, add)
    return found, malformed


def forms(url: str) -> dict[str, tuple[Decoder, Callable[[dict[str, str]], bytes]]]:
    return {
        "avro": (avro_rows(Registry(url), COLUMNS), avro),
        "protobuf": (protobuf_rows(sale()), protobuf),
        "protobuf, other indexes": (protobuf_rows(sale()), lambda row: protobuf(row, b"\x04\x02\x00")),
        "protobuf, alone": (
            protobuf_rows(sale(), framed=False),
            lambda row: sale()(**row).SerializeToString(),
        ),
        "debezium": (debezium_rows, debezium),
        "debezium, without its schema": (debezium_rows, lambda row: debezium(row, "r", enveloped=False)),
        "own": (imported("tests.jobs.test_decoders:own"), lambda row: "|".join(row.values()).encode()),
    }


def own(content: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(COLUMNS, content.decode().split("|"), strict=True))])


def test_each_format_gives_the_rows_of_json(registry: str) -> None:
    expected, _ = read("json", [json.dumps(row).encode() for row in ROWS])
    assert len(expected) == len(ROWS)
    for name, (decoder, written) in forms(registry).items():
        found, malformed = read(decoder, [written(row) for row in ROWS])
        assert (found, malformed.rows, malformed.undecodable) == (expected, 0, 0), name


def test_what_cannot_be_decoded_is_counted_and_hides_no_other_message(registry: str) -> None:
    for name, (decoder, written) in forms(registry).items():
        for wrong in (b"\0", b"\xff" * 40, written(ROWS[0])[:-3]):
            found, malformed = read(decoder, [written(ROWS[0]), wrong, written(ROWS[1])])
            assert len(found) + malformed.rows + malformed.undecodable >= 3, (name, wrong)
            assert found[0] != found[-1], (name, wrong)


@pytest.mark.parametrize("operation", ["u", "d", "t", "x"])
def test_updates_and_deletions_of_a_table_are_no_events(operation: str) -> None:
    found, malformed = read(debezium_rows, [debezium(ROWS[0], operation)])
    assert (found, malformed.undecodable) == ([], 1)


def test_a_schema_is_asked_for_once_and_with_the_login(registry: str) -> None:
    read(avro_rows(Registry(registry, "me:secret"), COLUMNS), [avro(row) for row in ROWS])
    assert Answers.asked == [("/schemas/ids/258", "Basic bWU6c2VjcmV0")]


def test_a_schema_that_is_not_there_makes_its_messages_undecodable(registry: str) -> None:
    found, malformed = read(avro_rows(Registry(registry), COLUMNS), [avro(ROWS[0], 3), avro(ROWS[1])])
    assert (len(found), malformed.undecodable) == (1, 1)


def test_a_registry_that_is_away_loses_no_row(registry: str) -> None:
    """It raises, so that the stream ends where it was saved, and reads the messages again."""
    decoder = avro_rows(Registry(registry), COLUMNS)
    Answers.away = 1
    with pytest.raises(OSError, match="503"):
        read(decoder, [avro(ROWS[0])])
    found, malformed = read(decoder, [avro(ROWS[0])])
    assert (len(found), malformed.undecodable) == (1, 0)
    with pytest.raises(OSError, match="refused"):
        read(avro_rows(Registry("http://127.0.0.1:9"), COLUMNS), [avro(ROWS[0])])


@pytest.mark.parametrize("url", ["registry", "ftp://registry", "https://me:secret@registry", "http://"])
def test_other_addresses_of_a_registry_are_refused(url: str) -> None:
    with pytest.raises(ss.InvalidInputError) as refusal:
        Registry(url)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize("place", ["json", "json:", "json:nothing", "no.such.module:f", "json:__name__", ":f"])
def test_a_decoder_that_is_not_there_is_refused(place: str) -> None:
    with pytest.raises(ss.InvalidInputError):
        imported(place)


def test_a_job_states_its_format(registry: str) -> None:
    def job(**fields: Any) -> Job:
        return Job(folder="f", delay="1 min", **fields)

    assert decoder_of(job(), COLUMNS) == "arrow"
    assert decoder_of(job(format="json"), COLUMNS) == "json"
    assert decoder_of(job(format="debezium"), COLUMNS) is debezium_rows
    assert decoder_of(job(decoder="tests.jobs.test_decoders:own"), COLUMNS) is own
    decoder = decoder_of(job(format="avro", registry=registry), COLUMNS)
    assert callable(decoder)
    assert decoder(avro(ROWS[0])).column("item").to_pylist() == ["tea"]
    for wrong in (job(format="avro"), job(format="json", decoder="json:loads"), job(format="csv")):
        with pytest.raises(ss.InvalidInputError):
            decoder_of(wrong, COLUMNS)
    for elsewhere in (job(format="avro", registry=registry), job(decoder="json:loads"), job(format="debezium")):
        with pytest.raises(ss.InvalidInputError, match="one machine"):
            message_form(elsewhere)


NOTHING = {"type": "record", "name": "e", "fields": []}


@pytest.mark.parametrize(
    ("items", "before"),
    [
        ("null", "null"),
        ({"type": "null"}, "null"),
        (NOTHING, "null"),
        ({"type": "fixed", "name": "f", "size": 0}, "null"),
        ("e", NOTHING),
        ("far.e", NOTHING | {"namespace": "far"}),
        ({"type": "record", "name": "of", "fields": [{"name": "one", "type": "e"}]}, NOTHING),
        ("f", {"type": "fixed", "name": "f", "size": 0}),
    ],
)
def test_lists_of_entries_without_bytes_are_refused(items: Any, before: Any) -> None:
    """Of which a message of ten bytes may hold 10^18."""
    fields = [{"name": "item", "type": "string"}, {"name": "named", "type": before}]
    fields.append({"name": "more", "type": {"type": "array", "items": items}})
    schema = {"type": "record", "name": "r", "fields": fields}
    with pytest.raises(ss.InvalidInputError, match="no bytes"):
        Records(schema, "the message", ["item"])


def test_lists_of_named_types_with_bytes_are_read() -> None:
    point = {"type": "record", "name": "point", "fields": [{"name": "at", "type": "int"}]}
    fields = [{"name": "item", "type": "string"}, {"name": "first", "type": point}]
    fields.append({"name": "more", "type": {"type": "array", "items": "point"}})
    schema = {"type": "record", "name": "r", "fields": fields}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, {"item": "tea", "first": {"at": 1}, "more": [{"at": 2}]})
    assert Records(schema, "the message", ["item"]).read(out.getvalue()).to_pydict() == {"item": ["tea"]}


@contextlib.contextmanager
def answering(answer: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """Serve the same bytes to all that ask; yield the address, and what was asked."""
    asked = list[bytes]()

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listening.accept()
                with client:
                    asked.append(client.recv(1 << 16))
                    client.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}", asked
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"hello\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        OK + b"\r\n<html>",
        OK + b'Content-Length: 500\r\n\r\n{"sch',
        OK + b"Transfer-Encoding: chunked\r\n\r\n40\r\n{",
        OK + b"A: " + b"x" * (1 << 17) + b"\r\n\r\n",
        OK + b"\r\n" + b"[" * 100_000,
        OK + b"\r\n[]",
        OK + b"\r\n{}",
        OK + b'\r\n{"schema": 1}',
    ],
)
def test_an_answer_that_is_none_of_a_registry_loses_no_row(answer: bytes) -> None:
    """As of a proxy, or of a connection that broke: the message is read again once the registry answers."""
    with answering(answer) as (url, _), pytest.raises(OSError):  # noqa: PT011 - a connection raises several of them
        read(avro_rows(Registry(url), COLUMNS), [avro(ROWS[0])])


def test_a_login_is_not_sent_on_to_another_server() -> None:
    body = json.dumps({"schema": json.dumps(SCHEMA)}).encode()
    with answering(OK + b"\r\n" + body) as (other, asked):
        moved = f"HTTP/1.1 302 Found\r\nLocation: {other}/x\r\nContent-Length: 0\r\n\r\n"
        with answering(moved.encode()) as (url, first):
            assert Registry(url, "me:secret").schema(1) == SCHEMA
    assert b"Authorization: Basic" in first[0]
    assert b"uthorization" not in asked[0]
