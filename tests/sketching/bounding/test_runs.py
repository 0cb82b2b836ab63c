"""Rows of units brought together, the least slots of each, and their sums: against dictionaries and sorting."""

import dataclasses
import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsketch.kernels.hashing import MAX_KEY, evaluate
from streamsketch.sketching.bounding.clip import Sums, summed
from streamsketch.sketching.bounding.contributions import Contributions
from streamsketch.sketching.bounding.runs import Runs, by_unit, run_starts
from streamsketch.sketching.bounding.sums import keep_least

Row = tuple[int, int, int, int, int]  # two words of the unit, code, index, steps

words = st.one_of(st.integers(0, 3), st.integers((1 << 64) - 3, (1 << 64) - 1), st.integers(0, (1 << 64) - 1))
indices = st.one_of(st.integers(0, 3), st.integers(0, (1 << 60) - 1))
steps = st.one_of(st.integers(-3, 3), st.integers(-(1 << 63), (1 << 63) - 1))
tables = st.lists(st.tuples(words, words, st.integers(0, 4), indices, steps), max_size=300)
SLOTS = [("AA", 7), ("UA", 7), (5, 7), (b"x", 7), ("AA", 9), ("DL", 7), ("B6", 7)]


class Draws:
    """Secret numbers of slots, as `bounded` draws them."""

    words = np.array([3 + (1 << 63), 3, 1 << 63, 17, (1 << 64) - 1, 5, 9], dtype=np.uint64)  # two of one rank

    coefficients = np.arange(1, 9, dtype=np.uint64) << np.uint64(55)

    def order(self, unit: tuple[int, int]) -> list[int]:
        """Return the codes of slots by rank and tie."""
        ranks = np.empty(len(SLOTS), dtype=np.uint64)
        evaluate((np.uint64(unit[0]) + self.words) & np.uint64(MAX_KEY), self.coefficients, ranks)
        return sorted(range(len(SLOTS)), key=lambda code: (int(ranks[code]), int(self.words[code])))


def columns(rows: list[Row]) -> Contributions:
    units = np.array([row[:2] for row in rows], dtype=np.uint64).reshape(-1, 2)
    rest = (np.array([row[place] for row in rows], dtype=np.int64) for place in (2, 3, 4))
    return Contributions(units, SLOTS, *rest)


def wrapped(total: int) -> int:
    return (total + (1 << 63)) % (1 << 64) - (1 << 63)


def twin(rows: list[Row]) -> dict[tuple[int, int], dict[int, dict[int, int]]]:
    """Return the sums of each unit, slot and index."""
    sums: dict[tuple[int, int], dict[int, Counter[int]]] = {}
    for one, two, code, index, step in rows:
        sums.setdefault((one, two), {}).setdefault(code, Counter())[index] += step
    return {
        unit: {code: {index: wrapped(total) for index, total in found.items()} for code, found in pairs.items()}
        for unit, pairs in sums.items()
    }


def listed(found: Sums) -> dict[tuple[int, int], dict[int, dict[int, int]]]:
    """Return sums as dictionaries by unit, code and index, in the order they are in; each occurs once."""
    named: dict[tuple[int, int], dict[int, dict[int, int]]] = {}
    first, start = 0, 0
    for unit, pairs in zip(map(tuple, found.units.tolist()), found.unit_ends.tolist(), strict=True):
        assert unit not in named
        named[unit] = {}
        for pair in range(first, pairs):
            rows = slice(start, int(found.pair_ends[pair]))
            code = int(found.pair_codes[pair])
            assert code not in named[unit]
            assert set(found.codes[rows].tolist()) <= {code}
            named[unit][code] = dict(zip(found.indices[rows].tolist(), found.steps[rows].tolist(), strict=True))
            assert len(named[unit][code]) == rows.stop - rows.start
            start = rows.stop
        first = pairs
    assert start == found.codes.size
    return named


def without_zeros(pairs: dict[int, dict[int, int]]) -> dict[int, dict[int, int]]:
    return {code: {index: total for index, total in found.items() if total} for code, found in pairs.items()}


@settings(max_examples=2 * settings.default.max_examples)
@given(tables)
def test_sums_are_those_of_a_dictionary_and_slots_that_cancel_stay(rows: list[Row]) -> None:
    found = summed(columns(rows))
    assert listed(found) == {unit: without_zeros(pairs) for unit, pairs in twin(rows).items()}
    assert found.owners(np.arange(found.codes.size)).tolist() == [
        unit for unit, pairs in enumerate(listed(found).values()) for some in pairs.values() for _ in some
    ]


