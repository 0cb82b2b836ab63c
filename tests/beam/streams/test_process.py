"""Steps that a runner calls with state, tested without one: late rows of a forgotten period, and late events."""

from typing import Any

import numpy as np
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import IntervalWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming

import streamsketch as ss
from streamsketch.beam.intake import bound as intake
from streamsketch.beam.intake.windows import LATE
from streamsketch.beam.run.runs import RunSecret
from streamsketch.beam.streams import bound as bounding
from streamsketch.data.windows import Tumbling
from streamsketch.intake import Intake
from streamsketch.sketching.bounding.units import UnitBounds
from tests.beam.release.test_rows import Value

HOUR = 3_600_000_000
DAY = 24 * HOUR


class Timer:
    """A timer, as a runner keeps it."""

    def __init__(self) -> None:
        self.at: Timestamp | None = None

    def set(self, at: Timestamp) -> None:
        self.at = at


class Shard:
    """The state of one shard of units, and a new worker for each element."""

    def __init__(self, max_windows: int) -> None:
        self.used, self.forgotten, self.over = Value(), Value(), Timer()
        self.most = max_windows

    def admits(self, unit: int, window: int) -> bool:
        step = bounding.Admit(Tumbling(DAY, 0), self.most)
        digests = np.array([[unit, unit]], dtype="<u8").tobytes()
        rows = pa.RecordBatch.from_pydict({"unit": [unit]})
        state = (self.used, self.forgotten, self.over)
        found = list(step.process((0, (window, digests, rows)), Timestamp(micros=window), *state))
        assert sum(one.value.num_rows for one in found) == len(found)
        return bool(found)

    def ends(self) -> None:
        assert self.over.at is not None
        step = bounding.Admit(Tumbling(DAY, 0), self.most)
        step.forget(self.over.at, self.used, self.forgotten, self.over)


def test_a_unit_is_in_as_many_windows_of_a_period_as_it_may() -> None:
    shard = Shard(2)
    assert [shard.admits(1, window * HOUR) for window in (0, 1, 2, 0, 1, 3)] == [True, True, False, True, True, False]
    assert shard.admits(2, 2 * HOUR), "another unit"
    assert shard.admits(1, DAY), "another period"


def test_a_late_row_of_a_forgotten_period_is_not_admitted_again() -> None:
    """Which windows its unit has used is no longer known, so it would be in more of them than it may."""
    shard = Shard(1)
    assert shard.admits(1, 0)
    shard.ends()
    assert shard.admits(1, DAY)
    assert shard.used.read() is not None
    for window in (0, HOUR, DAY - HOUR):
        assert not shard.admits(1, window)
        assert not shard.admits(3, window), "nor any other unit"
    assert shard.admits(1, DAY), "the period that goes on is known"
    assert not shard.admits(1, DAY + HOUR)
    assert shard.admits(3, DAY + HOUR)
    shard.ends()
    assert not shard.admits(3, DAY + HOUR)


def test_what_a_unit_has_used_of_a_later_period_outlives_the_end_of_an_earlier_one() -> None:
    """Rows of several periods come in any order, and each period is forgotten at its own end."""
    shard = Shard(1)
    assert shard.admits(1, 2 * DAY)
    assert shard.admits(1, DAY)
    assert shard.admits(1, 0)
    for period in range(1, 3):
        shard.ends()
        assert shard.over.at == Timestamp(micros=(period + 1) * DAY)
        for later in range(period, 3):
            assert not shard.admits(1, later * DAY + HOUR)
            assert shard.admits(1, later * DAY)


NEAR = ss.L1(1, unit="buyer", max_keys=1)
AGREEMENT = ss.Agreement(
    ss.SJLT(sketch_dim=16, sparsity=4, seed=7), key="shop", index="item", unit="buyer", neighbours=NEAR
)
RUN = RunSecret(bytes(32), b"", None)
ON_TIME, LATER = (
    PaneInfo(is_first=is_first, is_last=False, timing=timing, index=0, nonspeculative_index=0)
    for is_first, timing in ((True, PaneInfoTiming.ON_TIME), (False, PaneInfoTiming.LATE))
)


def clipped(pane: PaneInfo, *shops: str) -> list[Any]:
    """Return what one unit's rows in a pane of a window become."""
    bounds = UnitBounds(AGREEMENT.projection, NEAR, max_keys=None, clip="cut")
    prepare = intake.Prepare(Intake(AGREEMENT, on_bad="drop", bounded=True), bounds, "label", 1, None, count=False)
    prepare.start_bundle()
    rows = {"shop": [*shops], "item": ["tea"] * len(shops), "buyer": ["ann"] * len(shops)}
    window = IntervalWindow(0, 3600)
    list(prepare.process(pa.RecordBatch.from_pydict(rows), window, run=RUN) or ())
    chunks = [one.value for one in prepare.finish_bundle()]
    clip = intake.ClipUnits(AGREEMENT.projection, bounds, "label", count=False)
    return [found for shard, chunk in chunks for found in clip.process((shard, [chunk]), pane, run=RUN)]


def test_late_events_are_no_part_of_what_is_released() -> None:
    """They were clipped by themselves, so together with those on time a unit would contribute too much."""
    on_time = clipped(ON_TIME, "north", "south")
    assert len(on_time) == 1
    assert not isinstance(on_time[0], TaggedOutput)
    assert sum(on_time[0].value.events.units_of) == 1, "in one key, as bounded"
    late = clipped(LATER, "west")
    assert [(type(one), one.tag) for one in late] == [(TaggedOutput, LATE)]


def test_the_same_rows_are_clipped_alike_in_each_attempt() -> None:
    first, second = (clipped(ON_TIME, *("north", "south", "west", "east")) for _ in range(2))
    assert [one.value.events.slots for one in first] == [one.value.events.slots for one in second]
