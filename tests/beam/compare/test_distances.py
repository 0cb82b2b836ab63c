"""Queries through Beam give what a comparison by hand gives."""

import functools
import itertools
import math
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch.beam import (
    DistancesTo,
    NearestNeighbours,
    PairwiseDistances,
    TumblingWindows,
    comparison_schema,
)
from streamsketch.beam.compare.blocks import shard_of
from streamsketch.beam.compare.results import key_column
from tests.beam.rows import sketch_rows
from tests.beam.running import run
from tests.counted import counted, shops

PROJECTION = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=11)
PRIVACY: dict[str, Any] = {"epsilon": 1.0, "neighbours": ss.L1(1, unit="visit")}
BLOCKS = 4
MANY = 10  # more keys than blocks
REFERENCED = 6


def release(number: int) -> ss.PrivateSketch:
    sketch = PROJECTION.sketch()
    sketch.update(number, 30 * number)
    return sketch.release(**PRIVACY)


def in_few_blocks(name: str, count: int) -> list[str]:
    """Return keys that are gathered in the first four blocks of 32, so that few keys fill several."""
    keys = (f"{name} {number:03}" for number in itertools.count())
    return list(itertools.islice((key for key in keys if shard_of(key) < BLOCKS), count))


KEYED = [(key, release(number)) for number, key in enumerate(in_few_blocks("key", MANY))]
REFERENCES = {key: release(number) for number, key in enumerate(in_few_blocks("reference", REFERENCED))}
BY_KEY = dict(KEYED) | REFERENCES


def test_keys_are_in_more_than_one_block_and_blocks_hold_more_than_one_key() -> None:
    held = Counter(shard_of(key) for key, _ in KEYED)
    assert len(held) > 1
    assert max(held.values()) > 1


def queried(transform: Any, tmp_path: Path, keyed: list[Any] = KEYED) -> list[Any]:
    return run(lambda pipeline: pipeline | beam.Create(keyed) | transform, tmp_path)[0]


def queried_at_once(transforms: list[Any], tmp_path: Path, keyed: list[Any] = KEYED) -> list[list[Any]]:
    """Return what each of several transforms finds, in one pipeline."""

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        given = pipeline | beam.Create(keyed)
        found = [given | f"{at}" >> one | f"Name {at}" >> beam.WithKeys(at) for at, one in enumerate(transforms)]
        return found | beam.Flatten()

    named = run(build, tmp_path)[0]
    return [[one for at, one in named if at == place] for place in range(len(transforms))]


ASKED: dict[str, Callable[[], beam.PTransform]] = {
    "pairs": PairwiseDistances,
    "references": lambda: DistancesTo(REFERENCES),
    "nearest": lambda: NearestNeighbours(3),
}


@functools.cache
def answers(asked: str) -> list[Any]:
    """Return what a query among all keys finds: one run for all tests that look at it."""
    with tempfile.TemporaryDirectory() as folder:
        return queried(ASKED[asked](), Path(folder))


@functools.cache
def by_hand(first: str, second: str) -> ss.estimation.Estimate:
    return ss.squared_distance(BY_KEY[first], BY_KEY[second])


def check(first: str, second: str, estimate: ss.estimation.Estimate) -> None:
    expected = by_hand(first, second)
    assert math.isclose(estimate.value, expected.value, rel_tol=0, abs_tol=1e-4)
    assert math.isclose(estimate.standard_error, expected.standard_error, rel_tol=1e-6)


def test_all_pairs_are_compared_once_as_by_hand() -> None:
    found = answers("pairs")
    assert len(found) == len(dict(found)) == MANY * (MANY - 1) // 2
    for (first, second), estimate in found:
        assert first < second
        check(first, second, estimate)


def test_all_are_compared_with_a_fixed_set() -> None:
    found = answers("references")
    assert {pair for pair, _ in found} == {(key, other) for key, _ in KEYED for other in REFERENCES}
    assert len(found) == MANY * REFERENCED
    for (first, second), estimate in found:
        check(first, second, estimate)


