"""Windows become rows in their order: each is taken once, and a row that is not drawn changes nothing."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.continual import Releaser, Schedule, Tree
from streamsketch.errors import LedgerError
from streamsketch.schedules.rows import RowSums

PROJECTION = ss.SJLT(sketch_dim=8, sparsity=2, seed=3)
NEAR = ss.L1(4, unit="customer")
TREE = Tree(horizon=5, depth=2)
PUBLISH = ss.AdditiveNoise(epsilon=1.0, neighbours=NEAR, schedule=TREE)
GUARANTEE = PUBLISH.guarantee(PROJECTION)


def window(day: int) -> ss.Sketch:
    sketch = PROJECTION.sketch()
    sketch.update([day], [1 + day])
    return sketch


def exact(schedule: Schedule) -> list[list[int]]:
    rows: list[list[int]] = (schedule.matrix() @ np.array([window(day).state() for day in range(5)])).tolist()
    return rows


def test_rows_leave_in_the_order_of_their_windows_however_these_arrive() -> None:
    for order in itertools.permutations(range(5)):
        sums, waiting, left = RowSums(PROJECTION, GUARANTEE), dict[int, ss.Sketch](), []
        for day in (*order, order[0]):  # and one again
            waiting[day] = window(day)
            left += [(row.place, row.exact.tolist()) for row, _ in sums.in_turn(waiting)]
        assert left == list(enumerate(exact(TREE)))
        assert waiting == {}, "a window that an engine repeats is left out"


def test_a_row_that_was_read_changes_nothing_until_its_window_is_taken() -> None:
    sums = RowSums(PROJECTION, GUARANTEE)
    for day, row in enumerate(exact(TREE)):
        other = sums.next([window(day + 7)])
        following = sums.next([window(day)])
        assert following.rows[0].exact.tolist() == row
        assert (other.place, sums.windows) == (day, day)
        sums.take(following)
        for late in (other, following):
            with pytest.raises(ss.InvalidInputError, match=rf"is window {day + 1}, and this is window {day}; each"):
                sums.take(late)
    with pytest.raises(ss.InvalidInputError, match="all 5 windows of the schedule"):
        sums.next([window(5)])


def test_single_releases_have_no_rows() -> None:
    single = ss.AdditiveNoise(epsilon=1.0, neighbours=NEAR).guarantee(PROJECTION)
    with pytest.raises(ss.InvalidInputError, match="rows need the guarantee of a schedule"):
        RowSums(PROJECTION, single)


def test_a_row_that_is_ready_is_taken_once() -> None:
    releaser, others = Releaser(PUBLISH, PROJECTION, assert_bounds=True), [window(day) for day in (8, 9)]
    first, second = (releaser.ready(one) for one in others)
    assert releaser.windows == 0
    releaser.take(first)
    assert releaser.windows == 1
    for late in (first, second):
        with pytest.raises(ss.InvalidInputError, match=r"another window was taken|each window is taken once"):
            releaser.take(late)
    row: Any = releaser.add(window(1))
    assert row.history.start == 1


def test_a_row_that_the_ledger_refuses_is_not_drawn(tmp_path: Path) -> None:
    ledger = ss.Ledger(tmp_path / "ledger.sqlite")
    ledger.dataset("small", unit=TREE.unit_text("customer"), epsilon=0.5)
    releaser = Releaser(PUBLISH, PROJECTION, assert_bounds=True)

    def drawn(*_: Any) -> Any:
        pytest.fail("the row was drawn")

    with pytest.raises(LedgerError, match="does not fit"):
        releaser.add(window(0), ledger=ledger, dataset="small", bits=drawn)
    assert releaser.windows == 0
