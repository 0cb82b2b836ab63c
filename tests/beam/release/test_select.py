"""Private choice of keys through Beam."""

from collections import Counter
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

import streamsketch as ss
from streamsketch.beam import BoundContributions, ReleasePerKey, RowsToBatches, SelectKeys, TumblingWindows
from streamsketch.privacy import Budget, Guarantee, Mechanism
from streamsketch.privacy.key_selection import key_threshold
from streamsketch.privacy.mechanism import KeySelection
from streamsketch.release import AdditiveNoise
from tests.beam.rows import agreement_of, bound_rows, sketch_rows
from tests.beam.running import run

PROJECTION = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=11)
UNITS = 300
ROWS = [(unit, "large", unit % 7, 1) for unit in range(UNITS)] + [(unit, "small", 1, 1) for unit in range(2)]

NOISE = AdditiveNoise(epsilon=1.0, neighbours=ss.L1(1, unit="visitor", max_keys=2))


def bounded(pipeline: beam.Pipeline, rows: list[Any] = ROWS, **arguments: Any) -> beam.PCollection:
    return pipeline | beam.Create(rows) | bound_rows(PROJECTION, unit="visitor", max_keys=2, l1=1, **arguments)


def released(pipeline: beam.Pipeline, rows: list[Any] = ROWS) -> beam.PCollection:
    events = bounded(pipeline, rows)
    keys = events | SelectKeys(epsilon=0.5, delta=1e-9)
    return events | sketch_rows(PROJECTION) | ReleasePerKey(NOISE, selected_keys=keys)


def test_large_keys_are_released_small_ones_are_not_and_the_choice_is_paid_for(tmp_path: Path) -> None:
    ((key, release),) = run(released, tmp_path)[0]
    assert key == "large"
    alone = PROJECTION.sketch().release(epsilon=1.0, neighbours=ss.L1(1, unit="visitor", max_keys=2))
    assert release.noise == alone.noise
    choice = KeySelection(Budget(0.5, 1e-9))
    mechanism = Mechanism([*alone.guarantee.mechanism.steps, choice])
    assert release.guarantee == Guarantee(1.5, 1e-9, alone.guarantee.neighbours, mechanism, basis="enforced")
    assert str(choice) == "Laplace threshold for the keys, ε = 0.5, δ = 1e-09"
    assert ss.PrivateSketch.from_bytes(release.to_bytes()) == release


def test_a_chosen_key_whose_events_are_all_zero_is_released_too(tmp_path: Path) -> None:
    found = run(lambda pipeline: released(pipeline, [(unit, "zeros", 1, 0) for unit in range(UNITS)]), tmp_path)[0]
    assert [key for key, _ in found] == ["zeros"]


@pytest.mark.parametrize(
    ("neighbours", "max_keys"),
    [
        (ss.L1(1, unit="visitor", max_keys=10), None),
        (ss.L2(1, unit="visitor", max_keys=10), None),
        (ss.L1(10, unit="visitor"), 10),
        (ss.SketchL2(1, unit="visitor", max_keys=10), None),
    ],
    ids=["each key", "each key, L2", "together", "together, in cells"],
)
def test_the_choice_hides_a_unit_in_every_key_that_it_keeps(
    neighbours: Any, max_keys: int | None, tmp_path: Path
) -> None:
    """Noise for ten keys hides a hundred units a key; noise for one, with the same ε and δ, would show them."""
    rows = [(unit, f"key {number}", 1, 1) for number in range(10) for unit in range(100 if number else 1000)]
    agreement = agreement_of(PROJECTION.replace(resolution="1/4096"), unit="unit", neighbours=neighbours)

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        batches = pipeline | beam.Create(rows) | RowsToBatches(agreement, ["unit", "key", "index", "value"])
        return batches | BoundContributions(agreement, max_keys=max_keys) | SelectKeys(epsilon=0.5, delta=1e-9)

    assert key_threshold(Budget(0.5, 1e-9), max_keys=1).threshold < 50
    assert key_threshold(Budget(0.5, 1e-9), max_keys=10).threshold > 400
    assert run(build, tmp_path)[0] == ["key 0"]


def test_units_in_any_number_of_keys_choose_none() -> None:
    projection = PROJECTION.replace(resolution="1/4096")
    near = ss.SketchL2(2, unit="visitor")
    events = beam.Pipeline() | beam.Create(ROWS) | bound_rows(projection, unit="visitor", neighbours=near)
    with pytest.raises(ss.InvalidInputError, match=r"in any number of them.*max_keys"):
        events | SelectKeys(epsilon=0.5, delta=1e-9)


def test_no_data_chooses_nothing(tmp_path: Path) -> None:
    assert run(lambda pipeline: released(pipeline, []), tmp_path)[0] == []


