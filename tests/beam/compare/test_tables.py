"""One sorted Parquet table of a pipeline's releases, whole or not at all."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch.beam import ReleasePerKey, TumblingWindows, WriteTable
from streamsketch.beam.compare import tables
from tests.beam.rows import agreement_of, bound_rows, sketch_rows
from tests.beam.running import run

PROJECTION = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=11)
RELEASE = PROJECTION.sketch().release(epsilon=1.0, neighbours=ss.L1(1))
RELEASE_OF_ANN = (
    ss.bounding.bound_units([(["k"], [1], [1], ["Ann"])], PROJECTION, neighbours=ss.L1(3, unit="customer"))
    .sketch_of("k")
    .release(epsilon=1.0, neighbours=ss.L1(3, unit="customer"))
    .with_agreement(agreement_of(PROJECTION).fingerprint)
)
FLIPS = ss.signs.DPSignLogistic(epsilon=1.0, neighbours=ss.L1(1))


@pytest.fixture
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    def write(path: Path, releases: list[Any], *options: str, **arguments: Any) -> Any:
        def build(pipeline: beam.Pipeline) -> beam.PCollection:
            return pipeline | beam.Create(releases) | WriteTable(str(path), **arguments)

        return run(build, tmp_path_factory.mktemp("elements"), *options)

    return write


@pytest.mark.parametrize("keys", [["b", "a", "Ü", "z" * 300], [b"b", b"a"], [3, -7, 1 << 62]], ids=str)
def test_the_table_is_sorted_and_reads_as_one_that_was_saved(
    written: Callable[..., Any], keys: list[Any], tmp_path: Path
) -> None:
    releases = {key: PROJECTION.sketch().release(epsilon=1.0, neighbours=ss.L1(1)) for key in keys}
    written(tmp_path / "table.parquet", list(releases.items()))
    ss.PrivateTable(releases).save(tmp_path / "saved.parquet")
    found = ss.load(tmp_path / "table.parquet")
    assert list(found) == sorted(keys)
    assert found == ss.load(tmp_path / "saved.parquet")
    one, other = (pq.read_schema(tmp_path / name) for name in ("table.parquet", "saved.parquet"))
    assert one.equals(other, check_metadata=True)


@pytest.mark.parametrize("mixed", [None, "another release", "a file"])
def test_releases_of_several_data_sets_state_on_what_their_table_rests(mixed: str | None, tmp_path: Path) -> None:
    near = ss.L1(3, unit="customer")
    noise = ss.AdditiveNoise(epsilon=1.0, neighbours=near)
    said = ("no customer is in two of the data sets whose releases are in the table",)

    def of(pipeline: beam.Pipeline, name: str) -> beam.PCollection:
        events = pipeline | f"Rows {name}" >> beam.Create([("Ann", name, 1, 1), ("Bob", f"{name} too", 1, 1)])
        events |= f"Bound {name}" >> bound_rows(PROJECTION, unit="customer", neighbours=near)
        sketches = events | f"Sketch {name}" >> sketch_rows(PROJECTION)
        found = sketches | f"Release {name}" >> ReleasePerKey(noise, public_keys=[name, f"{name} too"])
        return found | f"Rename {name}" >> beam.Map(lambda keyed: (f"shop {keyed[0]}", keyed[1]))

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        releases = of(pipeline, "north")
        if mixed == "another release":
            releases = (releases, of(pipeline, "south")) | beam.Flatten()
        elif mixed == "a file":
            releases = (releases, pipeline | beam.Create([("else", RELEASE_OF_ANN)])) | beam.Flatten()
        return releases | WriteTable(str(tmp_path / "table.parquet"))

    run(build, tmp_path)
    table = ss.load(tmp_path / "table.parquet")
    assert len(table) == {None: 2, "another release": 4, "a file": 3}[mixed]
    assert (table.guarantee.basis, table.guarantee.conditions) == ("enforced", () if mixed is None else said)


def test_the_file_depends_on_the_releases_alone(written: Callable[..., Any], tmp_path: Path) -> None:
    numbers = np.random.default_rng(1).permutation(300)  # of which more than one part is made
    for name, order in (("one", range(300)), ("other", numbers.tolist())):
        written(tmp_path / name / "table.parquet", [(f"{number:03}", RELEASE) for number in order])
    one, other = ((tmp_path / name / "table.parquet").read_bytes() for name in ("one", "other"))
    assert one == other
    assert pq.ParquetFile(tmp_path / "one" / "table.parquet").num_row_groups == 2


def test_repeated_bundles_leave_one_whole_file(written: Callable[..., Any], tmp_path: Path) -> None:
    folder = tmp_path / "out"
    written(folder / "table.parquet", [("a", RELEASE)], "--direct_runner_bundle_repeat=2")
    assert [path.name for path in folder.iterdir()] == ["table.parquet"]


def test_signs_have_their_own_table(written: Callable[..., Any], tmp_path: Path) -> None:
    release = FLIPS.release(PROJECTION.sketch())
    written(tmp_path / "signs.parquet", [("b", release), ("a", release)], signs=True)
    assert list(ss.load(tmp_path / "signs.parquet")) == ["a", "b"]


def test_no_releases_make_a_table_without_rows(written: Callable[..., Any], tmp_path: Path) -> None:
    written(tmp_path / "table.parquet", [])
    with pytest.raises(ss.errors.WireFormatError, match="a table without a row"):
        ss.load(tmp_path / "table.parquet")


def test_a_failed_write_leaves_what_was_there(
    written: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out" / "table.parquet"
    written(path, [("a", RELEASE)])
    before = path.read_bytes()

    class Broken(tables.pq.ParquetWriter):  # type: ignore[name-defined, misc]
        def write_table(self, *_: Any) -> None:
            raise OSError("disk full")

    monkeypatch.setattr(tables.pq, "ParquetWriter", Broken)
    with pytest.raises(OSError, match="disk full"):
        written(path, [("b", RELEASE)])
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["table.parquet"]


@pytest.mark.parametrize(
    ("releases", "error"),
    [
        ([("a", RELEASE), ("a", RELEASE)], ss.InvalidInputError),
        ([("a", RELEASE), (1, RELEASE)], ss.InvalidInputError),
        ([(1.5, RELEASE)], ss.InvalidInputError),
        ([("a", PROJECTION.sketch())], TypeError),
    ],
    ids=["twice", "types", "float", "raw"],
)
def test_what_makes_no_table_is_refused_and_nothing_is_written(
    written: Callable[..., Any], releases: list[Any], error: type[Exception], tmp_path: Path
) -> None:
    with pytest.raises(error):
        written(tmp_path / "table.parquet", releases)
    assert not list(tmp_path.glob("*table*"))


def test_releases_of_several_projections_are_refused_across_parts(written: Callable[..., Any], tmp_path: Path) -> None:
    other = PROJECTION.replace(seed=12).sketch().release(epsilon=1.0, neighbours=ss.L1(1))
    releases = [(number, RELEASE if number < 256 else other) for number in range(300)]
    with pytest.raises(ss.errors.IncompatibleProjectionsError):
        written(tmp_path / "table.parquet", releases)
    assert not list(tmp_path.glob("*table*"))


def test_windows_are_refused() -> None:
    pipeline = beam.Pipeline(runner="FnApiRunner")
    releases = pipeline | beam.Create([("a", RELEASE)]) | TumblingWindows(60)
    with pytest.raises(ss.InvalidInputError, match="Put the window into the key"):
        releases | WriteTable("table.parquet")
