"""Units counted through Beam: the counts of one machine, in the same draw as the cells, wherever units were bounded."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.transforms.window import TimestampedValue

import streamsketch as ss
from streamsketch.beam import (
    BoundContributions,
    ReleasePerKey,
    RowsToBatches,
    SelectKeys,
    SketchPerKey,
    TumblingWindows,
)
from streamsketch.release import AdditiveNoise
from streamsketch.release.checking.release import check_release
from tests.beam.running import run

PROJECTION = ss.SJLT(sketch_dim=64, sparsity=4, seed=7, resolution="1/8192")
COLUMNS = ["customer", "shop", "item", "n"]
EXACT: dict[str, Any] = {"epsilon": 5e5, "delta": 1e-6}  # noise of a few steps: counts are right to a hundredth
ROWS = [
    *((f"c{n}", "north", "abc"[n % 3], 1 + n) for n in range(10)),
    *((f"c{n}", "south", "abc"[n % 3], 2) for n in range(8, 12)),
    ("c3", "south", "a", 5),  # and returned: nothing is left of it
    ("c3", "south", "a", -5),
]
UNITS = {"north": 10, "south": 4, "west": 0}
KEYS = list(UNITS)


def agreed(neighbours: ss.privacy.Neighbours, clip: Any) -> ss.Agreement:
    counting = ss.privacy.Counting.of(PROJECTION, neighbours, delta=1e-6)
    columns: dict[str, Any] = {"key": "shop", "index": "item", "value": "n", "unit": "customer"}
    return ss.Agreement(PROJECTION, **columns, neighbours=neighbours, clip=clip, counting=counting)


L1 = agreed(ss.L1(6, unit="customer", max_keys=2), "scale")
EQUAL = agreed(ss.SketchL2(1, unit="customer", max_keys=2), "equal")


def noise(agreement: ss.Agreement, **changes: Any) -> AdditiveNoise:
    return AdditiveNoise(**EXACT | {"neighbours": agreement.neighbours} | changes)


def bounded(pipeline: beam.Pipeline, agreement: ss.Agreement, rows: list[Any] = ROWS) -> beam.PCollection:
    return pipeline | beam.Create(rows) | RowsToBatches(agreement, COLUMNS) | BoundContributions(agreement)


def released(agreement: ss.Agreement, rows: list[Any] = ROWS) -> Callable[[beam.Pipeline], beam.PCollection]:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        sketches = bounded(pipeline, agreement, rows) | SketchPerKey(agreement)
        return sketches | ReleasePerKey(noise(agreement), public_keys=KEYS)

    return build


@pytest.mark.parametrize("agreement", [L1, EQUAL], ids=["l1", "equal"])
def test_units_are_counted_as_on_one_machine_in_keys_without_data_too(agreement: ss.Agreement, tmp_path: Path) -> None:
    table = pa.table(dict(zip(COLUMNS, zip(*ROWS, strict=True), strict=True)))
    bound: Any = ss.bound(table, agreement)
    here = bound.release(**EXACT, neighbours=agreement.neighbours, public_keys=KEYS)
    found = dict(run(released(agreement), tmp_path)[0])
    assert {key: round(one.units.value, 1) for key, one in found.items()} == UNITS
    for key, release in found.items():
        assert release.guarantee == here[key].guarantee
        assert (release.layout.counting, release.clip) == (agreement.counting, here[key].clip)
        assert check_release(release).verdict == "enough"
        if agreement is L1:
            assert release.total.value == pytest.approx(here[key].total.value, abs=0.5)
    assert found["north"].clip == (None if agreement is L1 else "equal")


def test_bundles_that_are_repeated_publish_the_same_counts(tmp_path: Path) -> None:
    found, _ = run(released(EQUAL), tmp_path, "--direct_runner_bundle_repeat=2")
    assert len({(key, release.to_bytes()) for key, release in found}) == len(KEYS)


def test_no_rows_and_other_keys_are_counts_of_zero(tmp_path: Path) -> None:
    for rows in ([], [("Ann", "moon", "a", 1)]):
        found = dict(run(released(EQUAL, rows), tmp_path)[0])
        assert {key: round(one.units.value, 1) for key, one in found.items()} == dict.fromkeys(KEYS, 0)


def test_each_window_counts_its_units(tmp_path: Path) -> None:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        stamped = [TimestampedValue(row, 60 * (place % 2)) for place, row in enumerate(ROWS[:10])]
        windows = pipeline | beam.Create(stamped) | TumblingWindows(60)
        events = windows | RowsToBatches(EQUAL, COLUMNS) | BoundContributions(EQUAL)
        releases = events | SketchPerKey(EQUAL) | ReleasePerKey(noise(EQUAL), public_keys=KEYS, public_windows=(0, 180))
        return releases | beam.Map(lambda keyed, window=beam.DoFn.WindowParam: (keyed, int(window.start)))

    found = {(key, start): release for (key, release), start in run(build, tmp_path)[0]}
    counts = {place: round(release.units.value, 1) for place, release in found.items()}
    assert counts == {(key, start): 5 * (key == "north" and start < 120) for key in KEYS for start in (0, 60, 120)}
    assert {str(one.guarantee.neighbours.unit) for one in found.values()} == {"customer in one window of 60 s"}


def test_keys_that_are_selected_are_counted_and_both_are_paid_for(tmp_path: Path) -> None:
    crowd = [(f"c{n}", "north", "a", 1) for n in range(300)]

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        events = bounded(pipeline, EQUAL, crowd)
        keys = events | SelectKeys(epsilon=1.0, delta=1e-6)
        return events | SketchPerKey(EQUAL) | ReleasePerKey(noise(EQUAL), selected_keys=keys)

    ((_, release),) = run(build, tmp_path)[0]
    assert release.units.value == pytest.approx(300, abs=0.1)
    assert release.guarantee.epsilon == 5e5 + 1
    assert check_release(release).verdict == "enough"


def test_rows_that_were_not_bounded_have_no_counts() -> None:
    pipeline = beam.Pipeline()
    sketches = pipeline | beam.Create([]) | RowsToBatches(EQUAL, COLUMNS) | SketchPerKey(EQUAL)
    sketches | ReleasePerKey(noise(EQUAL), public_keys=KEYS)
    with pytest.raises(ss.InvalidInputError, match="there is no count of the customers in these data"):
        sketches | "Counted" >> ReleasePerKey(noise(EQUAL, counting=EQUAL.counting), public_keys=KEYS)
