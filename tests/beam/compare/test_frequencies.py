"""How often items occur, through Beam: the library's own numbers, whatever tiles the dictionary is cut into."""

from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.transforms.window import FixedWindows, TimestampedValue

import streamsketch as ss
from streamsketch.beam import Frequencies, frequency_schema
from tests.beam.running import run

PROJECTION = ss.SJLT(sketch_dim=320, sparsity=5, seed=11)
TILE = 1 << 16
MANY = pa.array([f"word {number}" for number in range(TILE + 10)])
WORDS = MANY.slice(0, 10)
AGREED = ss.Agreement(PROJECTION, index=[("shop", "text"), ("week", "integer")], value="sold")
VISITS = pa.table({"week": ["1", "2", "1"], "shop": ["x", "x", "y"]})


def words(most: int) -> ss.PrivateSketch:
    sketch = PROJECTION.sketch()
    sketch.update(WORDS, [most * 3**-place for place in range(10)])
    return sketch.release(epsilon=1.0, neighbours=ss.L1(most))


def visits() -> ss.PrivateSketch:
    sketch = ss.sketch(pa.table({"shop": ["x", "y"], "week": [2, 1], "sold": [900, 400]}), AGREED)
    assert isinstance(sketch, ss.Sketch)
    return sketch.release(epsilon=1.0, neighbours=ss.L1(1000))


KEYED = [("a", words(3000)), ("b", words(900))]


def asked(build: Any, tmp_path: Path, keyed: list[Any] = KEYED) -> list[Any]:
    return run(lambda pipeline: build(pipeline, pipeline | beam.Create(keyed)), tmp_path)[0]


def expected(keyed: list[Any], items: Any, **how: Any) -> list[dict[str, Any]]:
    return [{"key": key} | row for key, release in keyed for row in ss.frequency(release, items, **how).to_pylist()]


def columns(keyed: list[Any], items: Any, **how: Any) -> pa.Table:
    return in_columns([
        ss.frequency(release, items, **how).add_column(0, "key", pa.array(len(items) * [key])) for key, release in keyed
    ])  # fmt: skip


def in_columns(tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).sort_by([("key", "ascending"), ("item", "ascending")])


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["key"], str(row["item"])))


def test_a_dictionary_in_memory_gives_the_library_s_rows(tmp_path: Path) -> None:
    how: dict[str, Any] = {"estimator": "median", "confidence": 0.8}
    found = asked(lambda _, releases: releases | Frequencies(WORDS, **how), tmp_path)
    assert in_order(found) == in_order(expected(KEYED, WORDS, **how))


def test_a_large_dictionary_in_memory_is_cut_into_tiles(tmp_path: Path) -> None:
    found = asked(lambda _, releases: releases | Frequencies(MANY, results="columns"), tmp_path)
    assert sorted(table.num_rows for table in found) == [10, 10, TILE, TILE]
    assert in_columns(found) == columns(KEYED, MANY)


def test_a_collection_gives_the_same_as_tables(tmp_path: Path) -> None:
    def build(pipeline: beam.Pipeline, releases: beam.PCollection) -> beam.PCollection:
        batches = [pa.record_batch({"word": MANY}), pa.table({"word": WORDS})]
        dictionary = pipeline | "Words" >> beam.Create([*batches, batches[1]])
        return releases | Frequencies(dictionary, results="columns")

    found = asked(build, tmp_path)
    assert {table.schema for table in found} == {frequency_schema(pa.string(), pa.string())}
    assert max(table.num_rows for table in found) == TILE
    assert in_columns(found) == columns(KEYED, pa.concat_arrays([MANY, WORDS, WORDS]))


@pytest.mark.parametrize("collected", [False, True])
def test_the_largest_are_those_of_top(tmp_path: Path, *, collected: bool) -> None:
    def build(pipeline: beam.Pipeline, releases: beam.PCollection) -> beam.PCollection:
        parts = [pa.table({"word": part}) for part in (WORDS.slice(0, 6), WORDS.slice(6))]
        dictionary = pipeline | "Words" >> beam.Create(parts) if collected else WORDS
        return releases | Frequencies(dictionary, n=3)

    found = asked(build, tmp_path)
    for key, release in KEYED:
        assert [row for row in found if row["key"] == key] == [
            {"key": key} | row for row in ss.top(release, WORDS, 3).table.to_pylist()
        ]


def test_items_are_cast_by_the_agreement_and_rows_keep_their_windows(tmp_path: Path) -> None:
    release = visits()

    def build(_: beam.Pipeline, releases: beam.PCollection) -> beam.PCollection:
        timed = (
            releases | beam.MapTuple(lambda at, keyed: TimestampedValue(keyed, at)) | beam.WindowInto(FixedWindows(9))
        )
        rows = timed | Frequencies(VISITS, agreement=AGREED)
        return rows | beam.Map(lambda row, window=beam.DoFn.WindowParam: (int(window.start), row))

    found = asked(build, tmp_path, [(1, (7, release)), (10, (7, release))])
    rows = in_order(expected([(7, release)], VISITS, agreement=AGREED))
    for start in (0, 9):
        assert in_order([row for at, row in found if at == start]) == rows
    assert rows[1]["item"] == {"shop": "x", "week": "2"}


@pytest.mark.parametrize(
    ("dictionary", "options", "what"),
    [
        (["a"], {"results": "estimates"}, "results must be"),
        (["a"], {"estimator": "mode"}, "estimator must be one of"),
        (["a"], {"confidence": 1.0}, "confidence must lie"),
        (["a"], {"n": 0}, "n must be"),
        ([], {}, "no items"),
        (["a"], {"agreement": AGREED}, "index has the columns shop, week"),
    ],
)
def test_mistakes_are_known_before_the_job(dictionary: Any, options: dict[str, Any], what: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=what):
        Frequencies(dictionary, **options)


def test_raw_sketches_end_the_job(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="release first"):
        asked(
            lambda _, releases: releases | beam.Map(lambda one: one).with_output_types(Any) | Frequencies(["a"]),
            tmp_path,
            [("x", PROJECTION.sketch())],
        )
