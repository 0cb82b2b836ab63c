"""Rows of features, summed by unit and clipped as rows: the bits of their twin, and of one event for each feature."""

import dataclasses
import functools
import math
import operator
import os
import types
from collections import Counter, defaultdict
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.features import Category, Features, Number
from streamsketch.projections import Identity
from streamsketch.sketching.bounding import cells, units
from streamsketch.sketching.bounding.cells import bounded_cells
from streamsketch.sketching.bounding.clip import Bounded
from streamsketch.sketching.bounding.contributions import Contributions, concatenated
from streamsketch.sketching.bounding.grouping import GroupedEvents
from tests.oracles import naive_cells
from tests.sketching.bounding.test_cells import bounds_for, clips, left_of, limits, nonzero
from tests.sketching.bounding.test_clip import SECRET, SLOTS, UNITS

WIDTH = 3
IDENTITY = Identity(dim=WIDTH)
Row = tuple[bytes, tuple[Any, int], list[int]]

cells_of_rows = st.one_of(st.integers(-9, 9), st.sampled_from([1 << 15, (1 << 15) - 1, 1 - (1 << 15)]))
rows_of_units = st.lists(
    st.tuples(st.sampled_from(UNITS), st.sampled_from(SLOTS), st.lists(cells_of_rows, min_size=WIDTH, max_size=WIDTH)),
    max_size=25,
)


def columns(rows: list[Row], width: int = WIDTH) -> Contributions:
    places = {slot: place for place, slot in enumerate(dict.fromkeys(slot for _, slot, _ in rows))}
    none = np.empty(0, dtype=np.int64)
    return Contributions(
        np.array([np.frombuffer(unit, dtype="<u8") for unit, *_ in rows], dtype=np.uint64).reshape(-1, 2),
        list(places),
        np.array([places[slot] for _, slot, _ in rows], dtype=np.int64),
        none,
        none,
        np.array([row for *_, row in rows], dtype=np.int32).reshape(-1, width),
    )


def cells_left(parts: Iterable[Bounded]) -> Counter[tuple[Any, int]]:
    found: Counter[tuple[Any, int]] = Counter()
    for part in parts:
        assert part.in_cells
        assert part.steps.shape == (part.codes.size, WIDTH)
        assert part.steps.any(axis=1).all()
        for code, row in zip(part.codes.tolist(), part.steps.tolist(), strict=True):
            found.update({(part.slots[code], cell): step for cell, step in enumerate(row)})
    return nonzero(found)


@given(rows_of_units, limits, clips, st.integers(1, 5))
def test_rows_are_summed_and_clipped_as_by_the_twin(rows: list[Row], limit: int, clip: str, max_keys: int) -> None:
    events = [(unit, slot, cell, step) for unit, slot, row in rows for cell, step in enumerate(row)]
    bounds: dict[str, Any] = {"limit": limit, "clip": clip, "max_keys": max_keys, "secret": SECRET}
    sums, units_in = naive_cells.bounded(events, lambda cell: np.eye(WIDTH, dtype=int)[cell].tolist(), **bounds)
    given_rows = columns(rows)
    parts = list(bounded_cells(given_rows, **bounds_for(IDENTITY, clip, limit, max_keys)))
    assert cells_left(parts) == sums
    held: Counter[Any] = Counter()
    for part in parts:
        held.update(dict(zip(part.slots, part.units_of.tolist(), strict=True)))
    assert +held == units_in
    if all(any(row) for *_, row in rows):  # as rows of features are
        as_events = list(bounded_cells(given_rows.one_by_one(), **bounds_for(IDENTITY, clip, limit, max_keys)))
        assert left_of(as_events) == sums
        for part, other in zip(parts, as_events, strict=True):
            assert part.units_left.tolist() == other.units_left.tolist()
            assert part.tally == other.tally


