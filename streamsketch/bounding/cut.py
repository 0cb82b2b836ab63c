"""The cut itself: at most ``max_keys`` slots a unit, and at most ``limit`` grid steps of it in each.

What is kept of a unit depends on that unit's events and on the secret alone, never on other units, on the order of
events or on how a pipeline was run. So taking one unit away takes its kept events out and changes nothing else: no more
than ``max_keys`` slots move, each by at most ``limit`` steps in ℓ1 (THEORY.md 4.2).
"""

import dataclasses
import hashlib
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamsketch._jit import kernel
from streamsketch.bounding.contributions import Contributions, Slot
from streamsketch.encoding import Ints, canonical_bytes
from streamsketch.hashing import PRIME, Words, horner_wide

Flags: TypeAlias = NDArray[np.bool_]


@dataclasses.dataclass(frozen=True, eq=False)
class Bounded:
    """What is left of many units' events.

    Parameters
    ----------
    slots
        Different slots.
    codes, indices, steps
        Events as in `Contributions`, in an order of their own.
    units_of
        How many units are left in each slot: int64, (len(slots),). One unit moves at most ``max_keys`` of these
        counts, by 1 each.
    """

    slots: list[Slot]
    codes: Ints
    indices: Ints
    steps: Ints
    units_of: Ints


def bounded(events: Contributions, *, max_keys: int, limit: int, secret: bytes) -> Bounded:
    """Cut all units' events to their bounds.

    A unit in more than ``max_keys`` slots keeps those of least rank, a keyed digest of unit and slot. Where a unit's
    absolute values sum to more than ``limit`` in one slot, its events enter in an order shuffled by index until the
    limit is reached; the last one enters in part.

    Parameters
    ----------
    events
        All events of the units in question: a unit that is split over two calls has two budgets.
    max_keys, limit
        The bounds; 0 < limit < 2^62.
    secret
        32 bytes, unknown to whoever can influence the data.
    """
    order = np.lexsort((events.codes, events.units[:, 1], events.units[:, 0]))
    events = events.rows(order)
    new_unit, new_pair = _starts(events)
    pair_of_row: Ints = np.cumsum(new_pair) - 1
    first_rows = np.flatnonzero(new_pair)
    ranks = _Ranks(events, first_rows, secret)

    kept_pairs = np.ones(first_rows.size, dtype=bool)
    pairs_of_unit = np.append(np.flatnonzero(new_unit[first_rows]), first_rows.size)
    for unit in np.flatnonzero(np.diff(pairs_of_unit) > max_keys):
        own = range(pairs_of_unit[unit], pairs_of_unit[unit + 1])
        kept_pairs[own] = False
        kept_pairs[sorted(own, key=ranks.of_slot)[:max_keys]] = True

    rows = kept_pairs[pair_of_row]
    events, pair_of_row = events.rows(rows), pair_of_row[rows]
    codes_of_pairs = events.codes[np.flatnonzero(np.diff(pair_of_row, prepend=-1))]
    order = np.lexsort((events.steps, events.indices, _shuffled(events, pair_of_row, limit, ranks), pair_of_row))
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
    """Return which of the sorted rows begin a new unit, and a new unit or slot."""
    new_unit = np.ones(len(events), dtype=bool)
    new_unit[1:] = (events.units[1:] != events.units[:-1]).any(axis=1)
    new_pair = new_unit.copy()
    new_pair[1:] |= events.codes[1:] != events.codes[:-1]
    return new_unit, new_pair


class _Ranks:
    """Secret digests of pairs (unit, slot)."""

    def __init__(self, events: Contributions, first_rows: Ints, secret: bytes) -> None:
        self._units = events.units[first_rows].astype("<u8")
        self._slots = [events.slots[code] for code in events.codes[first_rows]]
        self._secret = secret

    def of_slot(self, pair: int) -> bytes:
        """Return what decides whether the unit keeps the slot."""
        return self._digest(pair, b"streamsketch.slt", 16)

    def polynomial(self, pair: int) -> Words:
        """Return eight coefficients mod 2^61 - 1: an 8-wise independent shuffle of the pair's indices.

        A linear one would favour the ends of arithmetic progressions, such as hours or days.
        """
        return np.frombuffer(self._digest(pair, b"streamsketch.ord", 64), dtype="<u8") & np.uint64(PRIME)

    def _digest(self, pair: int, person: bytes, size: int) -> bytes:
        key, window = self._slots[pair]
        message = self._units[pair].tobytes() + window.to_bytes(8, "little", signed=True) + canonical_bytes(key)
        return hashlib.blake2b(message, digest_size=size, key=self._secret, person=person).digest()


def _shuffled(events: Contributions, pair_of_row: Ints, limit: int, ranks: _Ranks) -> Words:
    """Return each row's place in the queue for its pair's limit; 0 where the limit is not reached."""
    queue = np.zeros(len(events), dtype=np.uint64)
    starts = np.flatnonzero(np.diff(pair_of_row, prepend=-1))
    stops = np.append(starts[1:], len(events))
    over = exceeds(events.steps, starts, stops, limit)
    starts, stops = starts[over], stops[over]
    if starts.size:
        coefficients = np.array([ranks.polynomial(pair) for pair in pair_of_row[starts].tolist()])
        shuffle(events.indices.view(np.uint64), starts, stops, coefficients, queue)
    return queue


@kernel
def exceeds(steps: Ints, starts: Ints, stops: Ints, limit: int) -> Flags:
    """Return which runs of rows have Σ|steps| > limit; |steps| ≤ limit < 2^62, so no sum passes 2^63."""
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
    """Write the value of each run's own polynomial at its rows' indices, mod 2^61 - 1."""
    for run in range(starts.size):
        rows = slice(starts[run], stops[run])
        horner_wide(indices[rows], coefficients[run], queue[rows])


@kernel
def cut_steps(groups: Ints, steps: Ints, limit: int) -> None:
    """Cut ``steps`` in place so that Σ|steps| ≤ limit in each run of equal ``groups``; |steps| ≤ limit < 2^62."""
    left = limit
    for i in range(steps.size):
        if i > 0 and groups[i] != groups[i - 1]:
            left = limit
        taken = min(abs(steps[i]), left)
        left -= taken
        steps[i] = taken if steps[i] > 0 else -taken
