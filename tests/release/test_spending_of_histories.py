"""What the rows and ranges of a history spend: once, whatever is published of it, and whatever a ledger holds of it."""

import dataclasses
import shutil
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.accounting import Ledger
from streamsketch.continual import Releaser, release
from streamsketch.errors import InvalidInputError, LedgerError
from streamsketch.release.composition import compose
from tests.release.histories import (
    COUNTED,
    GRID,
    KEYS,
    copy_of,
    counted_tables,
    published_tables,
    publisher,
    rows_of,
    window,
)
from tests.release.ranges import range_of


def test_rows_and_ranges_of_a_history_count_once() -> None:
    rows, others = rows_of(), rows_of()
    ranges = [range_of(rows, 0, 3), range_of(rows, 2, 5), range_of(rows, 0, 3).scaled(2)]
    for given, epsilon in (
        (rows, 1),
        (ranges, 1),
        ([*ranges, *rows], 1),
        ([*rows, *rows[:2]], 1),
        ([*rows, *others], 2),
        ([*rows, window(0).release(epsilon=0.5, neighbours=rows[0].guarantee.neighbours)], 1.5),
        ([rows[0], copy_of(rows[1], guarantee=dataclasses.replace(rows[1].guarantee, epsilon=3.0))], 4),
    ):
        assert compose(given, populations="overlapping").epsilon == epsilon
    joint = ss.explain(*rows, *others)
    assert joint.counted == 2
    assert "of which 2 count (a copy, or a sum beside its parts, or all but one part of a history," in " ".join(
        str(joint).split()
    )
    tables = published_tables()
    assert compose([*tables, tables[0]["north"], tables[3]["west"]], populations="overlapping").epsilon == 1
    assert compose(tables, populations="disjoint").epsilon == 1


def test_rows_of_unknown_data_count_each() -> None:
    """Nothing shows that they are of one history: ids can be copied."""
    rows = [copy_of(row, data_ids=[], values=row.values + 1) for row in rows_of()[:3]]
    assert compose(rows, populations="overlapping").epsilon == 3


def test_data_of_any_key_of_a_history_are_known_to_be_shared() -> None:
    tables = counted_tables()
    rows: list[Any] = release(tables, COUNTED, public_keys=KEYS)
    plain = tables[0].release(
        epsilon=1.0, neighbours=rows[0].guarantee.neighbours, public_keys=KEYS, assert_bounds=True
    )
    north, south = ([row[key] for row in rows] for key in ("north", "south"))
    assert compose([*north, *south], populations="disjoint").epsilon == 1
    assert compose([*north, plain["south"]], populations="disjoint").epsilon == 1
    with pytest.raises(InvalidInputError, match="of the same data"):
        compose([*north, *south, plain["south"]], populations="disjoint")


def test_two_rows_of_one_window_that_differ_are_refused() -> None:
    rows = rows_of()
    again = copy_of(rows[2], release_ids=[bytes(8)])
    changed = ss.PrivateSketch(
        GRID,
        rows[2].values + 1,
        rows[2].noise,
        rows[2].guarantee,
        release_ids=[bytes(8)],
        data_ids=rows[2].data_ids,
        history=rows[2].history,
    )
    assert compose([*rows, again], populations="overlapping").epsilon == 1
    with pytest.raises(InvalidInputError, match="are the same row of a history, but differ: cells"):
        compose([*rows, changed], populations="overlapping")


def test_a_history_is_charged_once(tmp_path: Any) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    unit = publisher().calibrated(GRID).guarantee.neighbours.unit
    ledger.dataset("sales", unit=unit, epsilon=2.5, delta=1e-5)
    releaser = Releaser(publisher(), GRID)
    for day in range(3):
        releaser.add(window(day), ledger=ledger, dataset="sales")
        assert ledger.left("sales").epsilon == 1.5
    releaser = Releaser.restored(publisher(), GRID, releaser.state)
    releaser.add(window(3), ledger=ledger, dataset="sales")
    assert ledger.left("sales").epsilon == 1.5
    release([window(day) for day in range(5)], publisher(), ledger=ledger, dataset="sales")
    assert ledger.left("sales").epsilon == 0.5
    more = Releaser(publisher(), GRID)
    with pytest.raises(LedgerError, match="does not fit"):
        more.add(window(0), ledger=ledger, dataset="sales")
    assert more.windows == 0