def test_a_fixed_set_may_be_a_collection(tmp_path: Path) -> None:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        references = pipeline | "Known" >> beam.Create(list(REFERENCES.items())[:3])
        return pipeline | beam.Create(KEYED[:5]) | DistancesTo(references)

    assert len(run(build, tmp_path)[0]) == 15


@pytest.mark.parametrize(
    ("among", "top"), [("themselves", 1), ("themselves", 3), ("themselves", 100), ("references", 3)]
)
def test_the_nearest_are_those_of_a_full_comparison(among: str, top: int, tmp_path: Path) -> None:
    references = REFERENCES if among == "references" else None
    same = references is None and top == 3
    found = answers("nearest") if same else queried(NearestNeighbours(top, references=references), tmp_path)
    assert sorted(key for key, _ in found) == sorted(key for key, _ in KEYED)
    for key, nearest in found:
        gaps = {other: by_hand(key, other).value for other in references or dict(KEYED) if other != key}
        assert len(dict(nearest)) == len(nearest)
        assert [gaps[other] for other, _ in nearest] == sorted(gaps.values())[:top]  # equal ones in any order
        for other, estimate in nearest:
            check(key, other, estimate)


@pytest.mark.parametrize(
    ("asked", "transform"),
    [("pairs", PairwiseDistances), ("references", lambda **form: DistancesTo(REFERENCES, **form))],
)
def test_rows_and_columns_say_what_the_estimates_say(asked: str, transform: Any, tmp_path: Path) -> None:
    estimates = dict(answers(asked))
    rows, columns = queried_at_once([transform(results="rows"), transform(results="columns")], tmp_path)
    schema = comparison_schema(pa.string())
    assert {batch.schema for batch in columns} == {schema}
    in_columns = [row for batch in columns for row in batch.to_pylist()]
    for found in (rows, in_columns):
        assert {(row["first"], row["second"]) for row in found} == estimates.keys()
        assert len(found) == len(estimates)
        for row in found:
            assert list(row) == schema.names
            estimate = estimates[row["first"], row["second"]]
            assert (row["squared_distance"], row["standard_error"]) == (estimate.value, estimate.standard_error)
            low, high = estimate.interval(0.95)
            assert math.isclose(row["low_95"], low, rel_tol=1e-6, abs_tol=1e-12)
            assert math.isclose(row["high_95"], high, rel_tol=1e-6, abs_tol=1e-12)


@pytest.mark.parametrize("form", ["rows", "columns"])
def test_the_nearest_come_as_rows_too(form: Any, tmp_path: Path) -> None:
    nearest = dict(answers("nearest"))
    found = queried(NearestNeighbours(3, results=form), tmp_path)
    if form == "columns":
        assert {batch.schema for batch in found} == {comparison_schema(pa.string(), ranked=True)}
        found = [row for batch in found for row in batch.to_pylist()]
    assert list(found[0])[-2:] == ["low_95", "high_95"]
    ranked = {(row["first"], row["rank"]): row for row in found}
    assert len(ranked) == len(found) == 3 * MANY
    for key, others in nearest.items():
        for rank, (other, estimate) in enumerate(others, start=1):
            row = ranked[key, rank]
            assert (row["second"], row["squared_distance"]) == (other, estimate.value)
            assert (row["low_95"], row["high_95"]) == pytest.approx(estimate.selected_interval(MANY - 1))
    for row in queried(NearestNeighbours(2, references=REFERENCES, results="rows"), tmp_path):
        estimate = by_hand(row["first"], row["second"])
        assert row["high_95"] == pytest.approx(estimate.selected_interval(len(REFERENCES)).high)


def empty_release() -> ss.PrivateSketch:
    """Return a release of an empty stream whose noise does not pass for one, as 2 % of them do."""
    while ss.squared_norm(found := PROJECTION.sketch().release(**PRIVACY)).value > 0:
        pass
    return found