@settings(max_examples=2 * settings.default.max_examples)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.just(7), st.integers(0, 6), st.integers(0, 2), steps), max_size=60),
    st.integers(1, 7),
    st.booleans(),
)
def test_the_slots_of_least_rank_are_summed(rows: list[Row], most: int, totals: bool) -> None:  # noqa: FBT001
    found, sums = summed(columns(rows), most, Draws(), totals=totals), twin(rows)  # type: ignore[arg-type]
    wanted = {}
    for unit, pairs in sums.items():
        kept = [code for code in Draws().order(unit) if code in pairs][:most]
        wanted[unit] = without_zeros({code: pairs[code] for code in kept})
    assert listed(found) == wanted
    weights = [sum(abs(float(total)) for some in pairs.values() for total in some.values()) for pairs in sums.values()]
    assert found.tally.units == len(sums)
    assert found.tally.units_over_keys == sum(len(pairs) > most for pairs in sums.values())
    assert found.tally.total == (pytest.approx(sum(weights)) if totals else 0.0)
    assert found.tally.largest == (pytest.approx(max(weights, default=0.0)) if totals else 0.0)


@pytest.mark.parametrize("units", [1, 3, 20_000])
def test_many_rows_of_few_units_and_few_rows_of_many(units: int) -> None:
    rng = np.random.default_rng(units)
    owners = rng.integers(0, 1 << 63, (units, 2))[rng.integers(0, units, 20_000)]
    rest = [rng.integers(0, most, 20_000) for most in (7, 1000, 5)]
    rows: list[Row] = list(zip(*owners.T.tolist(), *(column.tolist() for column in rest), strict=True))
    assert listed(summed(columns(rows))) == {unit: without_zeros(pairs) for unit, pairs in twin(rows).items()}


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), *[st.integers(0, 4)] * 3), max_size=60),
    st.lists(st.integers(0, 60), max_size=3),
    st.booleans(),
)
def test_runs_are_the_rows_of_a_unit_in_their_order(rows: list[Row], cuts: list[int], long: bool) -> None:  # noqa: FBT001
    """Of one part, or of several with slots of their own; run by run or, where these are short, row by row."""
    rows = [row for row in rows for _ in range(9 if long else 1)]
    events = columns(rows)
    ends = sorted({0, len(rows), *(min(cut, len(rows)) for cut in cuts)})
    parts = []
    for number, (start, stop) in enumerate(itertools.pairwise(ends)):
        part, order = events.rows(slice(start, stop)), np.roll(np.arange(len(SLOTS)), number)
        slots = [SLOTS[place] for place in order.tolist()]
        parts.append(dataclasses.replace(part, slots=slots, codes=np.argsort(order)[part.codes]))
    runs = Runs.of(*parts)
    assert runs.slots == (SLOTS if parts else [])
    assert run_starts(events.units).tolist() == [
        place for place, row in enumerate(rows) if not place or row[:2] != rows[place - 1][:2]
    ]
    members: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for row in rows:
        members.setdefault(row[:2], []).append(row[2:])
    rest = list(zip(runs.codes.tolist(), runs.indices.tolist(), runs.steps.tolist(), strict=True))
    units = list(map(tuple, runs.units.tolist()))
    starts = runs.bounds.tolist()
    assert dict(zip(units, (rest[slice(*ends)] for ends in itertools.pairwise(starts)), strict=True)) == members
    assert len(runs) == len(rows)
    assert len(units) == len(members)


@given(st.lists(st.tuples(words, words, st.integers(1, 5)), max_size=300))
def test_runs_of_a_unit_are_brought_together(runs: list[tuple[int, int, int]]) -> None:
    units = np.array([run[:2] for run in runs], dtype=np.uint64).reshape(-1, 2)
    order, ends = by_unit(units)
    groups = [group.tolist() for group in np.split(order, ends[:-1])] if runs else []
    members: dict[tuple[int, int], list[int]] = {}
    for number, run in enumerate(runs):
        members.setdefault(run[:2], []).append(number)
    assert sorted(groups) == sorted(members.values())

    names, bounds, places = Runs.gathered(units, np.array([run[2] for run in runs], dtype=np.int64))
    rows: list[Any] = [None] * sum(run[2] for run in runs)
    for run, place in zip(runs, places.tolist(), strict=True):
        rows[place : place + run[2]] = [run[:2]] * run[2]
    assert [tuple(name) for name in np.repeat(names, np.diff(bounds), axis=0).tolist()] == rows
    assert len(names) == len(members)


@given(
    st.lists(st.tuples(st.one_of(words, st.integers(0, (1 << 64) - 1)), words), min_size=2, max_size=80, unique=True),
    st.data(),
)
def test_the_least_of_rows_are_those_of_sorting(rows: list[tuple[int, int]], data: Any) -> None:
    most = data.draw(st.integers(1, len(rows) - 1))
    ranks, ties = np.array(rows, dtype=np.uint64).T.copy()
    kept = np.zeros(len(rows), dtype=np.bool_)
    keep_least(ranks, ties, most, kept, np.empty(2 * len(rows), dtype=np.int64))
    assert kept.tolist() == [row in sorted(rows)[:most] for row in rows]