def test_windows_of_another_data_set_are_not_charged_to_the_first_alone(tmp_path: Any) -> None:
    ledger, table = Ledger(tmp_path / "ledger.sqlite"), counted_tables()[1]
    unit = publisher().calibrated(GRID).guarantee.neighbours.unit
    for name in ("sales", "returns"):
        ledger.dataset(name, unit=unit, epsilon=2.0, delta=1e-5)
    ledger.charge("returns", publisher().calibrated(GRID).guarantee, data_ids=table.sketch_of("north").data_ids)
    assert ledger.holders(table.data_ids.with_keys(KEYS)) == ("returns",)
    releaser = Releaser(publisher(), GRID)
    releaser.add(counted_tables()[0], public_keys=KEYS, ledger=ledger, dataset="sales")
    with pytest.raises(LedgerError, match="window 1 holds data that were charged to 'returns' before"):
        releaser.add(table, ledger=ledger, dataset="sales")
    assert releaser.windows == 1
    Releaser(publisher(), GRID).add(table, public_keys=KEYS, ledger=ledger, dataset="sales")
    assert (ledger.left("sales").epsilon, ledger.left("returns").epsilon) == (0.0, 0.0)


@pytest.mark.parametrize("keyed", [False, True])
def test_data_of_every_window_of_a_history_are_known_to_the_ledger(tmp_path: Any, keyed: bool) -> None:  # noqa: FBT001 - a parameter
    """A window's own release costs the history's data set, whichever window, key or copy it is of."""
    ledger, where = Ledger(tmp_path / "ledger.sqlite"), tmp_path / "ledger.sqlite"
    schedule = publisher(counting=None)
    guarantee = schedule.calibrated(GRID).guarantee
    for name in ("sales", "returns"):
        ledger.dataset(name, unit=guarantee.neighbours.unit, epsilon=20.0, delta=1e-3)
    windows: list[Any] = counted_tables() if keyed else [window(day) for day in range(5)]
    keys: dict[str, Any] = {"public_keys": KEYS} if keyed else {}
    releaser = Releaser(schedule, GRID)
    for day, one in enumerate(windows):
        releaser.add(one, **keys, ledger=ledger, dataset="sales")
        keys = {}
        for known in (ledger, Ledger(where)):  # and for who reads its file
            assert known.left("sales").charges == 1
            assert known.left("sales").epsilon == 19.0
            assert [known.holders(given.data_ids) for given in windows[: day + 1]] == [("sales",)] * (day + 1)
        again = Releaser.restored(schedule, GRID, releaser.state)
        if day < 4:
            # in a copy, as the charge covers one draw of the next row
            copy = Ledger(shutil.copy(where, tmp_path / f"{day}.sqlite"))
            entries = copy.audit()
            again.add(one, ledger=copy, dataset="sales")
            assert copy.audit() == entries + 1, "the draw is entered; data that were entered are not entered again"
            assert copy.left("sales") == ledger.left("sales")
    spent = 1
    for one in windows:
        for data in [one.sketch_of(key) for key in ("north", "west")] if keyed else [one, one.copy()]:
            receipt = ledger.charge("returns", guarantee, data_ids=data.data_ids)
            spent += 1
            assert set(receipt.datasets) == {"sales", "returns"}
            assert ledger.left("sales").epsilon == 20 - spent


def test_data_are_covered_by_a_charge_that_is_there(tmp_path: Any) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    guarantee = publisher().calibrated(GRID).guarantee
    ledger.dataset("sales", unit=guarantee.neighbours.unit, epsilon=2.0, delta=1e-5)
    first, more = GRID.sketch().data_ids, GRID.sketch().data_ids
    with pytest.raises(LedgerError, match="no charge has the id 'history'"):
        ledger.cover("history", more, what="window 1")
    receipt = ledger.charge("sales", guarantee, data_ids=first, once="history")
    assert ledger.cover("history", first, what="window 0") == receipt
    entered = ledger.cover("history", more, what="window 1")
    assert (entered.number, entered.datasets) == (receipt.number + 1, ("sales",))
    assert ledger.cover("history", more, what="window 1") == receipt
    assert ledger.charge("sales", guarantee, data_ids=first, once="history") == receipt
    assert ledger.audit(receipt, entered) == 3
    ledger.refund(receipt, nothing_was_published="the job failed")
    assert ledger.left("sales").epsilon == 2.0
    with pytest.raises(LedgerError, match="no charge has the id 'history'"):
        ledger.cover("history", more, what="window 1")