(EMPTY,), SHAPE = in_few_blocks("empty", 1), in_few_blocks("shape", 4)
SHAPES: list[tuple[str, ss.PrivateSketch]] = [(EMPTY, empty_release())]
for name, (apples, pears) in zip(SHAPE, [(900, 100), (9000, 1100), (100, 900), (5000, 5000)], strict=True):
    shape = PROJECTION.sketch()
    shape.update([1, 2], [apples, pears])
    SHAPES.append((name, shape.release(**PRIVACY)))


@pytest.mark.parametrize(("by", "one"), [("cosine", ss.cosine), ("profile", ss.profile_distance)])
def test_streams_are_compared_by_shape(by: Any, one: Any, tmp_path: Path) -> None:
    found = dict(SHAPES)
    name = {"cosine": "cosine", "profile": "profile_distance"}[by]
    asked = [
        PairwiseDistances(by=by),
        PairwiseDistances(by=by, results="rows"),
        NearestNeighbours(2, by=by),
        NearestNeighbours(9, by=by, results="rows"),
        NearestNeighbours(9, by=by, results="columns"),
    ]
    pairs, rows, neighbours, ranked, ranked_columns = queried_at_once(asked, tmp_path, SHAPES)
    for (first, second), estimate in pairs:
        if first == EMPTY:
            assert math.isnan(estimate.value)
            continue
        expected = one(found[first], found[second])
        assert estimate.value == pytest.approx(expected.value, abs=1e-9)
        assert estimate.interval() == pytest.approx(expected.interval(), abs=1e-9)
    assert list(rows[0]) == ["first", "second", name, "standard_error", "low_95", "high_95"]
    assert all((row[name] is None) == (row["low_95"] is None) == (row["first"] == EMPTY) for row in rows)
    batches = queried(DistancesTo(found, by=by, results="columns"), tmp_path, [("new", release(3))])
    assert {batch.schema for batch in batches} == {comparison_schema(pa.string(), by=by)}
    nearest = dict(neighbours)
    assert nearest[EMPTY] == []
    assert nearest[SHAPE[0]][0][0] == SHAPE[1], "by distance it would be the third, the small one"
    if by == "cosine":
        assert dict(queried(NearestNeighbours(1), tmp_path, SHAPES[1:]))[SHAPE[0]][0][0] == SHAPE[2]
    assert len(ranked) == len(SHAPES[1:]) * len(SHAPES[2:])
    for row in ranked:
        ends = one(found[row["first"]], found[row["second"]]).selected_interval(len(SHAPES) - 1)
        assert (row["low_95"], row["high_95"]) == pytest.approx(ends, abs=1e-9)
    assert {batch.schema for batch in ranked_columns} == {comparison_schema(pa.string(), by=by, ranked=True)}
    in_columns = [row for batch in ranked_columns for row in batch.to_pylist()]
    assert sorted(in_columns, key=_place) == sorted(ranked, key=_place)


def _place(row: dict[str, Any]) -> tuple[str, int]:
    return row["first"], row["rank"]


def test_averages_are_compared_where_units_were_counted(tmp_path: Path) -> None:
    found = shops()
    asked = [PairwiseDistances(by="mean"), NearestNeighbours(1, by="mean")]
    pairs, neighbours = queried_at_once(asked, tmp_path, list(found.items()))
    estimates = dict(pairs)
    assert len(estimates) == 6
    for (first, second), estimate in estimates.items():
        if "kiosk" in (first, second):
            assert math.isnan(estimate.value)
        else:
            expected = ss.estimation.mean_distance(found[first], found[second])
            assert estimate.value == pytest.approx(expected.value)
            assert estimate.interval() == pytest.approx(expected.interval())
    rows = queried(DistancesTo(found, by="mean", results="rows"), tmp_path, [("new", counted(500, (3,)))])
    assert list(rows[0])[2] == "mean_distance"
    assert [row["second"] for row in rows if row["low_95"] is None] == ["kiosk"]
    nearest = dict(neighbours)
    assert nearest["kiosk"] == []
    assert nearest["north"][0][0] == "south", "by sums it would be the east, which is small too"


