"""Rows of features on every way into Beam: as in Python, whatever fields hold, and no row is refused."""

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import apache_beam as beam
import fastavro
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Timestamp

import streamsketch as ss
from streamsketch.beam import BoundContributions, ReadColumns, RowsToBatches, SketchPerKey, read_batches
from streamsketch.beam.intake.rows import WindowedRows
from streamsketch.beam.streams import DecodeMessages
from streamsketch.beam.streams.messages import encoded_batch
from streamsketch.data.lenient import lenient_column
from streamsketch.features import Category, Embedding, Features, Number
from tests.beam.running import run

COLUMNS: dict[str, Any] = {"age": Number(0, 110), "ward": Category(["A", "5", "true"]), "scan": Embedding(2, waves=2)}
FEATURES = Features(COLUMNS, seed=7, joint=2)
ONE = ss.SketchL2(1, unit="patient")
AGREEMENT = ss.Agreement(features=FEATURES, unit="patient", neighbours=ONE, clip="equal", missing="drop")
NAMES = ["patient", *COLUMNS]
NESTED: Any = {"x": [{"y": [1, [2]]}]}
ODD: list[tuple[Any, Any, Any, Any, Any, Any]] = [
    # what is given, and what stands for it in Python: age, ward, scan
    (47.5, "A", [1, 2.5], 47.5, "A", [1, 2.5]),
    (3, 5, [1, 0], 3, "5", [1, 0]),
    (float("nan"), None, [float("nan"), 1], None, None, None),
    (float("inf"), "Z", [1, float("inf")], 1e9, "Z", None),
    (-float("inf"), "", [0, 0], -5, None, [0, 0]),
    (10**400, "A", [10**400, 1], 110, "A", None),
    (None, True, None, None, "true", None),
    ("12.5", NESTED, "[2, 5]", 12.5, None, [2, 5]),
    ("old", [1], "[2, five]", None, "[1]", None),
    ([3], "A", [1], None, "A", [1]),
    (NESTED, "A", NESTED, None, "A", None),
    (7, "A", [[1, 2]], 7, "A", None),
    (7, "A", [1, "x"], 7, "A", None),
    (7, "A", [True, 1], 7, "A", None),
    (7, "\ud800", [1, None], 7, None, None),
    (1e-300, "A", [1e-300, 1e300], 0, "A", [0, 1]),
    ("1e999", "A", 5, 110, "A", None),
]
PEOPLE = [f"p{number}" for number in range(len(ODD))]
GIVEN = [(person, *row[:3]) for person, row in zip(PEOPLE, ODD, strict=True)]
MEANT = pa.table(
    {
        "patient": PEOPLE,
        "age": pa.array([row[3] for row in ODD], pa.float64()),
        "ward": pa.array([row[4] for row in ODD], pa.string()),
        "scan": pa.array([row[5] for row in ODD], pa.list_(pa.float64())),
    }
)


def cells(batches: list[Any]) -> dict[str, list[int]]:
    """Return the features of each person in batches."""
    found: dict[str, list[int]] = {}
    for batch in batches:
        rows = FEATURES.cells({name: batch.column(name) for name in COLUMNS})
        found |= dict(zip(batch.column("patient").to_pylist(), rows.tolist(), strict=True))
    return found


EXPECTED = cells(MEANT.to_batches())


def objects(rows: list[Any]) -> list[pa.RecordBatch]:
    step = RowsToBatches(AGREEMENT, NAMES)
    bundle = WindowedRows(step._intake, NAMES, count=False)  # without a runner
    bundle.start_bundle()
    early = [one for row in rows for one in bundle.process(row, GlobalWindow()) or ()]
    return [one.value for one in [*early, *bundle.finish_bundle()]]


def messages(rows: list[bytes], form: Any = "json") -> list[Any]:
    step = DecodeMessages(AGREEMENT, time="at", size=60, format=form)._step
    step.start_bundle()
    found = [*step.process(rows, Timestamp(60)), *step.finish_bundle()]
    assert not [one for one in found if isinstance(one, TaggedOutput)], "rows that are late, or malformed"
    return [one.value for one in found]


def lines(*, times: bool) -> list[bytes]:
    names = [*NAMES, "at"] if times else NAMES
    return [json.dumps(dict(zip(names, (*row, 60_000_000), strict=False))).encode() for row in GIVEN]


def test_python_objects_have_the_features_that_tables_have() -> None:
    assert cells(objects(GIVEN)) == EXPECTED
    assert cells(objects([dict(zip(NAMES, row, strict=True)) for row in GIVEN])) == EXPECTED