def averaged(rows: list[Row]) -> list[Row]:
    """Return a row for each pair of a unit and a slot: the average, to the nearest integers, halves away from zero."""
    found: dict[tuple[bytes, tuple[Any, int]], list[list[int]]] = defaultdict(list)
    for unit, slot, row in rows:
        found[unit, slot].append(row)

    def average(column: tuple[int, ...], count: int) -> int:
        size = math.floor(abs(Fraction(sum(column), count)) + Fraction(1, 2))
        return size if sum(column) > 0 else -size

    return [(*pair, [average(column, len(own)) for column in zip(*own, strict=True)]) for pair, own in found.items()]


@given(rows_of_units, limits, st.integers(1, 5), st.integers(0, 25), st.integers(1, 9))
def test_rows_are_averaged_and_then_clipped_as_by_the_twin(
    rows: list[Row], limit: int, max_keys: int, cut: int, in_memory: int
) -> None:
    """Whether rows come as such, as events, or in part as each; and in files, where they become sums at last."""
    bounds: dict[str, Any] = {"limit": limit, "max_keys": max_keys, "secret": SECRET, "clip": "scale"}
    events = [(unit, slot, cell, step) for unit, slot, row in averaged(rows) for cell, step in enumerate(row)]
    sums, units_in = naive_cells.bounded(events, lambda cell: np.eye(WIDTH, dtype=int)[cell].tolist(), **bounds)
    counted = columns([(unit, slot, [*row, 1]) for unit, slot, row in rows], WIDTH + 1)
    first, second = (counted.rows(part) for part in (slice(0, cut), slice(cut, None)))
    with GroupedEvents(rows=in_memory, split_bits=1) as grouped:
        grouped.add(counted)
        groups = list(grouped.groups())
    known = bounds_for(IDENTITY, "scale", limit, max_keys) | {"averaged": True}
    tallies = []
    for given_rows in ([counted], [counted.one_by_one()], [concatenated([first.one_by_one(), second])], groups):
        parts = [part for one in given_rows for part in bounded_cells(one, **known)]
        found: Counter[Any] = Counter()
        held: Counter[Any] = Counter()
        for part in parts:
            found.update(cells_left([part]) if part.steps.ndim > 1 else left_of([part]))
            held.update(dict(zip(part.slots, part.units_of.tolist(), strict=True)))
        assert nonzero(found) == sums
        assert +held == units_in
        tallies.append(sum(part.tally.units_over_bound for part in parts))
    assert len(set(tallies)) == 1


