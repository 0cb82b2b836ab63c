"""Contribution bounding: what one unit adds to a table, netted, then clipped to its bounds.

What is left of a unit depends on that unit's events and the secret alone, not on other units, the order of events or
the execution of a pipeline. So removing a unit removes what is left of it and changes nothing else (THEORY.md 4.2).
"""

import dataclasses
import hashlib
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamsketch.core import MAX_KEY, Ints, Words, evaluate, kernel
from streamsketch.data import canonical_bytes
from streamsketch.errors import InvalidInputError
from streamsketch.sketching.bounding.contributions import Contributions, Slot
from streamsketch.sketching.bounding.runs import find_runs, keep_least, keep_rows, net
from streamsketch.sketching.bounding.scale import cut_steps, exceeds, exceeds_squared, scale_squares, scale_steps
from streamsketch.sketching.bounding.summary import Tally

Flags: TypeAlias = NDArray[np.bool_]
Clip: TypeAlias = Literal["scale", "cut"]

MAX_LIMIT = 1 << 62


@dataclasses.dataclass(frozen=True, eq=False)
class Bounded:
    """What is left of the events of many units: one row for each unit, slot and index.

    Parameters
    ----------
    slots
        Distinct slots.
    codes, indices, steps
        Rows as in `Contributions`, in another order.
    units_of
        The number of units kept in each slot: int64, (len(slots),). One unit changes at most ``max_keys`` of these
        counts, by 1 each.
    tally
        What the bounds took, for the operator alone.
    """

    slots: list[Slot]
    codes: Ints
    indices: Ints
    steps: Ints
    units_of: Ints
    tally: Tally = dataclasses.field(default_factory=Tally)


def check_clip(clip: str) -> None:
    """Raise `InvalidInputError` for a way to clip that is not known."""
    if clip not in ("scale", "cut"):
        raise InvalidInputError(
            f"clip must be 'scale' (shrink a unit's whole vector) or 'cut' (drop events beyond the bound), got {clip!r}"
        )


def bounded(
    events: Contributions,
    *,
    max_keys: int,
    limit: int,
    secret: bytes,
    clip: Clip = "scale",
    together: bool = False,
    squared: bool = False,
) -> Bounded:
    """Return what is left of each unit's events within its bounds.

    First a unit's events are summed by slot and index, modulo 2^64 as the cells of a sketch are. A unit in more than
    ``max_keys`` slots keeps those of least rank, a secret function of unit and slot. If the absolute values that are
    left sum to N > ``limit`` in one slot, they are clipped in an order shuffled by index: scaled by limit / N, each
    rounded up or down so that they sum to the limit, or cut, taken until the limit is reached, the last one in part.

    Parameters
    ----------
    events
        All events of these units: a unit split over two calls would have two budgets.
    max_keys, limit
        The bounds; 0 < limit < 2^62.
    secret
        32 bytes, unknown to anyone who can influence the data.
    clip
        ``"scale"`` keeps the direction of a unit's vector, ``"cut"`` whole values of some of its items.
    together
        Whether ``limit`` is for all slots of a unit together, instead of for each.
    squared
        Whether ``limit`` is for Σx² instead of Σ|x|: each x becomes trunc(x · √(limit / Σx²)), and ``clip`` is
        ``"scale"``.
    """
    events = netted(events)
    pair_ends, unit_ends = find_runs(events.units, events.codes)
    draws = _Draws(events.slots, secret)
    kept = _kept_pairs(events, pair_ends, unit_ends, max_keys, draws)
    tally = Tally.of(events.steps, pair_ends, unit_ends, kept)
    if not kept.all():
        rows = keep_rows(kept, events.units, events.codes, events.indices, events.steps, pair_ends, unit_ends)
        events, pair_ends = events.rows(slice(rows)), pair_ends[: int(kept.sum())]
    units_of = np.bincount(events.codes[pair_ends - 1], minlength=len(events.slots))
    rows_of_units = pair_ends[unit_ends - 1]
    stops = rows_of_units if together else pair_ends
    starts = np.append(0, stops)[:-1]
    over = (exceeds_squared if squared else exceeds)(events.steps, starts, stops, limit)
    if over.any():
        tally = tally.clipped(np.searchsorted(rows_of_units, starts[over], side="right"))
        events = _clipped(events, pair_ends, stops, over, limit, "squares" if squared else clip, draws)
    left = np.flatnonzero(events.steps)
    tally = tally.left(events.steps)
    if left.size < len(events):
        events = events.rows(left)
    return Bounded(events.slots, events.codes, events.indices, events.steps, units_of, tally)


