"""Rows of units brought together, and the least keys of each: against dictionaries and sorting."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsketch.sketching.bounding.runs import find_runs, keep_least, keep_rows, net, sum_units

Row = tuple[int, int, int, int, int]  # two words of the unit, code, index, steps

words = st.one_of(st.integers(0, 3), st.integers((1 << 64) - 3, (1 << 64) - 1), st.integers(0, (1 << 64) - 1))
indices = st.one_of(st.integers(0, 3), st.integers(0, (1 << 60) - 1))
steps = st.one_of(st.integers(-3, 3), st.integers(-(1 << 63), (1 << 63) - 1))
tables = st.lists(st.tuples(words, words, st.integers(0, 4), indices, steps), max_size=300)


def columns(rows: list[Row]) -> list[Any]:
    units = np.array([row[:2] for row in rows], dtype=np.uint64).reshape(-1, 2)
    return [units, *(np.array([row[place] for row in rows], dtype=np.int64) for place in (2, 3, 4))]


def netted(rows: list[Row]) -> tuple[list[Any], dict[Any, int]]:
    """Return units, codes and indices in the order they came, and their sums."""
    units, *rest = (column.tolist() for column in net(*columns(rows)))
    names = [(*unit, code, index) for unit, code, index in zip(units, *rest[:2], strict=True)]
    return names, dict(zip(names, rest[2], strict=True))


def twin(rows: list[Row]) -> dict[Any, int]:
    sums: Counter[Any] = Counter()
    for *name, step in rows:
        sums[tuple(name)] += step
    return {name: (total + (1 << 63)) % (1 << 64) - (1 << 63) for name, total in sums.items()}


def assert_together(names: list[Any]) -> None:
    for size in (2, 3):  # each unit, and each code of a unit, in one run
        runs = [name[:size] for place, name in enumerate(names) if not place or name[:size] != names[place - 1][:size]]
        assert len(runs) == len(set(runs))


@settings(max_examples=2 * settings.default.max_examples)
@given(tables)
def test_sums_are_those_of_a_dictionary_and_units_come_together(rows: list[Row]) -> None:
    names, sums = netted(rows)
    assert sums == twin(rows)
    assert len(names) == len(sums)
    assert_together(names)


@pytest.mark.parametrize("units", [1, 3, 20_000])
def test_many_rows_of_few_units_and_few_rows_of_many(units: int) -> None:
    rng = np.random.default_rng(units)
    owners = rng.integers(0, 1 << 63, (units, 2))[rng.integers(0, units, 20_000)]
    rest = [rng.integers(0, most, 20_000) for most in (7, 1000, 5)]
    rows: list[Row] = list(zip(*owners.T.tolist(), *(column.tolist() for column in rest), strict=True))
    names, sums = netted(rows)
    assert sums == twin(rows)
    assert_together(names)


@given(tables, st.randoms(use_true_random=False))
def test_runs_are_found_counted_and_moved_to_the_front(rows: list[Row], random: Any) -> None:
    """Against groups of a dictionary, by unit and by unit and code, with some pairs kept of each unit."""
    units, codes, indices, steps = net(*columns(rows))
    table = list(zip(map(tuple, units.tolist()), codes.tolist(), indices.tolist(), steps.tolist(), strict=True))
    pairs = list(dict.fromkeys(row[:2] for row in table))
    firsts = {unit: pair for unit, *pair in reversed(pairs)}
    kept = {pair: [pair[1]] == firsts[pair[0]] or random.random() < 0.5 for pair in pairs}
    flags = np.array(list(kept.values()), dtype=np.bool_)

    pair_ends, unit_ends = find_runs(units, codes)
    assert pair_ends.tolist() == [max(n for n, row in enumerate(table) if row[:2] == pair) + 1 for pair in pairs]
    assert (
        unit_ends.tolist() == [max(n for n, pair in enumerate(pairs) if pair[0] == unit) + 1 for unit in firsts][::-1]
    )

    sizes: Counter[Any] = Counter()
    for unit, _, _, step in table:
        sizes[unit] += abs(float(step))
    losing, total, largest = sum_units(steps, pair_ends, unit_ends, flags)
    assert losing == len({pair[0] for pair in pairs if not kept[pair]})
    assert total == pytest.approx(sum(sizes.values()))
    assert largest == pytest.approx(max(sizes.values(), default=0.0))

    left = keep_rows(flags, units, codes, indices, steps, pair_ends, unit_ends)
    wanted = [row for row in table if kept[row[:2]]]
    found = [column[:left].tolist() for column in (codes, indices, steps)]
    assert list(zip(map(tuple, units[:left].tolist()), *found, strict=True)) == wanted
    ends = find_runs(units[:left], codes[:left])
    assert pair_ends[: int(flags.sum())].tolist() == ends[0].tolist()
    assert unit_ends.tolist() == ends[1].tolist()


@given(st.lists(st.lists(st.tuples(words, words), max_size=12, unique=True), max_size=6), st.integers(1, 5))
def test_the_least_of_each_run_are_those_of_sorting(runs: list[list[tuple[int, int]]], most: int) -> None:
    ranks, ties = np.array([row for run in runs for row in run], dtype=np.uint64).reshape(-1, 2).T.copy()
    kept = np.ones(ranks.size, dtype=np.bool_)
    keep_least(ranks, ties, np.cumsum([0, *map(len, runs)]), most, kept)
    wanted = [row in sorted(run)[:most] for run in runs for row in run]
    assert kept.tolist() == wanted
