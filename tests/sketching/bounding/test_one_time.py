"""A unit's latest or first rows: those of its twin, in any order, however they travel; and one unit moves no other."""

import itertools
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsketch.sketching.bounding.cells import bounded_cells
from streamsketch.sketching.bounding.contributions import Contributions, concatenated
from streamsketch.sketching.bounding.grouping import GroupedEvents
from streamsketch.sketching.bounding.one_time import of_one_time
from streamsketch.sketching.bounding.shards import by_shard, decoded
from tests.sketching.bounding.test_cells import bounds_for, left_of, limits, nonzero
from tests.sketching.bounding.test_clip import SLOTS, UNITS
from tests.sketching.bounding.test_features import IDENTITY, Row, averaged, cells_left, cells_of_rows, columns

Timed = tuple[Row, int]
ENDS = [-(1 << 63), -1, 0, 1, (1 << 63) - 1]
WIDTH = 3

timed_rows = st.lists(
    st.tuples(
        st.tuples(
            st.sampled_from(UNITS),
            st.sampled_from(SLOTS),
            st.lists(cells_of_rows, min_size=WIDTH, max_size=WIDTH),
        ),
        st.sampled_from(ENDS),
    ),
    max_size=20,
)


def chosen(rows: list[Timed], *, first: bool) -> list[Row]:
    """Return the rows of the latest or the first time of each unit in each slot."""
    times = defaultdict(list)
    for (unit, slot, _), time in rows:
        times[unit, slot].append(time)
    ends = {pair: min(own) if first else max(own) for pair, own in times.items()}
    return [row for row, time in rows if time == ends[row[:2]]]


def events_of(rows: list[Timed]) -> Contributions:
    """Return rows with a 1 behind each, and a slot for each time."""
    timed = [(unit, (slot, time), [*row, 1]) for (unit, slot, row), time in rows]
    found = columns(timed, WIDTH + 1)
    slots: Any = found.slots
    return Contributions(
        found.units, [slot for slot, _ in slots], found.codes, found.indices, found.steps, found.features,
        [time for _, time in slots] or None,
    )  # fmt: skip


def travelled(rows: list[Timed], cut: int, in_memory: int) -> dict[str, list[Any]]:
    """Return the same events as each engine has them: as rows, as events of sums, from files and from shards."""
    whole = events_of(rows)
    parts = [events_of(rows[:cut]), events_of(rows[cut:])]
    with GroupedEvents(rows=in_memory, split_bits=1) as grouped:
        for part in parts:
            grouped.add(part.compact())
        groups = list(grouped.groups())
    shards = defaultdict(list)
    for part in parts:
        for shard, sent in by_shard([part.one_by_one()], 2) if len(part) else ():
            shards[shard].append(sent)
    return {
        "rows": [whole],
        "backwards": [events_of(rows[::-1])],
        "events": [concatenated([parts[0].one_by_one(), parts[1]])],
        "files": groups,
        "shards": [decoded(sent) for sent in shards.values()],
    }


def cells(events: list[Any], limit: int, max_keys: int, *, first: bool) -> tuple[Counter[Any], Counter[Any]]:
    """Return the sums of what is left, and how many units are left in each slot."""
    sums: Counter[Any] = Counter()
    held: Counter[Any] = Counter()
    known = bounds_for(IDENTITY, "scale", limit, max_keys) | {"averaged": True}
    for some in events:
        for part in bounded_cells(some, **known, first=first):
            sums.update(cells_left([part]) if part.steps.ndim > 1 else left_of([part]))
            held.update(dict(zip(part.slots, part.units_of.tolist(), strict=True)))
    return nonzero(sums), +held


@given(timed_rows, limits, st.integers(1, 5), st.booleans(), st.integers(0, 20), st.integers(1, 9))
def test_rows_of_one_time_are_averaged_as_by_the_twin(
    rows: list[Timed],
    limit: int,
    max_keys: int,
    first: bool,  # noqa: FBT001
    cut: int,
    in_memory: int,
) -> None:
    left = [(*row[:2], row[2]) for row in averaged(chosen(rows, first=first))]
    counted = columns([(unit, slot, [*row, 1]) for unit, slot, row in left], WIDTH + 1)
    expected = cells([counted], limit, max_keys, first=first)
    for name, events in travelled(rows, cut, in_memory).items():
        assert cells(events, limit, max_keys, first=first) == expected, name


@given(timed_rows, st.booleans())
def test_the_choice_can_be_made_of_parts_and_then_of_all(rows: list[Timed], first: bool) -> None:  # noqa: FBT001
    whole = of_one_time(events_of(rows), first=first)
    assert whole.times is None
    assert len(set(whole.slots)) == len(whole.slots)
    found = [whole.slots[code] for code in whole.codes.tolist()]
    assert found == [row[1] for row in chosen(rows, first=first)]
    untimed = columns([row for row, _ in rows])
    assert of_one_time(untimed, first=first) is untimed


ROWS = [[5, 0], [-4, 3], [0, -5]]
FEW: list[list[Timed]] = [
    [((UNITS[unit], SLOTS[0], [*row, 0]), time) for unit, row, time in zip(whose, given_rows, times, strict=True)]
    for whose in ((0, 0, 1), (0, 1, 1), (0, 0, 0))
    for given_rows in itertools.product(ROWS, repeat=3)
    for times in itertools.product((1, 2), repeat=3)
]


def farthest(first: bool, choose: Any) -> float:  # noqa: FBT001
    """Return the largest change of cells by all rows of a unit, over small data sets, of rows of length 5 at most."""
    largest = 0.0
    for rows in FEW:
        without = [row for row in rows if row[0][0] != UNITS[0]]
        sums = [np.zeros(WIDTH), np.zeros(WIDTH)]
        for place, own in enumerate((rows, without)):
            for _, _, row in averaged(choose(own, first=first)):
                sums[place] += row
        largest = max(largest, float(np.linalg.norm(sums[0] - sums[1])))
    return largest


@pytest.mark.parametrize("first", [False, True])
def test_a_unit_changes_sums_by_one_row_and_others_by_nothing(first: bool) -> None:  # noqa: FBT001
    """By enumeration: averages of chosen rows are no longer than a row. A choice by the time of all units is caught."""
    assert farthest(first, chosen) <= 5 + 2 * 0.5  # an average is rounded

    def of_all_units(rows: list[Timed], *, first: bool) -> list[Row]:
        times = [time for _, time in rows]
        return [row for row, time in rows if times and time == (min if first else max)(times)]

    assert farthest(first, of_all_units) > 6
    for rows in FEW[::7]:
        without = [row for row in rows if row[0][0] != UNITS[0]]
        mine = [row for row in rows if row[0][0] == UNITS[0]]
        whole, others, own = (
            cells([events_of(some)], 5, 1, first=first)[0] if some else Counter() for some in (rows, without, mine)
        )
        assert nonzero(Counter({cell: whole[cell] - others[cell] for cell in {*whole, *others}})) == nonzero(
            Counter(own)
        )
        assert sum(step**2 for step in own.values()) <= 25
