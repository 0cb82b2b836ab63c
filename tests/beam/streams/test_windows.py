"""Every key in every window once, with the truth in it, whether or not anything happened."""

import math
from collections import Counter
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.transforms.window import GlobalWindow

import streamsketch as ss
from streamsketch.beam import ReleasePerKey, RowsToBatches, TumblingWindows
from streamsketch.beam.streams import (
    BoundAcrossWindows,
    ChangesBetweenWindows,
    TakeOnTime,
    WindowDistances,
    WriteFilesOnce,
    configure_stream,
)
from streamsketch.estimation.measures import By
from streamsketch.release import AdditiveNoise
from tests.beam.rows import agreement_of, bound_rows, sketch_rows
from tests.beam.streams.prism import BASE, MINUTE, log, run, with_minute

PROJECTION = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=11)
PEOPLE = agreement_of(PROJECTION, unit="person", neighbours=ss.L1(10, unit="person"))
KEYS = ["AA", "UA", "empty"]
DELAY = 5
ROWS: list[tuple[int, Any]] = [
    (5, ("Ann", "AA", 1, 3)),
    (7, ("Bob", "UA", 2, 4)),
    (61, ("Ann", "AA", 1, 9)),
    (58, ("Dan", "AA", 7, 5)),  # out of order, within the delay
    (66, ("Cyd", "AA", 8, 1)),
    (6, ("Cyd", "AA", 3, 500)),  # late
    (59, ("Cyd", "AA", 3, 500)),  # late
    (119, ("Bob", "AA", 4, 2)),
    (241, ("Ann", "UA", 5, 7)),  # two minutes are empty
    (242, ("Ann", "UA", 6, 100)),  # over the bound
    (243, ("Ann", "nobody's", 6, 1)),
]
LATE_ROWS = ROWS[5:7]
TRUTH = {  # l1 = 10 and one key each
    ("AA", 0): {1: 3, 7: 5},
    ("UA", 0): {2: 4},
    ("AA", 60): {1: 9, 8: 1, 4: 2},
}


def released(
    pipeline: beam.Pipeline, root_key: Path, epoch: int | None = None, rows: list[Any] = ROWS, stop: int | None = None
) -> beam.PCollection:
    configure_stream(pipeline, stream="test", root_key=root_key, claims=str(root_key.parent / "claims"), epoch=epoch)
    on_time, _ = pipeline | log(rows, DELAY) | TakeOnTime()
    return (
        on_time
        | TumblingWindows(MINUTE)
        | bound_rows(PROJECTION, unit="person", max_keys=1, l1=10, public_keys=KEYS)
        | sketch_rows(PROJECTION)
        | ReleasePerKey(
            AdditiveNoise(epsilon=1.0, neighbours=ss.L1(10, unit="person")),
            public_keys=KEYS,
            public_windows=(BASE, None if stop is None else BASE + stop),
        )
    )


def cells_of(events: dict[int, int]) -> list[int]:
    sketch = PROJECTION.sketch()
    for index, value in events.items():
        sketch.update(index, value)
    return [int(cell) for cell in sketch.state()]


@pytest.mark.usefixtures("no_noise")
def test_every_key_is_released_once_in_every_window_with_the_truth_in_it(
    prism: list[str], root_key: Path, tmp_path: Path
) -> None:
    found = run(prism, lambda p: {"all": released(p, root_key) | beam.Map(with_minute)}, tmp_path / "out")["all"]
    windows = sorted({start for _, start, _ in found})
    assert windows == list(range(0, windows[-1] + 1, MINUTE)), "none is left out"
    assert windows[-1] >= 240
    assert Counter((key, start) for key, start, _ in found) == {(key, start): 1 for key in KEYS for start in windows}
    for key, start, release in found:
        (condition,) = release.guarantee.conditions
        assert "do not depend on what one unit contributes" in condition
        cells = release.values.tolist()
        kept = TRUTH.get((key, start))
        if (key, start) == ("UA", 240):
            assert np.abs(cells).sum() == 4 * 10, "clipped to 10 in all"
        else:
            assert cells == cells_of(kept or {}), (key, start)


def test_a_job_that_is_restored_publishes_the_same_bytes_and_one_launched_anew_others(
    prism: list[str], root_key: Path, tmp_path: Path
) -> None:
    def bytes_of(name: str, epoch: int | None) -> dict[Any, bytes]:
        found = run(
            prism, lambda p: {"all": released(p, root_key, epoch, stop=120) | beam.Map(with_minute)}, tmp_path / name
        )
        return {(key, start): release.to_bytes() for key, start, release in found["all"]}

    first, restored, relaunched = bytes_of("a", None), bytes_of("b", 1), bytes_of("c", None)
    assert restored == first
    assert len(set(first.values()) | set(relaunched.values())) == 2 * len(first) == 12
    with pytest.raises(
        ss.InvalidInputError, match="epoch 1 of the stream test is over, because a later launch claimed epoch 2"
    ):
        bytes_of("d", 1)