def test_columns_go_straight_into_parquet(tmp_path: Path) -> None:
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        (
            pipeline
            | beam.Create(KEYED)
            | PairwiseDistances(results="columns")
            | beam.io.parquetio.WriteToParquetBatched(str(tmp_path / "distances"), comparison_schema(pa.string()))
        )
    assert pq.read_table(list(tmp_path.glob("distances*"))).num_rows == MANY * (MANY - 1) // 2


def test_keys_of_several_types_compare_but_make_no_column(tmp_path: Path) -> None:
    mixed = [("b", release(1)), (b"a", release(2)), (7, release(3)), (-1, release(4))]
    found = queried(PairwiseDistances(), tmp_path, mixed)
    assert {pair for pair, _ in found} == {
        (b"a", -1), (b"a", 7), (b"a", "b"), (-1, 7), (-1, "b"), (7, "b"),
    }  # fmt: skip
    with pytest.raises(ss.InvalidInputError, match=r"of one type, got (bytes|int) and (int|str)"):
        queried(PairwiseDistances(results="columns"), tmp_path, mixed)


def nearest_to(known: Any, **form: Any) -> beam.PTransform:
    return NearestNeighbours(9, references=known, **form)


@pytest.mark.parametrize(
    ("ask", "form"),
    [
        (DistancesTo, "columns"),
        (nearest_to, "rows"),
        pytest.param(DistancesTo, "rows", marks=pytest.mark.long),
        pytest.param(nearest_to, "columns", marks=pytest.mark.long),
    ],
)
def test_each_column_of_keys_has_a_type_of_its_own(ask: Any, form: Any, tmp_path: Path) -> None:
    texts, numbers = KEYED[:6], [(number, release(number)) for number in range(6)]
    found = queried(ask(dict(numbers), results=form), tmp_path, texts)
    if form == "columns":
        assert {table.schema.field("second").type for table in found} == {pa.int64()}
        found = [row for table in found for row in table.to_pylist()]
    pairs = {(row["first"], row["second"]) for row in found}
    assert pairs == {(text, number) for text, _ in texts for number, _ in numbers}
    keyed, known = (texts + numbers, texts) if form == "rows" else (texts, texts + numbers)
    others = {key: release(1) for key, _ in known}
    with pytest.raises(ss.InvalidInputError, match="keys in one column must be of one type, got int and str"):
        queried(ask(others, results=form), tmp_path, keyed)


@pytest.mark.parametrize("key", [2**63, -(2**63) - 1, "\ud800"])
def test_keys_that_fit_in_no_column_are_refused(key: Any) -> None:
    with pytest.raises(ss.InvalidInputError, match="integers of at most 64 bits or valid Unicode"):
        key_column([key])


@pytest.mark.parametrize(
    ("key", "transform"),
    [
        ((1, "a"), PairwiseDistances()),
        (None, NearestNeighbours(2)),
        (1.5, DistancesTo(REFERENCES)),
        (True, PairwiseDistances()),
    ],
    ids=str,
)
def test_keys_are_text_bytes_or_integers(transform: Any, key: Any, tmp_path: Path) -> None:
    with pytest.raises(ss.InvalidInputError, match=f"keys must be text, bytes or integers, got {type(key).__name__}"):
        queried(transform, tmp_path, [(key, release(1)), ((1, 2), release(2)) if key == (1, "a") else KEYED[0]])
    with pytest.raises(ss.InvalidInputError, match="keys of references must be text"):
        DistancesTo({key: release(1)})


