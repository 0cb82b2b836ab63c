"""Sketches through Beam have the bits of one loop, however the data are split."""

import datetime as dt
from itertools import pairwise
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms.window import GlobalWindow
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.beam import MergeSketches, SketchCoder, SketchPerKey
from streamsketch.beam.intake.sketch import SketchBundles
from streamsketch.intake import Intake
from streamsketch.sketching.exact import ExactSums
from tests.beam.rows import agreement_of, sketch_rows
from tests.beam.running import run

PROJECTION = ss.SJLT(sketch_dim=32, sparsity=4, seed=11)
NUMBERED: dict[str, Any] = {"index": {"index": "integer"}}

Event = tuple[str, tuple[int, int]]
events = st.lists(
    st.tuples(st.sampled_from(["a", "b", "ü"]), st.tuples(st.integers(0, 1 << 40), st.integers(-9, 9))), max_size=40
)


def one_loop(stream: list[Event]) -> dict[str, ss.Sketch]:
    sketches: dict[str, ss.Sketch] = {}
    for key, (index, value) in stream:
        sketches.setdefault(key, PROJECTION.sketch()).update(index, value)
    return sketches


def batch(stream: list[Event]) -> pa.RecordBatch:
    keys, indices, values = [], [], []
    for key, (index, value) in stream:
        keys.append(key)
        indices.append(index)
        values.append(value)
    return pa.RecordBatch.from_arrays(
        [pa.array(keys, pa.string()), pa.array(indices, pa.int64()), pa.array(values, pa.int64())],
        names=["key", "index", "value"],
    )


STREAMS = 4  # in one job, of keys of their own: a job takes far longer than its rows
cases = st.lists(st.tuples(events, st.lists(st.integers(0, 40), max_size=4)), min_size=STREAMS, max_size=STREAMS)