def test_json_messages_have_the_features_that_tables_have() -> None:
    assert cells(messages(lines(times=True))) == EXPECTED
    assert cells([batch for line in lines(times=True) for batch in messages([line])]) == EXPECTED, "one by one"


def test_arrow_messages_have_the_features_that_tables_have() -> None:
    times = pa.array([60_000_000] * len(PEOPLE)).cast(pa.timestamp("us", "UTC"))
    (batch,) = MEANT.append_column("at", times).to_batches()
    assert cells(messages([encoded_batch(batch)], "arrow")) == EXPECTED


def test_json_files_have_the_features_that_tables_have(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_bytes(b"\n".join(lines(times=False)))
    assert cells(list(read_batches([str(tmp_path / "rows.jsonl")], AGREEMENT))) == EXPECTED


def test_fields_that_are_not_there_are_missing() -> None:
    missing = FEATURES.cells({name: pa.nulls(1, pa.string()) for name in COLUMNS}).tolist()[0]
    assert cells(objects([{"patient": "Ann"}])) == {"Ann": missing}
    assert cells(messages([b'{"patient": "Ann", "at": 60000000}'])) == {"Ann": missing}


def test_a_pipeline_bounds_what_python_bounds(tmp_path: Path) -> None:
    rows = [line for line in lines(times=False) if b"ud800" not in line]  # which Beam itself cannot encode
    (tmp_path / "rows.jsonl").write_bytes(b"\n".join(rows))
    agreement = AGREEMENT.replace(key={"patient": "text"})  # a key for each: the sketches show each row
    (surrogate,) = [person for person, _, ward, _ in GIVEN if ward == "\ud800"]
    table: Any = ss.bound(MEANT, agreement)
    expected = {key: sketch.state().tolist() for key, sketch in table.items() if key != surrogate}
    for read in (
        lambda start: start | ReadColumns([str(tmp_path / "rows.jsonl")], agreement),
        lambda start: start | beam.Create(rows) | beam.Map(json.loads) | RowsToBatches(agreement, NAMES),
    ):

        def build(start: beam.Pipeline, read: Any = read) -> beam.PCollection:
            return read(start) | BoundContributions(agreement) | SketchPerKey(agreement)

        found, _ = run(build, tmp_path)
        assert {key: sketch.state().tolist() for key, sketch in found} == expected


def test_avro_lists_are_embeddings(tmp_path: Path) -> None:
    scan = {"type": "array", "items": ["null", "double"]}
    fields = [{"name": "patient", "type": "string"}, {"name": "age", "type": ["null", "double"]}]
    fields += [{"name": "ward", "type": "string"}, {"name": "scan", "type": ["null", scan]}]
    rows: list[Any] = [
        ("Ann", 3.0, "A", [1.0, 2.5]),
        ("Bob", None, "B", [1.0]),
        ("Cid", 1.0, "A", None),
        ("Dee", 9.0, "A", [None, 1.0]),
    ]
    with (tmp_path / "rows.avro").open("wb") as file:
        schema = {"type": "record", "name": "row", "fields": fields}
        fastavro.writer(file, schema, [dict(zip(NAMES, row, strict=True)) for row in rows])
    table = pa.table(dict(zip(NAMES, map(list, zip(*rows, strict=True)), strict=True)))
    assert cells(list(read_batches([str(tmp_path / "rows.avro")], AGREEMENT))) == cells(table.to_batches())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float32(0.5), "0.5"),
        (np.int8(-3), "-3"),
        (np.bool_(True), "true"),  # noqa: FBT003
        (np.array([1, 2]), "[1,2]"),
        ((1.5, Decimal("2.50")), "[1.5,2.50]"),
        (np.ones((2, 2)), None),
        (Decimal("1e-50"), "1E-50"),
        (Decimal("-Infinity"), "-1e999"),
        (Decimal("sNaN"), None),
        pytest.param(-(10**5000), "-1e999", id="long"),
        (dt.date(2026, 11, 23), "2026-11-23"),
        (dt.datetime(2026, 11, 23, tzinfo=dt.UTC), None),
        (b"\xc3\xa9", "é"),
        (b"\xff", None),
        (1j, None),
    ],
)
def test_objects_of_other_types_are_text_or_missing(value: Any, text: str | None) -> None:
    assert lenient_column([value]).to_pylist() == [text]


def test_lists_stay_lists_where_all_values_are() -> None:
    given = [[1, Decimal("2.5")], None, (), np.array([1.0, np.inf]), [None], [10**400]]
    assert lenient_column(given, lists=True).to_pylist() == [[1.0, 2.5], None, [], None, None, None]
    assert lenient_column([[1], "[2]"], lists=True).to_pylist() == ["[1]", "[2]"]
