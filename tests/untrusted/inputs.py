"""Readers of a party's own inputs: event files, messages, logs, jobs, agreements, and states of streams."""

import dataclasses
import gzip
import io
import json
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.utils.timestamp import Timestamp

import streamsketch as ss
from streamsketch.beam.run.claims import Claim
from streamsketch.beam.streams import DecodeMessages
from streamsketch.data.readers.formats import batches, parts_of
from streamsketch.features import Category, Embedding, Features, Number
from streamsketch.intake import BadLines, Intake
from streamsketch.intake.lines import LineFormat, Lines
from streamsketch.once.root_keys import fetch_root_key
from streamsketch.streams import Stream
from streamsketch.streams.job import Job
from streamsketch.streams.policy import StreamPolicy
from tests.streams.naive import AGREEMENT, HEADER, Row, batch_of, policy_of
from tests.tampering import resealed
from tests.untrusted.mutations import changed_bytes, changed_footer, changed_json
from tests.untrusted.reading import Change, Reader, from_file

ROWS = [
    Row(second, ["north", "south"][second % 2], "abc"[second % 3], 1 + second % 3, f"c{second % 4}")
    for second in range(1, 13)
]
NAMES = HEADER.strip().split(",")
INTAKE = Intake(AGREEMENT)
MESSAGES = pa.schema({"at": pa.timestamp("us", "UTC"), "shop": pa.string(), "item": pa.string(), "n": pa.int64()})


FEATURES = Features({"age": Number(0, 110), "ward": Category(["A", "B"]), "scan": Embedding(3, waves=2)}, seed=7)


def nested(change: Change, *names: str) -> Change:
    """Return a change of one of the objects in a JSON object."""

    def changed(data: bytes, chance: random.Random) -> bytes:
        fields = json.loads(data)
        name = chance.choice(names)
        try:
            fields[name] = json.loads(change(json.dumps(fields.get(name)).encode(), chance))
        except (ValueError, RecursionError):
            fields[name] = {}
        return json.dumps(fields).encode()

    return changed


# --- event files ------------------------------------------------------------------------------------------------


def _events() -> dict[str, list[bytes]]:
    """Return files of the same events, by what their names end in."""
    rows = batch_of(ROWS).to_pylist()
    csv = HEADER + "".join(row.line for row in ROWS)
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    fields = [{"name": name, "type": ["null", "string"]} for name in NAMES]
    avro = []
    for codec in ("null", "deflate"):
        fastavro.writer(sink := io.BytesIO(), {"type": "record", "name": "r", "fields": fields}, rows, codec=codec)
        avro.append(sink.getvalue())
    table = pa.Table.from_batches([batch_of(ROWS)])
    typed = table.set_column(3, "n", pa.array([row.n for row in ROWS], pa.int32()))
    parquet = []
    for one, options in (
        (table, {}),
        (typed, {"compression": "zstd", "data_page_version": "2.0"}),
        (table, {"use_dictionary": False, "column_encoding": dict.fromkeys(NAMES, "DELTA_BYTE_ARRAY")}),
        (table, {"compression": "none", "row_group_size": 5}),
    ):
        pq.write_table(one, sink := io.BytesIO(), **options)
        parquet.append(sink.getvalue())
    return {
        "csv": [csv.encode(), csv.replace("north", '"no,""rth"').encode()],
        "csv.gz": [gzip.compress(csv.encode())],
        "jsonl": [lines, lines.replace(b'"n": "', b'"n": 1, "m": "')],
        "avro": avro,
        "parquet": parquet,
        "log": [b"one line\nanother\n\nthe last"],
    }


def _sketch_events(data: bytes, ending: str) -> None:
    """Do what the command does with a file, in both ways."""
    path, agreed = f"events.{ending}", ending != "log"
    columns = AGREEMENT.names if agreed else ["line"]
    file = io.BytesIO(data)
    for part in range(parts_of(file, path)):
        for batch in batches(file, path, part, columns, columns, any_text=agreed):
            if agreed:
                AGREEMENT.projection.table().add_events(INTAKE.read(batch))
            AGREEMENT.projection.sketch().update(batch.column(columns[0]))


def _event_readers() -> dict[str, Reader]:
    return {
        f"events in {ending}": Reader(
            samples,
            [changed_bytes, changed_footer] if ending == "parquet" else [changed_bytes],
            lambda data, ending=ending: _sketch_events(data, ending),  # type: ignore[misc]
            ss.InvalidInputError,
        )
        for ending, samples in _events().items()
    }


def _line_readers() -> dict[str, Reader]:
    """Return the command's readers of streams, which leave bad lines out."""

    def reading(form: LineFormat) -> Callable[[bytes], None]:
        def read(data: bytes) -> None:
            with BadLines("skip") as bad:
                lines = Lines("a stream", form, NAMES, NAMES, bad, any_text=True)
                for piece in lines.pieces(iter([data[:50], data[50:], b""])):
                    lines.read(
                        piece,
                        lambda batch, first: AGREEMENT.projection.table().add_events(INTAKE.read(batch, first)),
                    )

        return read

    events = _events()
    forms: list[tuple[LineFormat, Any]] = [("csv", ss.InvalidInputError), ("jsonl", ())]  # of the header
    return {f"lines of {form}": Reader(events[form], [changed_bytes], reading(form), error) for form, error in forms}


