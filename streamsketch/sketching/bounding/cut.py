"""Contribution bounding: at most ``max_keys`` slots per unit, and at most ``limit`` grid steps of it in each.

Which events of a unit are kept depends on that unit's events and the secret alone, not on other units, the order of
events or the execution of a pipeline. So removing a unit removes its kept events and changes nothing else: at most
``max_keys`` slots change, each by at most ``limit`` steps in ℓ1 (THEORY.md 4.2).
"""

import dataclasses
import hashlib
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamsketch.core import MAX_KEY, Ints, Words, evaluate, kernel
from streamsketch.data import canonical_bytes
from streamsketch.sketching.bounding.contributions import Contributions, Slot

Flags: TypeAlias = NDArray[np.bool_]


@dataclasses.dataclass(frozen=True, eq=False)
class Bounded:
    """The kept events of many units.

    Parameters
    ----------
    slots
        Distinct slots.
    codes, indices, steps
        Events as in `Contributions`, in another order.
    units_of
        The number of units kept in each slot: int64, (len(slots),). One unit changes at most ``max_keys`` of these
        counts, by 1 each.
    """

    slots: list[Slot]
    codes: Ints
    indices: Ints
    steps: Ints
    units_of: Ints


def bounded(events: Contributions, *, max_keys: int, limit: int, secret: bytes) -> Bounded:
    """Return the events clipped to the bounds of each unit.

    A unit in more than ``max_keys`` slots keeps those of least rank, a secret function of unit and slot. If a unit's
    absolute values sum to more than ``limit`` in one slot, its events are taken in an order shuffled by index until the
    limit is reached; the last one is taken in part.

    Parameters
    ----------
    events
        All events of these units: a unit split over two calls would have two budgets.
    max_keys, limit
        The bounds; 0 < limit < 2^62.
    secret
        32 bytes, unknown to anyone who can influence the data.
    """
    order = np.lexsort((events.codes, events.units[:, 1], events.units[:, 0]))
    events = events.rows(order)
    new_unit, new_pair = _starts(events)
    pair_of_row: Ints = np.cumsum(new_pair) - 1
    first_rows = np.flatnonzero(new_pair)
    draws = _Draws(events.slots, secret)
    rows = _kept_pairs(events.rows(first_rows), new_unit[first_rows], max_keys, draws)[pair_of_row]
    events, pair_of_row = events.rows(rows), pair_of_row[rows]
    codes_of_pairs = events.codes[np.flatnonzero(np.diff(pair_of_row, prepend=-1))]
    order = np.lexsort((events.steps, events.indices, _shuffled(events, pair_of_row, limit, draws), pair_of_row))
    events = events.rows(order)
    steps = events.steps.copy()
    cut_steps(pair_of_row, steps, limit)
    left = steps != 0
    return Bounded(
        events.slots,
        events.codes[left],
        events.indices[left],
        steps[left],
        np.bincount(codes_of_pairs, minlength=len(events.slots)),
    )


def _starts(events: Contributions) -> tuple[Flags, Flags]:
    """Return which of the sorted rows start a new unit, and which start a new pair of unit and slot."""
    new_unit = np.ones(len(events), dtype=bool)
    new_unit[1:] = (events.units[1:] != events.units[:-1]).any(axis=1)
    new_pair = new_unit.copy()
    new_pair[1:] |= events.codes[1:] != events.codes[:-1]
    return new_unit, new_pair