def test_late_rows_change_nothing(prism: list[str], root_key: Path, tmp_path: Path) -> None:
    def bytes_of(name: str, rows: list[Any]) -> set[bytes]:
        epoch = None if name == "without" else 1
        found = run(prism, lambda p: {"all": released(p, root_key, epoch, rows, stop=300)}, tmp_path / name)
        return {release.to_bytes() for _, release in found["all"]}

    without = bytes_of("without", [row for row in ROWS if row not in LATE_ROWS])
    assert bytes_of("with", ROWS) == without


def test_late_rows_are_counted_and_the_same_in_a_replay(prism: list[str], tmp_path: Path) -> None:
    def build(pipeline: beam.Pipeline) -> dict[str, beam.PCollection]:
        on_time, late = pipeline | log(ROWS, DELAY) | TakeOnTime(count_private_data=True)
        return {"on time": on_time, "late": late}

    for name in ("a", "b"):
        found = run(prism, build, tmp_path / name)
        assert found["late"] == [row for _, row in LATE_ROWS]
        assert len(found["on time"]) == len(ROWS) - 2


@pytest.mark.parametrize(("by", "column"), [("distance", "squared_distance"), ("cosine", "cosine")])
def test_comparisons_appear_between_windows_and_between_keys(
    by: By, column: str, prism: list[str], root_key: Path, tmp_path: Path
) -> None:
    def build(pipeline: beam.Pipeline) -> dict[str, beam.PCollection]:
        releases = released(pipeline, root_key, stop=240)
        held, alarms = releases | WriteFilesOnce(str(tmp_path / "releases"), "test")
        return {
            "changes": releases | ChangesBetweenWindows(by=by) | "A" >> beam.Map(with_minute),
            "pairs": releases
            | WindowDistances(3, by=by)
            | "B" >> beam.Map(lambda rows: (None, rows))
            | "D" >> beam.Map(with_minute),
            "held": held | "E" >> beam.Map(with_minute),
            "alarms": alarms,
            "releases": releases | "C" >> beam.Map(with_minute),
        }

    found = run(prism, build, tmp_path / "out")
    by_slot = {(key, start): release for key, start, release in found["releases"]}
    exact = {start: ss.pairwise([by_slot[key, start] for key in KEYS], by=by).value for start in (0, 60, 120, 180)}
    pairs = {(row["first"], row["second"], start): row[column] for _, start, rows in found["pairs"] for row in rows}
    assert len(pairs) == 4 * 3
    for (first, second, start), value in pairs.items():
        truth = exact[start][KEYS.index(first), KEYS.index(second)]
        assert (math.nan if value is None else value) == pytest.approx(truth, nan_ok=True)
    changes = {(key, start): change for key, start, change in found["changes"]}
    assert changes.keys() == {(key, start) for key in KEYS for start in (60, 120, 180)}
    for (key, start), change in changes.items():
        pair = by_slot[key, start], by_slot[key, start - 60]
        truth = ss.pairwise(pair, by=by).value[0, 1]
        assert change.estimate.value == pytest.approx(truth, nan_ok=True)
        assert change.p_value == (ss.sameness(*pair).p_value if by == "distance" else None)
    assert {(key, start): release for key, start, release in found["held"]} == by_slot
    assert found["alarms"] == []
    written = sorted((tmp_path / "releases").rglob("*.sketch"))
    assert sorted(path.read_bytes() for path in written) == sorted(release.to_bytes() for release in by_slot.values())


@pytest.mark.usefixtures("no_noise")
def test_a_unit_keeps_to_its_windows_a_period_and_gets_new_ones_with_the_next(
    prism: list[str], root_key: Path, tmp_path: Path
) -> None:
    rows = [(60 * window + 1, ("Ann", "AA", 1, 100)) for window in range(6)]
    rows += [(60 * window + 2, ("Bob", "UA", 1, 1)) for window in (0, 2, 6)]
    last = GlobalWindow().max_timestamp().micros // 10**6 - MINUTE - DELAY - 1 - BASE  # its period is beyond all time
    rows.append((last, ("Eve", "UA", 1, 1)))

    def build(pipeline: beam.Pipeline) -> dict[str, beam.PCollection]:
        configure_stream(pipeline, stream="test", root_key=root_key, claims=str(tmp_path / "claims"))
        bounded = (
            pipeline
            | log(sorted(rows), DELAY)
            | TumblingWindows(MINUTE)
            | RowsToBatches(PEOPLE, ["person", "key", "index", "value"])
            | BoundAcrossWindows(PEOPLE, max_windows=2, period="3 min")
        )
        releases = (
            bounded
            | sketch_rows(PROJECTION)
            | ReleasePerKey(
                AdditiveNoise(epsilon=1.0, neighbours=ss.L1(10, unit="person")),
                public_keys=KEYS,
                public_windows=(BASE, BASE + 420),
            )
        )
        return {"all": releases | beam.Map(with_minute)}

    found = run(prism, build, tmp_path / "out")["all"]
    assert {release.guarantee.neighbours for *_, release in found} == {
        ss.L1(10, unit="person in one period of 180 s", max_keys=2)
    }
    used = [(key, start) for key, start, release in found if np.any(release.values)]
    assert len(used) == len(set(used))
    ann = sorted(start for key, start in used if key == "AA")
    assert len(ann) == 4
    assert sum(start < 180 for start in ann) == 2
    assert sorted(start for key, start in used if key == "UA") == [0, 120, 360]