@pytest.mark.parametrize("clip", ["scale", "equal"])
@pytest.mark.parametrize(("part", "large"), [(1, 0), (1, 1 << 20), (7, 0), (40, 1 << 20)])
def test_parts_of_any_size_give_the_same_cells(
    clip: str, part: int, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    drawn = zip(rng.integers(0, 5, 90), rng.integers(0, 5, 90), rng.integers(-999, 999, (90, WIDTH)), strict=True)
    rows = columns([(UNITS[unit], SLOTS[slot], (row << unit).tolist()) for unit, slot, row in drawn])
    (whole,) = bounded_cells(rows, **bounds_for(IDENTITY, clip, 1 << 13))
    for constant, size in {"CELLS_A_SLOT": 0, "LARGE": large, "PART": part}.items():
        monkeypatch.setattr(cells, f"_{constant}", size)
    parts = list(bounded_cells(rows, **bounds_for(IDENTITY, clip, 1 << 13)))
    assert len(parts) >= 5 or part == 40
    assert cells_left(parts) == cells_left([whole])
    for field in ("units", "units_over_bound", "units_below_bound", "total", "kept"):
        assert sum(getattr(one.tally, field) for one in parts) == pytest.approx(getattr(whole.tally, field))
    assert np.array_equal(sum(one.units_of for one in parts), whole.units_of)


@given(rows_of_units.filter(len), st.integers(1, 9), st.integers(1, 9))
def test_every_row_of_a_unit_is_in_one_group(rows: list[Row], in_memory: int, size: int) -> None:
    """However often files are split: units that no digest tells apart are events of sums at last."""
    with GroupedEvents(rows=in_memory, split_bits=1) as events:
        for at in range(0, len(rows), size):
            events.add(columns(rows[at : at + size]))
        groups = list(events.groups())
    owners = [{tuple(unit) for unit in group.units.tolist()} for group in groups]
    assert sum(map(len, owners)) == len(set().union(*owners))
    found: Counter[Any] = Counter()
    expected: Counter[Any] = Counter()
    for group in groups:
        one = group.one_by_one()
        for unit, code, *event in zip(one.units.tolist(), one.codes, one.indices.tolist(), one.steps, strict=True):
            found[tuple(unit), one.slots[code], event[0]] += int(event[1])
    for name, slot, row in rows:
        unit = tuple(np.frombuffer(name, dtype="<u8").tolist())
        expected.update({(unit, slot, cell): step for cell, step in enumerate(row)})
    assert nonzero(found) == nonzero(expected)


@given(rows_of_units, st.integers(0, 25), st.booleans(), st.booleans())
def test_parts_of_rows_and_of_events_are_joined(rows: list[Row], cut: int, first: bool, last: bool) -> None:  # noqa: FBT001
    parts = [columns(rows[:cut]), columns(rows[cut:])]
    parts = [part.one_by_one() if alone else part for part, alone in zip(parts, (first, last), strict=True)]
    joined, whole = concatenated(parts).one_by_one(), columns(rows).one_by_one()
    assert joined.units.tolist() == whole.units.tolist()
    assert joined.indices.tolist() == whole.indices.tolist()
    assert joined.steps.tolist() == whole.steps.tolist()
    assert [joined.slots[code] for code in joined.codes] == [whole.slots[code] for code in whole.codes]


# --- bounded tables -----------------------------------------------------------------------------------------------

FEATURES = Features({"age": Number(0, 110), "ward": Category(["A", "B"]), "code": Category(hashed=4)}, seed=7, joint=2)
WAYS: list[Any] = [
    (ss.SketchL2(1, unit="patient"), "equal"),
    (ss.SketchL2(1, unit="patient", max_keys=3), "equal"),
    (ss.SketchL2("1/2", unit="patient", max_keys=2), "scale"),
    (ss.SketchL2.of_averages("patient", 3), "average"),
    (ss.L2(2, unit="patient", max_keys=2), "scale"),
    (ss.L1(2, unit="patient", max_keys=2), "scale"),
    (ss.L1(2, unit="patient"), "cut"),
]


@pytest.fixture
def fixed_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "os", types.SimpleNamespace(urandom=lambda _: bytes(range(32)), PathLike=os.PathLike))


def rows_of_patients(size: int = 160) -> pa.Table:
    """Return rows of forty patients, some of whom have no name or site, with fields that fit nothing."""
    rng = np.random.default_rng(3)
    patients = [["", None, "Ann"][i] if i < 3 else f"patient {i % 40}" for i in rng.permutation(size)]
    return pa.table(
        {
            "site": [None if i % 50 == 7 else "NSEW"[i % 4] for i in rng.permutation(size)],
            "patient": patients,
            "age": [None if i % 9 == 0 else float(i) for i in rng.permutation(size)],
            "ward": [["A", "B", "C", None][i % 4] for i in rng.permutation(size)],
            "code": [f"code {i % 7}" for i in rng.permutation(size)],
        }
    )


def everything(state: Any) -> dict[str, Any]:
    """Return all that a table or a sketch holds."""
    counts = None if state.counts is None else np.array(state.counts).tolist()
    if isinstance(state, ss.Sketch):
        found = {"cells": state.state().tolist(), "mass": state.mass, "counts": counts}
        return found | {"largest": state.largest, "bounds": state.bounds}
    found = {"keys": list(state), "cells": state.cells.tolist(), "masses": state.masses.tolist(), "counts": counts}
    return found | {"largest": state.largest, "bounds": state.bounds}


