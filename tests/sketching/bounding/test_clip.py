"""What one unit may add to a table, clipped exactly: against the twin, rationals and the stated sensitivities."""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.accounting.sensitivity import sensitivity_of
from streamsketch.privacy.neighbours import Clip
from streamsketch.sketching.bounding.clip import Bounded, bounded, in_order
from streamsketch.sketching.bounding.contributions import Contributions, concatenated
from streamsketch.sketching.bounding.summary import Tally
from tests.oracles import naive
from tests.sketching.bounding.edges import EDGES

SECRET = bytes(range(32))
PROJECTION = ss.SJLT(dim=1 << 60, sketch_dim=16, sparsity=4, seed=3)
Event = tuple[bytes, tuple[Any, int], int, int]

LIMIT = 5
SLOTS = [("AA", 0), ("UA", 0), (b"AA", 0), (7, 0), ("AA", -60_000_000)]
UNITS = [bytes([unit]) * 16 for unit in range(5)]
steps = st.integers(-LIMIT, LIMIT)
events = st.lists(
    st.tuples(
        st.sampled_from(UNITS),
        st.sampled_from(SLOTS),
        st.one_of(st.integers(0, 4), st.sampled_from([(1 << 60) - 1, 1 << 59])),
        steps,
    ),
    max_size=60,
)


def columns(found: list[Event]) -> Contributions:
    """Return events as the columns that `bounded` takes, slots in order of appearance."""
    places = {slot: place for place, slot in enumerate(dict.fromkeys(slot for _, slot, _, _ in found))}
    return Contributions(
        np.array([np.frombuffer(unit, dtype="<u8") for unit, *_ in found], dtype=np.uint64).reshape(-1, 2),
        list(places),
        np.array([places[slot] for _, slot, _, _ in found], dtype=np.int64),
        np.array([index for *_, index, _ in found], dtype=np.int64),
        np.array([step for *_, step in found], dtype=np.int64),
    )


def kept(cut: Bounded) -> Counter[tuple[Any, int, int]]:
    return Counter(
        (cut.slots[code], index, step)
        for code, index, step in zip(cut.codes.tolist(), cut.indices.tolist(), cut.steps.tolist(), strict=True)
    )


def table(cut: Bounded) -> dict[Any, np.ndarray]:
    """Return the exact sketch of every slot."""
    sketches = ss.SketchTable(PROJECTION)
    names = [repr(slot) for slot in cut.slots]
    sketches.add_steps(names, cut.codes, cut.indices, cut.steps)
    empty = np.zeros(PROJECTION.sketch_dim, dtype=np.int64)
    return {slot: sketches[name].state() if name in sketches else empty for slot, name in zip(cut.slots, names)}  # noqa: B905


def moves(one: dict[Any, np.ndarray], other: dict[Any, np.ndarray]) -> np.ndarray:
    """Return how far each slot moved, cell by cell."""
    empty = np.zeros(PROJECTION.sketch_dim, dtype=np.int64)
    return np.array([one.get(slot, empty) - other.get(slot, empty) for slot in one.keys() | other.keys()])


clips = st.sampled_from(["scale", "cut"])
heavy_steps = st.one_of(st.integers(-9, 9), st.integers(-(1 << 62), 1 << 62), st.sampled_from(EDGES))


@settings(max_examples=4 * settings.default.max_examples)
@given(events, st.integers(1, 4), st.integers(1, LIMIT), clips, st.booleans())
def test_bounding_is_its_readable_twin(
    found: list[Event],
    max_keys: int,
    limit: int,
    clip: Clip,
    together: bool,  # noqa: FBT001
) -> None:
    bounds: dict[str, Any] = {"max_keys": max_keys, "limit": limit, "clip": clip, "together": together}
    cut = bounded(columns(found), secret=SECRET, **bounds)
    assert kept(cut) == Counter(naive.bounded(found, secret=SECRET, **bounds))
    fast = bounded(columns(found), secret=SECRET, totals=False, **bounds)
    assert kept(fast) == kept(cut)
    assert fast.units_of.tolist() == cut.units_of.tolist()
    assert fast.tally == dataclasses.replace(cut.tally, total=0.0, kept=0.0, largest=0.0)