def _clipped(
    events: Contributions, pair_ends: Ints, stops: Ints, over: Flags, limit: int, how: str, draws: "_Draws"
) -> Contributions:
    """Return the events with those of groups over the limit clipped; the groups end at ``stops``."""
    sizes = np.diff(stops, prepend=0)
    groups = np.repeat(np.arange(stops.size), sizes)
    if how != "squares":
        pair_of_row = np.repeat(np.arange(pair_ends.size), np.diff(pair_ends, prepend=0))
        events = events.rows(_shuffled(events, pair_of_row, groups, np.repeat(over, sizes), draws))
    starts, stops = (stops - sizes)[over], stops[over]
    steps = events.steps.copy()
    if how == "squares":
        scale_squares(steps, starts, stops, limit)
    elif how == "cut":
        cut_steps(groups, steps, limit)
    else:
        scale_steps(steps, starts, stops, limit)
    return dataclasses.replace(events, steps=steps)


def netted(events: Contributions) -> Contributions:
    """Return a row for each unit, slot and index, those of a unit and slot together, with the sum modulo 2^64."""
    units, codes, indices, steps = net(events.units, events.codes, events.indices, events.steps)
    return Contributions(units, events.slots, codes, indices, steps)


def _first_of(groups: Ints) -> Ints:
    """Return where each run of equal numbers, all at least 0, begins."""
    return np.flatnonzero(np.diff(groups, prepend=-1))


class _Draws:
    """Secret numbers that depend on units and slots alone."""

    def __init__(self, slots: list[Slot], secret: bytes) -> None:
        self._slots = [window.to_bytes(8, "little", signed=True) + canonical_bytes(key) for key, window in slots]
        self._secret = secret

    def slot_ranks(self, units: Words, codes: Ints) -> tuple[Words, Words]:
        """Return the ranks of slots by their units' first words, and numbers that break ties: uint64, (n,) each.

        A rank is the value of an 8-wise independent polynomial at unit plus slot.
        """
        slots = self.slot_words(codes)
        ranks = np.empty(codes.size, dtype=np.uint64)
        evaluate((units + slots) & np.uint64(MAX_KEY), self._coefficients(b""), ranks)
        return ranks, slots

    def slot_words(self, codes: Ints) -> Words:
        """Return a secret number for each slot: uint64, (n,)."""
        digests = b"".join(self._digest(slot, b"streamsketch.slt", 8) for slot in self._slots)
        return np.frombuffer(digests, dtype="<u8")[codes]

    def polynomial(self, unit: Words, code: int) -> Words:
        """Return eight coefficients in GF(2^64): an 8-wise independent shuffle of a unit's indices in a slot.

        A linear one would favour the ends of arithmetic progressions, such as hours or days.
        """
        return self._coefficients(unit.astype("<u8").tobytes() + self._slots[code])

    def _coefficients(self, message: bytes) -> Words:
        return np.frombuffer(self._digest(message, b"streamsketch.ord", 64), dtype="<u8").astype(np.uint64)

    def _digest(self, message: bytes, person: bytes, size: int) -> bytes:
        return hashlib.blake2b(message, digest_size=size, key=self._secret, person=person).digest()


def _kept_pairs(events: Contributions, pair_ends: Ints, unit_ends: Ints, max_keys: int, draws: _Draws) -> Flags:
    """Return which pairs of unit and slot are kept."""
    slots_of_unit = np.diff(unit_ends, prepend=0)
    is_crowded = slots_of_unit > max_keys
    kept = np.ones(pair_ends.size, dtype=bool)
    crowded = np.flatnonzero(np.repeat(is_crowded, slots_of_unit))
    if crowded.size:
        rows = pair_ends[crowded] - 1
        ranks, ties = draws.slot_ranks(events.units[rows, 0], events.codes[rows])
        held = np.ones(crowded.size, dtype=np.bool_)
        keep_least(ranks, ties, np.append(0, np.cumsum(slots_of_unit[is_crowded])), max_keys, held)
        kept[crowded] = held
    return kept


def _shuffled(events: Contributions, pair_of_row: Ints, groups: Ints, over: Flags, draws: _Draws) -> Ints:
    """Return an order of the rows that shuffles those of groups over their limit, and keeps groups where they are."""
    queue, ties = np.zeros(len(events), dtype=np.uint64), np.zeros(len(events), dtype=np.uint64)
    rows = np.flatnonzero(over)
    starts = rows[_first_of(pair_of_row[rows])]
    stops = np.append(_first_of(pair_of_row), len(events))
    stops = stops[np.searchsorted(stops, starts, side="right")]
    coefficients = np.array([draws.polynomial(events.units[row], events.codes[row]) for row in starts])
    shuffle(events.indices.view(np.uint64), starts, stops, coefficients, queue)
    ties[rows] = draws.slot_words(events.codes[rows])
    return np.lexsort((events.indices, ties, queue, groups))


@kernel
def shuffle(indices: Words, starts: Ints, stops: Ints, coefficients: Words, queue: Words) -> None:
    """Write the value in GF(2^64) of each run's own polynomial at the indices of its rows."""
    for run in range(starts.size):
        rows = slice(starts[run], stops[run])
        evaluate(indices[rows], coefficients[run], queue[rows])