@pytest.mark.usefixtures("fixed_secret")
@pytest.mark.parametrize(("neighbours", "clip"), WAYS, ids=[f"{one.kind}-{one.max_keys}-{clip}" for one, clip in WAYS])
@pytest.mark.parametrize("key", ["site", None], ids=["keyed", "one"])
def test_rows_give_the_bits_of_their_events(
    neighbours: Any, clip: Any, key: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With any number of rows in memory and in a batch, and rows of other keys."""
    neighbours = dataclasses.replace(neighbours, max_keys=1) if key is None else neighbours
    known = {"key": key, "unit": "patient", "neighbours": neighbours, "clip": clip, "missing": "drop"}
    agreement, rows = ss.Agreement(features=FEATURES, **known), rows_of_patients()

    def bound(size: int, in_memory: int = 1 << 20) -> tuple[dict[str, Any], ss.bounding.BoundingSummary]:
        summary, batches = ss.bounding.BoundingSummary(), pa.Table.from_batches(rows.to_batches(max_chunksize=size))
        with monkeypatch.context() as patch:
            patch.setattr(units, "GroupedEvents", lambda folder: GroupedEvents(folder, in_memory, split_bits=1))
            public = None if key is None else ["N", "S", "E"]
            return everything(ss.bound(batches, agreement, public_keys=public, summary=summary)), summary

    with monkeypatch.context() as patch:
        of = Contributions.of.__func__  # type: ignore[attr-defined]
        patch.setattr(Contributions, "of", lambda *given, **known: of(Contributions, *given, **known).one_by_one())
        expected, summary = bound(160)
    for size, in_memory in ((160, 1 << 20), (7, 1 << 20), (40, 60)):
        found, counted = bound(size, in_memory)
        assert found == expected
        for name, value in dataclasses.asdict(counted).items():
            if name == "rows_of_other_keys":  # of rows, not of their features
                assert value == (0 if key is None else of_other_keys(rows))
            else:
                assert value == pytest.approx(getattr(summary, name)), name


def of_other_keys(rows: pa.Table) -> int:
    """Return how many rows have a unit and a key that is not public."""
    return sum(bool(row["patient"]) and row["site"] == "W" for row in rows.to_pylist())


def test_a_feature_of_a_whole_row_keeps_its_sign_in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    features = Features({name: Number(-1, 1, moments=1) for name in "abcd"}, seed=7)
    agreement = ss.Agreement(features=features, unit="patient", neighbours=ss.SketchL2(1, unit="patient"), clip="equal")
    rows = pa.table({"patient": list("uvwxyz"), **{name: [0.0] * 6 for name in "abcd"}})
    monkeypatch.setattr(units, "GroupedEvents", lambda folder: GroupedEvents(folder, 3))
    found = ss.bound(rows, agreement)
    assert isinstance(found, ss.Sketch)
    assert found.state()[features.blocks[-1].first] == 6 << 15


def test_rows_that_are_read_some_at_a_time_keep_their_numbers() -> None:
    """Of 16,379 features, 256 rows are read at a time."""
    wide = Features({"age": Number(0, 110), "ward": Category(["A", "B"]), "code": Category(hashed=16_370)}, seed=7)
    agreement, some = ss.Agreement(features=wide, unit="patient", missing="drop"), rows_of_patients(300)
    named = [bool(name) for name in some["patient"].to_pylist()]
    rows = pa.concat_tables([some.filter(pa.array(named)), some]).combine_chunks()
    parts = [ss.sketch(rows.slice(start, 100), agreement) for start in range(0, rows.num_rows, 100)]
    whole = functools.reduce(operator.add, parts)
    assert ss.sketch(rows, agreement) == whole
    first = 1 + sum(named) + named.index(False)
    assert first > 256
    with pytest.raises(ss.InvalidInputError, match=f"row {first},"):
        ss.sketch(rows, agreement.replace(missing="refuse"))


def test_rows_that_cancel_leave_no_key() -> None:
    (part,) = bounded_cells(
        columns([(UNITS[0], SLOTS[0], [3, 0, -1]), (UNITS[0], SLOTS[0], [-3, 0, 1])]), **bounds_for(IDENTITY)
    )
    assert part.codes.size == 0
    assert (part.units_of.tolist(), part.units_left.tolist()) == ([1], [0])