def test_a_unit_counts_once_however_many_rows_it_has(tmp_path: Path) -> None:
    crowd = [(7, "one visitor", index % 9, 1) for index in range(1000)]
    assert run(lambda pipeline: released(pipeline, crowd), tmp_path)[0] == []


def test_each_window_chooses_for_itself(tmp_path: Path) -> None:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        rows = [beam.window.TimestampedValue((unit, "a", 1, 1), 0) for unit in range(UNITS)]
        rows += [beam.window.TimestampedValue((unit, "a", 1, 1), 60) for unit in range(3)]
        windowed = pipeline | beam.Create(rows) | TumblingWindows(60)
        events = windowed | bound_rows(PROJECTION, unit="visitor", max_keys=2, l1=1)
        keys = events | SelectKeys(epsilon=0.5, delta=1e-9)
        releases = events | sketch_rows(PROJECTION) | ReleasePerKey(NOISE, selected_keys=keys)
        return releases | beam.Map(lambda keyed, window=beam.DoFn.WindowParam: (keyed[0], int(window.start)))

    assert run(build, tmp_path)[0] == [("a", 0)]


def test_repeated_bundles_choose_alike_and_release_the_same(tmp_path: Path) -> None:
    keys = 30  # each is in with chance 0.56: all of them, or none, once in 10^7 runs
    threshold = key_threshold(Budget(keys / 4, 1e-9), max_keys=keys).threshold
    on_the_edge = [(unit, f"key {number}", 1, 1) for number in range(keys) for unit in range(threshold)]

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        events = pipeline | beam.Create(on_the_edge)
        events |= bound_rows(PROJECTION, unit="visitor", max_keys=keys, l1=1, shards=1)
        return events | SelectKeys(epsilon=keys / 4, delta=1e-9)

    found = Counter(run(build, tmp_path, "--direct_runner_bundle_repeat=2")[0])
    assert 0 < len(found) < keys, "on the edge, some are in and some are out"
    assert set(found.values()) == {3}


def test_events_that_nobody_bounded_are_refused() -> None:
    pipeline = beam.Pipeline(runner="FnApiRunner")
    rows = pipeline | beam.Create([("a", 1, 1)])
    with pytest.raises(ss.InvalidInputError, match="only BoundContributions knows"):
        rows | SelectKeys(epsilon=1.0, delta=1e-6)


def test_what_is_given_must_be_a_selection() -> None:
    pipeline = beam.Pipeline(runner="FnApiRunner")
    for keys in (pipeline | beam.Create(["a"]), ["a"]):
        with pytest.raises(ss.InvalidInputError, match="must be the output of SelectKeys"):
            ReleasePerKey(NOISE, selected_keys=keys)


def test_keys_selected_for_other_neighbours_than_the_callers_word_are_refused() -> None:
    events = bounded(beam.Pipeline(runner="FnApiRunner"))
    keys = events | SelectKeys(epsilon=0.5, delta=1e-9)
    moved = events | sketch_rows(PROJECTION) | beam.Map(lambda keyed: keyed)
    with pytest.raises(ss.InvalidInputError, match="use the same events and neighbours"):
        moved | ReleasePerKey(
            AdditiveNoise(epsilon=1.0, neighbours=ss.L1(1)),
            selected_keys=keys,
            assert_bounds=True,
            projection=PROJECTION,
        )


def test_keys_selected_in_other_windows_are_refused() -> None:
    windowed = beam.Pipeline(runner="FnApiRunner") | beam.Create(ROWS) | TumblingWindows(60)
    bounds = bound_rows(PROJECTION, unit="visitor", max_keys=2, l1=1)
    keys = windowed | bounds | SelectKeys(epsilon=1.0, delta=1e-6) | beam.WindowInto(beam.window.GlobalWindows())
    sketches = windowed | "Again" >> bounds | sketch_rows(PROJECTION)
    with pytest.raises(ss.InvalidInputError, match=r"different windows|must be the output of SelectKeys"):
        sketches | ReleasePerKey(NOISE, selected_keys=keys)


def test_keys_selected_under_other_bounds_are_refused() -> None:
    pipeline = beam.Pipeline(runner="FnApiRunner")
    rows = pipeline | beam.Create(ROWS)
    keys = rows | bound_rows(PROJECTION, unit="visitor", max_keys=1, l1=1) | SelectKeys(epsilon=1, delta=1e-6)
    sketches = rows | "Other" >> bound_rows(PROJECTION, unit="visitor", max_keys=2, l1=1)
    with pytest.raises(ss.InvalidInputError, match="use the same events and neighbours"):
        (sketches | sketch_rows(PROJECTION) | ReleasePerKey(NOISE, selected_keys=keys))