@settings(max_examples=2 * settings.default.max_examples)
@given(
    st.lists(st.tuples(st.sampled_from(UNITS[:2]), st.sampled_from(SLOTS[:2]), st.integers(0, 3), heavy_steps)),
    st.one_of(st.integers(1, 9), st.integers(1, (1 << 62) - 1)),
    clips,
)
def test_large_steps_are_clipped_exactly(found: list[Event], limit: int, clip: Clip) -> None:
    """Sums wrap around at 64 bits, products and norms take more than that."""
    bounds: dict[str, Any] = {"max_keys": 2, "limit": limit, "clip": clip}
    cut = bounded(columns(found), secret=SECRET, **bounds)
    assert kept(cut) == Counter(naive.bounded(found, secret=SECRET, **bounds))


@settings(max_examples=2 * settings.default.max_examples)
@given(st.lists(heavy_steps.filter(bool), min_size=1, max_size=9), st.integers(1, (1 << 62) - 1))
def test_scaled_values_are_the_rationals_rounded(vector: list[int], limit: int) -> None:
    """Each within one step, to the bound exactly, so that no unit vanishes on a coarse grid."""
    found: list[Event] = [(UNITS[0], ("AA", 0), index, step) for index, step in enumerate(vector)]
    total = sum(map(abs, vector))
    factor = min(Fraction(1), Fraction(limit, total))
    cut = bounded(columns(found), max_keys=1, limit=limit, secret=SECRET)
    scaled = dict(zip(cut.indices.tolist(), cut.steps.tolist(), strict=True))
    for index, step in enumerate(vector):
        assert abs(scaled.get(index, 0) - step * factor) < 1
        assert scaled.get(index, 0) * step >= 0
    assert sum(map(abs, scaled.values())) == min(total, limit)


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 4), min_size=1))
def test_rows_of_a_group_follow_each_other_by_queue_word_and_index(rows: list[tuple[int, ...]]) -> None:
    """Queues are hashes, so only here some are equal."""
    groups, queue, words, indices = np.array(rows).T.copy()
    groups = np.sort(np.unique(groups, return_inverse=True)[1])
    keys = list(zip(groups.tolist(), queue.tolist(), words.tolist(), indices.tolist(), strict=True))
    order = in_order(groups, queue.astype(np.uint64), words.astype(np.uint64), indices)
    assert sorted(order.tolist()) == [*range(len(rows))]
    assert [keys[row] for row in order] == sorted(keys)
    distinct = np.random.default_rng(1).permutation(len(rows))
    by_queue = in_order(groups, distinct.astype(np.uint64), words.astype(np.uint64), indices)
    assert by_queue.tolist() == sorted(range(len(rows)), key=lambda row: (groups[row], distinct[row]))


def test_counts_of_one_do_not_vanish() -> None:
    found: list[Event] = [(unit, ("AA", 0), index, 1) for unit in UNITS[:2] for index in range(100)]
    cut = bounded(columns(found), max_keys=1, limit=30, secret=SECRET)
    assert cut.steps.tolist() == [1] * 60
    assert len(set(cut.indices[:30].tolist())) == 30


def test_what_is_returned_cancels_what_was_bought() -> None:
    found: list[Event] = [(UNITS[0], ("AA", 0), 7, step) for step in (80_995, -80_995)]
    found += [(UNITS[0], ("AA", 0), 8, 5), (UNITS[1], ("AA", 0), 7, 1)]
    for clip in ("scale", "cut"):
        cut = bounded(columns(found), max_keys=1, limit=30, secret=SECRET, clip=clip)
        assert kept(cut) == Counter([(("AA", 0), 8, 5), (("AA", 0), 7, 1)])
        assert cut.tally == Tally(units=2, total=6.0, kept=6.0, largest=5.0)


