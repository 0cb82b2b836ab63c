"""Agreements on Beam: rows are cast where they are read, releases carry the fingerprint of the agreement."""

from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.testing.util import assert_that

import streamsketch as ss
from streamsketch.beam import (
    BoundContributions,
    MergeSketches,
    ReadColumns,
    ReleasePerKey,
    SketchPerKey,
    TumblingWindows,
    read_batches,
)
from streamsketch.intake import Intake
from streamsketch.release import AdditiveNoise

PROJECTION = ss.SJLT(sketch_dim=64, sparsity=4, seed=7, resolution="1/100")
AGREEMENT = ss.Agreement(
    PROJECTION,
    key="land",
    index={"item": "text", "week": "integer", "price": "decimal(2)"},
    value="paid",
    unit={"buyer": "integer"},
    missing="drop",
)
ROWS = pa.table(
    {
        "land": ["D", "F", "D", "F"],
        "item": ["a", "b", "c", ""],
        "week": [7, 8, 9, 10],
        "price": [0.29, 1.1, 3.0, 0.07],
        "paid": [0.29, 0.57, 1.0, 2.0],
        "buyer": [1, 2, 3, 4],
    }
)


def write(folder: Path) -> list[str]:
    pq.write_table(ROWS, folder / "rows.parquet", row_group_size=2)
    lines = [",".join(map(str, row.values())) for row in ROWS.to_pylist()]
    (folder / "rows.csv").write_text("\n".join([",".join(ROWS.column_names), *lines]) + "\n")
    (folder / "rows.jsonl").write_bytes(ROWS.to_pandas().to_json(orient="records", lines=True).encode())
    return [str(folder / f"rows.{suffix}") for suffix in ("parquet", "csv", "jsonl")]


def run(transform: Any, check: Any) -> None:
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        assert_that(transform(pipeline), check)


def expected(found: list[Any]) -> None:
    table = ss.sketch(ROWS, AGREEMENT)
    assert isinstance(table, ss.SketchTable)
    assert dict(found) == {key: table[key] for key in ("D", "F")}


def test_files_of_every_format_are_read_alike(tmp_path: Path) -> None:
    for path in write(tmp_path):
        tables = [ss.SketchTable(AGREEMENT) for _ in range(2)]
        for batch in read_batches([path], AGREEMENT):
            tables[0].add_events(Intake(AGREEMENT).read(batch))
        assert tables[0] == ss.sketch(ROWS, AGREEMENT), path


@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv"])
def test_sketches_are_those_of_python(name: str, tmp_path: Path) -> None:
    write(tmp_path)
    run(lambda start: start | ReadColumns([str(tmp_path / name)], AGREEMENT) | SketchPerKey(AGREEMENT), expected)


def test_batches_that_were_not_cast_are() -> None:
    for element in (ROWS, ROWS.to_batches()[0]):
        run(lambda start, one=element: start | beam.Create([one]) | SketchPerKey(AGREEMENT), expected)


def test_bounded_rows_are_sketched_under_it(tmp_path: Path) -> None:
    path = write(tmp_path)[1]
    bounding = BoundContributions(AGREEMENT, neighbours=ss.L1(1, unit="buyer"))
    run(lambda start: start | ReadColumns([path], AGREEMENT) | bounding | SketchPerKey(AGREEMENT), expected)


def test_every_release_carries_the_fingerprint_with_data_and_without(tmp_path: Path) -> None:
    path = write(tmp_path)[0]

    def check(found: list[Any]) -> None:
        assert {key: release.agreement for key, release in found} == dict.fromkeys("DFX", AGREEMENT.fingerprint)

    release = ReleasePerKey(AdditiveNoise(epsilon=1.0, neighbours=ss.L1(1)), public_keys=["D", "F", "X"])
    run(lambda start: start | ReadColumns([path], AGREEMENT) | SketchPerKey(AGREEMENT) | release, check)


@pytest.mark.parametrize("form", ["list", "file", "collection"])
def test_public_keys_are_cast_as_keys_are(form: str, tmp_path: Path) -> None:
    weeks = AGREEMENT.replace(key={"week": "integer"}, index={"item": "text"}, missing="drop")

    def release(start: beam.Pipeline, names: list[str]) -> beam.PCollection:
        (tmp_path / "keys.txt").write_text("\n".join(names))
        keys = {"list": names, "file": tmp_path / "keys.txt"}.get(form) or start | "Keys" >> beam.Create(names)
        sketches = start | beam.Create([ROWS]) | SketchPerKey(weeks)
        return sketches | ReleasePerKey(AdditiveNoise(epsilon=1e6, neighbours=ss.L1(1)), public_keys=keys)

    def check(found: list[Any]) -> None:
        assert {key: ss.squared_norm(one).value > 0.01 for key, one in found} == {7: True, 11: False}

    run(lambda start: release(start, ["07", "11"]), check)
    with pytest.raises(Exception, match="not of the agreed type"):
        run(lambda start: release(start, ["north"]), check)


def test_what_cannot_follow_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="must be an Agreement"):
        SketchPerKey(PROJECTION)  # type: ignore[arg-type]
    with pytest.raises(ss.InvalidInputError, match="names no column of units"):
        BoundContributions(AGREEMENT.replace(unit=None))
    with pytest.raises(ss.InvalidInputError, match="pass neighbours"):
        BoundContributions(AGREEMENT)
    with pytest.raises(ss.InvalidInputError, match="has no key"):
        SketchPerKey(AGREEMENT.replace(key=None))
    with pytest.raises(Exception, match="elements must be Arrow record batches"):
        run(lambda start: start | beam.Create([("D", 1, 1)]) | SketchPerKey(AGREEMENT), expected)
    (tmp_path / "bad.csv").write_text("land,item,week,price,paid,buyer\nD,a,7,1,1,1\nD,a,x,1,1,1\n")
    with pytest.raises(ss.InvalidInputError, match=r"bad.csv: the column week holds string, and in row 2 a value"):
        list(read_batches([str(tmp_path / "bad.csv")], AGREEMENT))


def test_a_batch_is_cast_once() -> None:
    (batch,) = ROWS.to_batches()
    cast = Intake(AGREEMENT).cast(batch)
    assert Intake(AGREEMENT).cast(cast) is cast
    assert cast.column("price").to_pylist() == [29, 110, 300]
    other = AGREEMENT.replace(title="Returns")
    with pytest.raises(ss.errors.IncompatibleAgreementsError, match=f"by the agreement {AGREEMENT.fingerprint}"):
        Intake(other).cast(cast)


def test_windows_of_a_batch_with_long_dictionaries_still_know_that_it_was_cast() -> None:
    agreement = AGREEMENT.replace(
        index={"item": "text", "price": "decimal(2)", "at": "timestamp"}, value=None, unit=None
    )
    words = pa.array([f"item {number}" for number in range(100)]).dictionary_encode()
    times = pa.array([number * 10**6 for number in range(100)], pa.timestamp("us"))
    batch = pa.RecordBatch.from_pydict({"land": ["D"] * 100, "item": words, "price": [0.29] * 100, "at": times})
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        cast = pipeline | beam.Create([Intake(agreement).cast(batch)]) | TumblingWindows(10, column="at")
        cells = cast | SketchPerKey(agreement) | beam.Values() | beam.WindowInto(beam.window.GlobalWindows())
        total = cells | beam.CombineGlobally(MergeSketches(agreement.projection))
        expected = ss.sketch(pa.table(batch.to_pydict()), agreement)["D"]
        assert_that(
            total, lambda found: [one.state().tolist() for one in found] == [expected.state().tolist()] or 1 / 0
        )