# --- messages ---------------------------------------------------------------------------------------------------


def _message_readers() -> dict[str, Reader]:
    columns = [
        pa.array([60_000_000 + row.at for row in ROWS], pa.timestamp("us", "UTC")),
        pa.array([row.shop for row in ROWS]).dictionary_encode(),
        pa.array([row.item for row in ROWS], pa.string_view()),
        pa.array([row.n for row in ROWS]),
    ]
    batch = pa.RecordBatch.from_arrays(columns, MESSAGES.names)
    arrow = []
    for compression in (None, "zstd"):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
            writer.write_batch(batch)
        arrow.append(sink.getvalue().to_pybytes())
    rows = [dict(zip(MESSAGES.names, (60_000_000 + row.at, row.shop, row.item, row.n), strict=True)) for row in ROWS]
    texts = [json.dumps(rows[0]).encode(), "\n".join(map(json.dumps, rows)).encode()]
    agreed = ss.Agreement(AGREEMENT.projection, index="item", key="shop", value="n", missing="drop")

    def reading(form: Any) -> Callable[[bytes], None]:
        def read(data: bytes) -> None:
            step: Any = DecodeMessages(agreed, time="at", size=60, format=form)._step
            step.start_bundle()
            list(step.process(data, Timestamp(60)))
            list(step.finish_bundle())

        return read

    # what cannot be read is an output, not an error: it would stop the stream
    return {
        "messages in arrow": Reader(arrow, [changed_bytes], reading("arrow"), ()),
        "messages in json": Reader(texts, [changed_bytes, changed_json], reading("json"), ()),
    }


# --- jobs, agreements, states ---------------------------------------------------------------------------------


def _jobs() -> list[bytes]:
    job = policy_of(Path("out")).job
    more = dataclasses.replace(job, clock="heartbeats", max_ahead="1 hour", max_dropped=0.5, stream="shops")
    return [one.to_json().encode() for one in (job, more, dataclasses.replace(job, ledger="l", dataset="d"))]


def _use_job(data: bytes) -> None:
    job = Job.from_json(data)
    policy = StreamPolicy(AGREED.replace(terms=ss.Terms(epsilon=1)), job)
    str(policy.publisher().guarantee)
    assert not job.changed(json.loads(job.to_json()))


AGREED = policy_of(Path("out")).agreement
SCHEDULED = policy_of(Path("out"), schedule={"kind": "tree", "horizon": 30, "max_windows": 2, "gap": 7}).agreement
MONTHS = AGREED.replace(
    windows=ss.Windows(time="at", every="month", zone="Europe/Berlin", first="2026-11", last="2027-01")
)


def _stream(folder: Path, clip: str, schedule: dict[str, Any] | None) -> Stream:
    return Stream(*policy_of(folder, epsilon=1.0, clip=clip, schedule=schedule), folder / "s.raw-stream")


def _state(clip: str, schedule: dict[str, Any] | None) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        stream = _stream(Path(folder), clip, schedule)
        stream.add(batch_of([*ROWS, *(row._replace(at=row.at + 90) for row in ROWS)]), 1)
        stream.save({"bytes": 1})
        stream._draw()
        return (Path(folder) / "s.raw-stream").read_bytes()


def _state_reader(clip: str, schedule: dict[str, Any] | None = None) -> Reader:
    def read(data: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "s.raw-stream").write_bytes(data)
            stream = _stream(Path(folder), clip, schedule)
            json.dumps(stream.summary)
            stream.windows.closing()
            stream.add(batch_of(ROWS), 1)

    return Reader([_state(clip, schedule)], [changed_bytes, resealed], read, ss.InvalidInputError)


def input_readers() -> dict[str, Reader]:
    """Return these readers by name."""
    invalid = ss.InvalidInputError
    inner = ("projection", "key", "unit", "neighbours", "windows", "schedule")
    return {
        **_event_readers(),
        **_line_readers(),
        **_message_readers(),
        "job": Reader(_jobs(), [changed_json], _use_job, invalid),
        "agreement": Reader(
            [one.to_json().encode() for one in (AGREEMENT, AGREED, SCHEDULED, MONTHS)],
            [changed_json, nested(changed_json, *inner)],
            from_file(ss.Agreement.load),
            invalid,
        ),
        "features": Reader(
            [FEATURES.to_json().encode()], [changed_json], lambda data: Features.from_json(data).to_json(), invalid
        ),
        "state of units": _state_reader("scale"),
        "state of sums": _state_reader("none"),
        "state of rows": _state_reader("scale", {"kind": "tree", "horizon": 9, "max_windows": 2}),
        "claim": Reader(
            [Claim(bytes(8), bytes(8), bytes(32)).encode()],
            [changed_json, lambda _, chance: b"[" * chance.choice((1, 10**5))],
            lambda data: Claim.decode(data, "claim"),
            invalid,
        ),
        "root key": Reader(
            [bytes(range(32)), bytes(range(32)).hex().encode()],
            [changed_bytes],
            from_file(fetch_root_key),
            invalid,
        ),
    }