def test_scaling_keeps_the_direction_and_cutting_does_not() -> None:
    vector = np.array([400, -300, 200, 100])
    found: list[Event] = [(UNITS[0], ("AA", 0), index, step) for index, step in enumerate(vector.tolist())]
    scaled, cut = (
        bounded(columns(found), max_keys=1, limit=100, secret=SECRET, clip=clip) for clip in ("scale", "cut")
    )
    assert dict(zip(scaled.indices.tolist(), scaled.steps.tolist(), strict=True)) == {0: 40, 1: -30, 2: 20, 3: 10}
    assert np.abs(cut.steps).sum() == 100
    assert cut.steps.size == 1


def test_the_tally_tells_the_operator_what_was_clipped() -> None:
    found: list[Event] = [(UNITS[0], slot, 1, 4) for slot in SLOTS[:3]]
    found += [(UNITS[1], SLOTS[0], 1, 3), (UNITS[2], SLOTS[0], 1, 2)]
    cut = bounded(columns(found), max_keys=2, limit=3, secret=SECRET)
    assert cut.tally == Tally(3, units_over_keys=1, units_over_bound=1, total=17.0, kept=11.0, largest=12.0)
    cut = bounded(columns(found), max_keys=3, limit=6, secret=SECRET, together=True)
    assert cut.tally == Tally(3, units_over_keys=0, units_over_bound=1, total=17.0, kept=11.0, largest=12.0)


@settings(max_examples=2 * settings.default.max_examples)
@given(events, st.integers(1, 3), st.sampled_from(UNITS), clips, st.booleans())
def test_removing_a_unit_moves_the_table_by_no_more_than_the_stated_sensitivities(
    found: list[Event],
    max_keys: int,
    unit: bytes,
    clip: Clip,
    together: bool,  # noqa: FBT001
) -> None:
    heavy = [(unit, slot, index, 3 * LIMIT) for slot in SLOTS for index in range(3)]
    bounds: dict[str, Any] = {"max_keys": max_keys, "limit": LIMIT, "clip": clip, "together": together}
    stated = sensitivity_of(PROJECTION, ss.L1(LIMIT, unit="user", max_keys=1 if together else max_keys))
    for everybody in (found, found + heavy):
        others = [event for event in everybody if event[0] != unit]
        one, other = (table(bounded(columns(some), secret=SECRET, **bounds)) for some in (everybody, others))
        moved = moves(one, other)
        assert np.abs(moved).sum() <= stated.l1
        assert (moved**2).sum() <= stated.l2_squared


def every_stream() -> Iterator[list[Event]]:
    """Yield every stream of one unit with up to three of these events, and two of another unit."""
    others: list[Event] = [(UNITS[1], SLOTS[0], 0, 2), (UNITS[1], SLOTS[1], 1, -4)]
    kinds: list[Event] = [
        (UNITS[0], slot, index, step) for slot in SLOTS[:2] for index in (0, 1) for step in (-3, 1, 4)
    ]
    for size in range(4):
        for own in itertools.combinations_with_replacement(kinds, size):
            yield [*own, *others]


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("clip", ["scale", "cut"])
def test_every_small_unit_is_within_the_bound_and_some_reach_it(clip: Clip, together: bool) -> None:  # noqa: FBT001
    """On the identity map a table shows a unit's vector itself."""
    projection, limit = ss.projections.Identity(dim=2), 3
    stated = sensitivity_of(projection, ss.L1(limit, max_keys=1 if together else 2)).l1
    bounds: dict[str, Any] = {"max_keys": 2, "limit": limit, "clip": clip, "together": together}
    without = kept(bounded(columns(next(every_stream())), secret=SECRET, **bounds))
    farthest = 0
    for stream in every_stream():
        gap = Counter(kept(bounded(columns(stream), secret=SECRET, **bounds)))
        gap.subtract(without)
        moved = sum(abs(step) * count for (_, _, step), count in gap.items())
        assert moved <= stated
        farthest = max(farthest, moved)
    assert farthest == stated


def test_the_same_check_catches_a_unit_with_two_budgets() -> None:
    """So does it where a unit's events are clipped before they are summed: its net vector must be complete."""
    heavy: list[Event] = [(UNITS[0], ("AA", 0), index, LIMIT) for index in range(4)]
    halves = [bounded(columns(part), max_keys=1, limit=LIMIT, secret=SECRET) for part in (heavy[:2], heavy[2:])]
    moved = sum(np.abs(cells).sum() for half in halves for cells in table(half).values())
    assert moved > sensitivity_of(PROJECTION, ss.L1(LIMIT)).l1