class _Draws:
    """Secret numbers that depend on units and slots alone."""

    def __init__(self, slots: list[Slot], secret: bytes) -> None:
        self._slots = [window.to_bytes(8, "little", signed=True) + canonical_bytes(key) for key, window in slots]
        self._secret = secret

    def slot_ranks(self, units: Words, codes: Ints) -> tuple[Words, Words]:
        """Return the ranks of a unit's slots, and numbers that break the unlikely ties: uint64, (n,) each.

        A rank is the value of an 8-wise independent polynomial at unit plus slot.
        """
        digests = b"".join(self._digest(slot, b"streamsketch.slt", 8) for slot in self._slots)
        slots = np.frombuffer(digests, dtype="<u8")[codes]
        ranks = np.empty(codes.size, dtype=np.uint64)
        evaluate((units[:, 0] + slots) & np.uint64(MAX_KEY), self._coefficients(b""), ranks)
        return ranks, slots

    def polynomial(self, unit: Words, code: int) -> Words:
        """Return eight coefficients in GF(2^64): an 8-wise independent shuffle of a unit's indices in a slot.

        A linear one would favour the ends of arithmetic progressions, such as hours or days.
        """
        return self._coefficients(unit.astype("<u8").tobytes() + self._slots[code])

    def _coefficients(self, message: bytes) -> Words:
        return np.frombuffer(self._digest(message, b"streamsketch.ord", 64), dtype="<u8").astype(np.uint64)

    def _digest(self, message: bytes, person: bytes, size: int) -> bytes:
        return hashlib.blake2b(message, digest_size=size, key=self._secret, person=person).digest()


def _kept_pairs(pairs: Contributions, new_unit: Flags, max_keys: int, draws: _Draws) -> Flags:
    """Return which pairs of unit and slot are kept, given one event of each, grouped by unit."""
    first_of_unit = np.append(np.flatnonzero(new_unit), new_unit.size)
    slots_of_unit = np.diff(first_of_unit)
    kept = np.ones(new_unit.size, dtype=bool)
    crowded = np.flatnonzero(np.repeat(slots_of_unit > max_keys, slots_of_unit))
    unit = np.repeat(np.arange(slots_of_unit.size), slots_of_unit)[crowded]
    ranks, ties = draws.slot_ranks(pairs.units[crowded], pairs.codes[crowded])
    order = np.lexsort((ties, ranks, unit))
    place = np.arange(order.size) - np.searchsorted(unit, unit)  # in the queue of the own unit; order keeps units
    kept[crowded[order]] = place < max_keys
    return kept


def _shuffled(events: Contributions, pair_of_row: Ints, limit: int, draws: _Draws) -> Words:
    """Return each row's place in the queue for its pair's limit, or 0 if the pair is within the limit."""
    queue = np.zeros(len(events), dtype=np.uint64)
    starts = np.flatnonzero(np.diff(pair_of_row, prepend=-1))
    stops = np.append(starts[1:], len(events))
    over = exceeds(events.steps, starts, stops, limit)
    starts, stops = starts[over], stops[over]
    if starts.size:
        coefficients = np.array([draws.polynomial(events.units[row], events.codes[row]) for row in starts])
        shuffle(events.indices.view(np.uint64), starts, stops, coefficients, queue)
    return queue


@kernel
def exceeds(steps: Ints, starts: Ints, stops: Ints, limit: int) -> Flags:
    """Return which runs of rows have Σ|steps| > limit, for |steps| ≤ limit < 2^62, so that no sum exceeds 2^63."""
    over = np.zeros(starts.size, dtype=np.bool_)
    for run in range(starts.size):
        left = limit
        for i in range(starts[run], stops[run]):
            left -= abs(steps[i])
            if left < 0:
                over[run] = True
                break
    return over


@kernel
def shuffle(indices: Words, starts: Ints, stops: Ints, coefficients: Words, queue: Words) -> None:
    """Write the value in GF(2^64) of each run's own polynomial at the indices of its rows."""
    for run in range(starts.size):
        rows = slice(starts[run], stops[run])
        evaluate(indices[rows], coefficients[run], queue[rows])


@kernel
def cut_steps(groups: Ints, steps: Ints, limit: int) -> None:
    """Clip ``steps`` in place to Σ|steps| ≤ limit in each run of equal ``groups``, for |steps| ≤ limit < 2^62."""
    left = limit
    for i in range(steps.size):
        if i > 0 and groups[i] != groups[i - 1]:
            left = limit
        taken = min(abs(steps[i]), left)
        left -= taken
        steps[i] = taken if steps[i] > 0 else -taken