@pytest.mark.parametrize("form", ["rows", "columns"])
@settings(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(streams=cases)
def test_any_split_gives_the_bits_of_one_loop(
    streams: list[tuple[list[Event], list[int]]], form: str, tmp_path: Path
) -> None:
    elements: list[Any] = []
    every: list[Event] = []
    for number, (stream, cuts) in enumerate(streams):
        named = [(f"{key}{number}", event) for key, event in stream]
        edges = [0, *sorted(min(cut, len(named)) for cut in cuts), len(named)]
        elements += [batch(named[low:high]) for low, high in pairwise(edges)] if form == "columns" else named
        every += named

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        return pipeline | beam.Create(elements) | beam.Reshuffle() | sketch_rows(PROJECTION, **NUMBERED)

    found, _ = run(build, tmp_path)
    assert len(found) == len(dict(found))
    assert dict(found) == one_loop(every)


def test_rows_and_batches_mix(tmp_path: Path) -> None:
    stream: list[Event] = [("a", (1, 2)), ("b", (3, 4)), ("a", (5, -6))]

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        mixed = [stream[0], batch(stream[1:]), pa.Table.from_batches([batch(stream)])]
        return pipeline | beam.Create(mixed) | sketch_rows(PROJECTION, **NUMBERED)

    found, _ = run(build, tmp_path)
    assert dict(found) == one_loop(stream + stream)


def test_repeated_bundles_do_not_count_twice(tmp_path: Path) -> None:
    stream: list[Event] = [("a", (index, 1)) for index in range(500)]

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        return pipeline | beam.Create(stream) | sketch_rows(PROJECTION, **NUMBERED)

    found, _ = run(build, tmp_path, "--direct_runner_bundle_repeat=2")
    assert len(found) == 3, "the sink sees every repetition"
    assert all(sketch == one_loop(stream)["a"] for _, sketch in found)


def test_large_bundles_are_flushed_early_with_the_same_bits() -> None:
    stream: list[Event] = [("ab"[index % 2], (index, 1)) for index in range(100)]
    work, window = SketchBundles(Intake(agreement_of(PROJECTION, **NUMBERED)), flush_bytes=0), GlobalWindow()
    work.start_bundle()
    parts = [
        part.value
        for start in range(0, len(stream), 7)
        for part in work.process(batch(stream[start : start + 7]), window)
    ]
    assert not list(work.finish_bundle())
    assert len(parts) == 2 * 15
    merged: dict[Any, Any] = {}
    for key, sketch in parts:
        merged[key] = merged[key].merge(sketch) or merged[key] if key in merged else sketch
    assert merged == one_loop(stream)


def test_rows_of_other_types_may_share_a_bundle(tmp_path: Path) -> None:
    given: list[Any] = [("a", 1, 1), (7, "2", 0.5), ("a", 2, (1 << 53) + 1), {"key": "7", "index": 1, "value": -1.0}]

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        return pipeline | beam.Create(given) | sketch_rows(PROJECTION, **NUMBERED)

    found, _ = run(build, tmp_path)
    expected = {key: PROJECTION.sketch() for key in "a7"}
    expected["a"].update([1, 2], [1, (1 << 53) + 1])
    expected["7"].update([2, 1], [0.5, -1.0])
    assert dict(found) == expected


def test_keys_that_beam_cannot_order_are_refused(tmp_path: Path) -> None:
    days = sketch_rows(PROJECTION, key={"key": "date"}, **NUMBERED)
    with pytest.raises(ss.InvalidInputError, match="keys must be text, bytes or integers, got a date"):
        run(lambda p: p | beam.Create([(dt.date(2024, 1, 1), (1, 1))]) | days, tmp_path)


def test_a_bundle_of_many_keys_stays_small() -> None:
    size = 8 * PROJECTION.sketch_dim
    limits = {"batch_rows": 50, "table_bytes": 100 * size, "flush_bytes": 200 * size}
    work = SketchBundles(Intake(agreement_of(PROJECTION, **NUMBERED)), **limits)
    work.start_bundle()
    largest = seen = 0
    keys = [f"key {number}" for number in range(5000)]
    window = beam.window.GlobalWindow()
    for _ in work.process(pa.table({"key": keys, "index": range(5000), "value": range(5000)}), window):
        seen += 1
        largest = max(largest, *(sketches.nbytes for sketches in work._bundles.values()))
    assert seen >= 4000
    assert largest <= 200 * 8 * PROJECTION.sketch_dim
    assert seen + sum(1 for _ in work.finish_bundle()) == 5000


def test_windows_keep_apart(tmp_path: Path) -> None:
    stream: list[Event] = [("a", (index, 1)) for index in range(20)]

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        return (
            pipeline
            | beam.Create(stream)
            | beam.Map(lambda event: beam.window.TimestampedValue(event, event[1][0]))
            | beam.WindowInto(beam.window.FixedWindows(10))
            | sketch_rows(PROJECTION, **NUMBERED)
        )

    found, _ = run(build, tmp_path)
    assert len(found) == 2
    expected = [one_loop(stream[:10])["a"], one_loop(stream[10:])["a"]]
    assert all(sketch in expected for _, sketch in found)
    assert found[0][1] != found[1][1]


def test_columns_are_named_and_tuples_index(tmp_path: Path) -> None:
    table = pa.table({"shop": ["x", "x"], "item": ["p", "q"], "day": [1, 2], "paid": [3, 4]})

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        return (
            pipeline
            | beam.Create([table])
            | sketch_rows(PROJECTION, key="shop", index={"item": "text", "day": "integer"}, value="paid")
        )

    found, _ = run(build, tmp_path)
    expected = PROJECTION.sketch()
    expected.update(PROJECTION.indices_of(["p", "q"], [1, 2]), [3, 4])
    assert found == [("x", expected)]


def test_a_missing_column_or_a_malformed_row_is_named(tmp_path: Path) -> None:
    with pytest.raises(ss.InvalidInputError, match="must have the column key exactly once"):
        run(
            lambda pipeline: pipeline | beam.Create([pa.table({"shop": ["x"]})]) | sketch_rows(PROJECTION, **NUMBERED),
            tmp_path,
        )
    with pytest.raises(ss.InvalidInputError, match=r"rows must be tuples \(key, index, value\)"):
        run(lambda pipeline: pipeline | beam.Create([("a", 1, 2, 3)]) | sketch_rows(PROJECTION, **NUMBERED), tmp_path)


def test_only_agreements_and_batches_are_taken(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="must be an Agreement"):
        SketchPerKey(PROJECTION)  # type: ignore[arg-type]
    with pytest.raises(ss.InvalidInputError, match="Apply RowsToBatches"):
        run(lambda p: p | beam.Create([("a", 1, 1)]) | SketchPerKey(agreement_of(PROJECTION)), tmp_path)


@given(events)
def test_coded_sketches_come_back_the_same_and_equal_streams_have_equal_bytes(stream: list[Event]) -> None:
    coder = SketchCoder()
    for sketch in one_loop(stream).values():
        assert coder.decode(coder.encode(sketch)) == sketch
    assert [coder.encode(s) for _, s in sorted(one_loop(stream).items())] == [
        coder.encode(s) for _, s in sorted(one_loop(stream[::-1]).items())
    ]


@pytest.mark.parametrize("counts", [(0, 0), (1, 5), (1 << 40, -(1 << 63))])
@pytest.mark.parametrize("indices", [[], [7], list(range(100))])
def test_counts_of_units_travel_with_their_sketch(counts: tuple[int, int], indices: list[int]) -> None:
    exact = PROJECTION.sketch()
    exact.update(indices)
    sums = ExactSums.of(exact.state(), np.array(counts, dtype=np.int64))
    sketch = ss.Sketch.from_state(PROJECTION, sums, exact.mass)
    found = SketchCoder().decode(SketchCoder().encode(sketch))
    assert found == sketch
    assert found.sums().counts[0].tolist() == (list(counts) if indices else [0, 0])  # no unit without rows counts
    assert found.counts is None, "whether they are whole, the collection knows"
    for cut in (1, 16, 17):
        with pytest.raises(ss.errors.WireFormatError):
            SketchCoder().decode(SketchCoder().encode(sketch)[:-cut])


@pytest.mark.parametrize("sketch_dim", [1, 256, 1 << 17])
@pytest.mark.parametrize("value", [1, -128, 1 << 20, -(1 << 40)])
def test_sparse_sketches_travel_light(sketch_dim: int, value: int) -> None:
    projection = ss.SJLT(dim=1000, sketch_dim=sketch_dim, sparsity=1, seed=11)
    sketch = projection.sketch()
    coder = SketchCoder()
    assert coder.decode(coder.encode(sketch)) == sketch
    sketch.update(7, value)
    encoded = coder.encode(sketch)
    assert coder.decode(encoded) == sketch
    assert len(encoded) < 250, "one cell of any width, its place, and the agreement"
    dense = projection.sketch()
    dense.update(range(1000), [value] * 1000)
    assert coder.decode(coder.encode(dense)) == dense


def test_the_coder_is_registered_and_deterministic() -> None:
    coder = beam.coders.registry.get_coder(ss.Sketch)
    assert isinstance(coder, SketchCoder)
    assert coder.is_deterministic()
    assert isinstance(MergeSketches(PROJECTION).get_accumulator_coder(), SketchCoder)


def test_merging_leaves_its_inputs_alone() -> None:
    parts = [PROJECTION.sketch() for _ in range(3)]
    for place, part in enumerate(parts):
        part.update(place, 1)
    before = [part.copy() for part in parts]
    total = MergeSketches(PROJECTION).merge_accumulators(parts)
    assert parts == before
    assert np.array_equal(total.state(), sum(part.state() for part in parts))