@given(events, st.randoms(use_true_random=False))
def test_the_order_of_events_does_not_matter(found: list[Event], random: Any) -> None:
    shuffled = list(found)
    random.shuffle(shuffled)
    one, other = (bounded(columns(some), max_keys=2, limit=LIMIT, secret=SECRET) for some in (found, shuffled))
    assert kept(one) == kept(other)
    assert units_of(one) == units_of(other)


def units_of(cut: Bounded) -> dict[Any, int]:
    return {slot: units for slot, units in zip(cut.slots, cut.units_of.tolist(), strict=True) if units}


@given(events, st.integers(1, 3))
def test_units_are_counted_once_in_each_slot_they_keep(found: list[Event], max_keys: int) -> None:
    together = bounded(columns(found), max_keys=max_keys, limit=LIMIT, secret=SECRET)
    counted: Counter[Any] = Counter()
    for unit in UNITS:
        own = [event for event in found if event[0] == unit]
        alone = units_of(bounded(columns(own), max_keys=max_keys, limit=LIMIT, secret=SECRET))
        assert len(alone) <= max_keys
        assert set(alone.values()) <= {1}
        counted.update(alone)
    assert units_of(together) == counted


def test_events_within_the_bounds_are_all_kept() -> None:
    found: list[Event] = [(UNITS[0], ("AA", 0), 3, 2), (UNITS[0], ("AA", 0), 3, -3), (UNITS[1], ("AA", 0), 3, 5)]
    cut = bounded(columns(found), max_keys=1, limit=5, secret=SECRET)
    assert kept(cut) == Counter([(("AA", 0), 3, -1), (("AA", 0), 3, 5)])


def test_no_events_are_no_events() -> None:
    assert kept(bounded(concatenated([]), max_keys=1, limit=1, secret=SECRET)) == Counter()


def test_the_largest_limit_does_not_overflow() -> None:
    limit = (1 << 62) - 1
    found: list[Event] = [(UNITS[0], ("AA", 0), index, -limit) for index in range(9)]
    cut = bounded(columns(found), max_keys=1, limit=limit, secret=SECRET, clip="cut")
    assert cut.steps.tolist() == [-limit]
    scaled = bounded(columns(found), max_keys=1, limit=limit, secret=SECRET)
    assert set(scaled.steps.tolist()) == {-(limit // 9), -(limit // 9) - 1}
    assert int(scaled.steps.sum()) == -limit


def choices(secret: bytes, draws: int) -> tuple[Counter[Any], Counter[int]]:
    """Return which of four keys, and which of four indices, units with one event too many kept."""
    units = [unit.to_bytes(16, "little") for unit in range(draws)]
    keys = bounded(
        columns([(unit, (key, 0), 1, 1) for unit in units for key in "abcd"]), max_keys=1, limit=1, secret=secret
    )
    indices = bounded(
        columns([(unit, ("a", 0), index, 1) for unit in units for index in range(4)]),
        max_keys=1,
        limit=1,
        secret=secret,
        clip="cut",
    )
    return Counter(keys.slots[code][0] for code in keys.codes.tolist()), Counter(indices.indices.tolist())


@pytest.mark.parametrize("which", [0, 1], ids=["keys", "indices"])
def test_what_is_kept_is_a_fair_choice(which: int) -> None:
    """Four outcomes, 4,000 units: χ² with 3 degrees of freedom is above 21.1 with probability 1e-4."""
    counts = choices(SECRET, 4000)[which]
    assert counts.total() == 4000
    assert sum((count - 1000) ** 2 / 1000 for count in counts.values()) + 1000 * (4 - len(counts)) < 21.1


def test_another_secret_chooses_otherwise() -> None:
    found: list[Event] = [(unit, (key, 0), 1, 1) for unit in UNITS for key in range(9)]
    one, other = (
        kept(bounded(columns(found), max_keys=2, limit=1, secret=secret)) for secret in (SECRET, SECRET[::-1])
    )
    assert one != other