def test_integers_of_numpy_are_integers(tmp_path: Path) -> None:
    keyed = [(np.int64(1), release(1)), (2, release(2))]
    assert [pair for pair, _ in queried(PairwiseDistances(), tmp_path, keyed)] == [(1, 2)]
    with pytest.raises(ss.InvalidInputError, match="appears twice"):
        queried(PairwiseDistances(), tmp_path, [(np.int64(1), release(1)), (1, release(2))])


@pytest.mark.parametrize("transform", [PairwiseDistances(), NearestNeighbours(2), DistancesTo(REFERENCES)])
def test_raw_sketches_and_repeated_keys_are_refused(transform: Any, tmp_path: Path) -> None:
    def raw(pipeline: beam.Pipeline) -> beam.PCollection:
        return pipeline | beam.Create([("a", 1, 1)]) | sketch_rows(PROJECTION) | transform

    with pytest.raises(TypeError, match="need PrivateSketch values, got a Sketch"):
        run(raw, tmp_path)
    with pytest.raises(ss.InvalidInputError, match="appears twice"):
        queried(transform, tmp_path, [("a", release(1)), ("a", release(2))])


@pytest.mark.parametrize("blocks_of_both", [1, 2], ids=["in one block", "in two blocks"])
def test_releases_that_cannot_be_compared_are_refused_within_and_across_blocks(
    blocks_of_both: int, tmp_path: Path
) -> None:
    first, *others = (key for key, _ in KEYED)
    second = next(key for key in others if len({shard_of(first), shard_of(key)}) == blocks_of_both)
    same = release(1)
    with pytest.raises(ss.errors.DependentNoiseError, match="share the noise"):
        queried(PairwiseDistances(), tmp_path, [(first, same), (second, same)])
    with pytest.raises(ss.errors.DependentNoiseError, match="share the noise"):
        queried(DistancesTo({"x": same}), tmp_path, [(first, same)])
    other = PROJECTION.replace(seed=12).sketch().release(**PRIVACY)
    with pytest.raises(ss.errors.IncompatibleProjectionsError, match="seed"):
        queried(NearestNeighbours(1), tmp_path, [(first, same), (second, other)])


@pytest.mark.parametrize("transform", [PairwiseDistances(), PairwiseDistances(results="columns")])
def test_one_key_alone_has_no_distances(transform: Any, tmp_path: Path) -> None:
    assert queried(transform, tmp_path, KEYED[:1]) == []


def test_one_key_alone_has_no_neighbours(tmp_path: Path) -> None:
    assert queried(NearestNeighbours(3), tmp_path, KEYED[:1]) == [(KEYED[0][0], [])]
    assert queried(NearestNeighbours(3, results="rows"), tmp_path, KEYED[:1]) == []


def test_each_window_is_compared_by_itself(tmp_path: Path) -> None:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        timed = [beam.window.TimestampedValue(keyed, 60 * (place % 2)) for place, keyed in enumerate(KEYED[:6])]
        return pipeline | beam.Create(timed) | TumblingWindows(60) | PairwiseDistances()

    assert len(run(build, tmp_path)[0]) == 2 * 3


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: PairwiseDistances(results="table"), "results must be"),  # type: ignore[arg-type]
        (lambda: PairwiseDistances(by="size"), "by must be"),  # type: ignore[arg-type]
        (lambda: DistancesTo(REFERENCES, by="size"), "by must be"),  # type: ignore[arg-type]
        (lambda: NearestNeighbours(1, by="size"), "by must be"),  # type: ignore[arg-type]
        (lambda: NearestNeighbours(0), "top must be"),
        (lambda: NearestNeighbours(True), "top must be"),  # noqa: FBT003
        (lambda: NearestNeighbours(1, references={}), "at least one entry"),
        (lambda: DistancesTo([]), "got list"),  # type: ignore[arg-type]
        (lambda: DistancesTo({}), "got none"),
    ],
)
def test_mistakes_are_found_before_the_job_runs(build: Any, message: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=message):
        build()
