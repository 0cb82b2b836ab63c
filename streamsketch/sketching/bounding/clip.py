"""Contribution bounding: what one unit adds to a table, netted, then clipped to its bounds.

What is left of a unit depends on that unit's events and the secret alone, not on other units, the order of events or
the execution of a pipeline. So removing a unit removes what is left of it and changes nothing else (Theory 4.2).
"""

import dataclasses
import functools
import hashlib
from typing import TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.concealed import concealed
from streamsketch.core.jit import kernel
from streamsketch.core.numbers import Ints
from streamsketch.data.canonical import canonical_bytes
from streamsketch.errors import InvalidInputError
from streamsketch.kernels.blake2b import digest_column, keyed_state
from streamsketch.kernels.hashing import Words
from streamsketch.privacy.neighbours import Clip
from streamsketch.sketching.bounding.clip_kernels import cut_steps, exceeds, exceeds_squared, scale_squares, scale_steps
from streamsketch.sketching.bounding.contributions import Contributions, Slot
from streamsketch.sketching.bounding.runs import Runs
from streamsketch.sketching.bounding.summary import Tally
from streamsketch.sketching.bounding.sums import sum_chosen

Flags: TypeAlias = NDArray[np.bool_]

MAX_LIMIT = 1 << 62
_ORDER = b"streamsketch.ord"
_NO_WORDS: Words = np.empty(0, dtype=np.uint64)


@concealed
@dataclasses.dataclass(frozen=True, eq=False)
class Bounded:
    """What is left of the events of many units: one row for each unit, slot and index or cell.

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
    in_cells
        Whether ``indices`` are cells, in [0, sketch_dim), and ``steps`` what is added to them: what clipping in sketch
        space leaves. Of features ``indices`` is empty, and ``steps`` has rows of all cells, (n, sketch_dim).
    units_left
        The number of units of which a row is left in each slot: int64, (len(slots),), no more than ``units_of``.
    """

    slots: list[Slot]
    codes: Ints
    indices: Ints
    steps: Ints
    units_of: Ints
    tally: Tally = dataclasses.field(default_factory=Tally)
    in_cells: bool = False
    units_left: Ints = dataclasses.field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @property
    def counts(self) -> Ints:
        """What `SketchTable.counts` has of each slot: int64, (len(slots), 2), units and, unless in cells, Σ|step|.

        A unit counts where something is left of it, so that what it moves does not depend on other units: a key is in a
        table only if it has rows.
        """
        totals = np.zeros(len(self.slots), dtype=np.int64)
        if not self.in_cells:
            np.add.at(totals, self.codes, np.abs(self.steps))
        return np.stack([self.units_left, totals], axis=1)


def check_clip(clip: str) -> None:
    """Raise `InvalidInputError` for a way to clip that is not known."""
    if clip not in get_args(Clip):
        raise InvalidInputError(
            f"clip must be 'scale' (shrink a unit's whole vector), 'cut' (drop events beyond the bound), 'equal' "
            f"(bring every unit to the bound) or 'average' (divide features by the number of a unit's rows), got "
            f"{clip!r}"
        )


def bounded(
    events: Contributions | Runs,
    *,
    max_keys: int,
    limit: int,
    secret: bytes,
    clip: Clip = "scale",
    together: bool = False,
    squared: bool = False,
    totals: bool = True,
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
    totals
        Whether the tally has ``total``, ``largest`` and ``kept``, for which rows of all slots are summed.
    """
    draws = Draws(events.slots, secret)
    sums = summed(events, max_keys, draws, totals=totals)
    tally, steps = sums.tally, sums.steps
    stops = sums.pair_ends[sums.unit_ends - 1] if together else sums.pair_ends
    starts = np.append(0, stops)[:-1]
    over = (exceeds_squared if squared else exceeds)(steps, starts, stops, limit)
    if over.any():
        tally = tally.clipped(sums.owners(starts[over]))
        sums = _clipped(sums, starts, stops, over, limit, "squares" if squared else clip, draws)
    units_of, units_left = (
        np.bincount(pairs, minlength=len(events.slots))
        # a clipped unit sums to the limit, so something is left wherever something was
        for pairs in (sums.pair_codes, sums.pair_codes[np.diff(sums.pair_ends, prepend=0) > 0])
    )
    tally = tally.left(sums.steps) if totals else tally
    return Bounded(events.slots, sums.codes, sums.indices, sums.steps, units_of, tally, units_left=units_left)


@concealed
@dataclasses.dataclass(frozen=True, eq=False)
class Sums:
    """Sums of units' rows by slot and index, without those that are 0: a unit's together, in it those of a slot.

    Parameters
    ----------
    units
        The digest of each unit: uint64, (n_units, 2).
    codes, indices, steps
        As in `Contributions`, a row for each sum.
    pair_codes, pair_ends
        The slot of each pair of a unit and a slot, and where its sums end; a pair may have none.
    unit_ends
        Where each unit's pairs end; it has one or more.
    tally
        What the choice of slots took.
    """

    units: Words
    codes: Ints
    indices: Ints
    steps: Ints
    pair_codes: Ints
    pair_ends: Ints
    unit_ends: Ints
    tally: Tally

    def owners(self, rows: Ints) -> Ints:
        """Return the units of rows, by their places in ``units``."""
        return np.searchsorted(self.pair_ends[self.unit_ends - 1], rows, side="right")


def summed(
    events: Contributions | Runs, max_keys: int = MAX_LIMIT, draws: "Draws | None" = None, *, totals: bool = True
) -> Sums:
    """Return the sums of units' rows, modulo 2^64, in the ``max_keys`` slots of least rank of each unit.

    Without ``draws`` every slot is kept.
    """
    runs = events if isinstance(events, Runs) else Runs.of(events)
    codes, indices, steps, pair_codes, pair_ends = (np.empty(len(runs), dtype=np.int64) for _ in range(5))
    unit_ends = np.empty(len(runs.units), dtype=np.int64)

    def chosen(words: Words, coefficients: Words) -> tuple[int, int, int, float, float]:
        read = runs.units, runs.bounds, runs.codes, runs.indices, runs.steps, len(runs.slots)
        written = codes, indices, steps, pair_codes, pair_ends, unit_ends
        return sum_chosen(*read, words, coefficients, max_keys, totals, *written)

    rows, pairs, losing, total, largest = chosen(_NO_WORDS, _NO_WORDS)
    if rows < 0 and draws is not None:  # only now are the slots' numbers needed
        rows, pairs, losing, total, largest = chosen(draws.words, draws.coefficients)
    tally = Tally(units=len(runs.units), units_over_keys=losing, total=total, largest=largest)
    columns = codes[:rows], indices[:rows], steps[:rows], pair_codes[:pairs], pair_ends[:pairs]
    return Sums(runs.units, *columns, unit_ends, tally)


def _clipped(sums: Sums, starts: Ints, stops: Ints, over: Flags, limit: int, rule: str, draws: "Draws") -> Sums:
    """Return the sums with those of groups over the limit clipped, and without those that are 0 then."""
    indices, steps, codes = sums.indices, sums.steps, sums.codes
    starts, stops = starts[over], stops[over]
    if rule == "squares":
        scale_squares(steps, starts, stops, limit)
    else:
        rows, groups = _rows_of(starts, stops)
        order = rows[_shuffled(sums, rows, groups, starts, draws)]
        codes[rows], indices[rows], steps[rows] = codes[order], indices[order], steps[order]
        (cut_steps if rule == "cut" else scale_steps)(steps, starts, stops, limit)
    left = np.flatnonzero(steps)
    return dataclasses.replace(sums, codes=codes[left], indices=indices[left], steps=steps[left])


def _rows_of(starts: Ints, stops: Ints) -> tuple[Ints, Ints]:
    """Return the rows of runs, and the number of each one's run."""
    sizes = stops - starts
    groups = np.repeat(np.arange(sizes.size), sizes)
    return np.arange(groups.size) + np.repeat(starts - (np.cumsum(sizes) - sizes), sizes), groups


class Draws:
    """Secret numbers that depend on units and slots alone."""

    def __init__(self, slots: list[Slot], secret: bytes) -> None:
        self._slots = [window.to_bytes(8, "little", signed=True) + canonical_bytes(key) for key, window in slots]
        self._secret = secret

    @functools.cached_property
    def words(self) -> Words:
        """A secret number for each slot: uint64, (n_slots,)."""
        digests = b"".join(self._digest(slot, b"streamsketch.slt", 8) for slot in self._slots)
        return np.frombuffer(digests, dtype="<u8").astype(np.uint64)

    def queue(self, units: Words, words: Words, indices: Ints) -> Words:
        """Return a secret number for each unit, slot, by its word, and index: uint64, (n,).

        A hash, as a linear function of the index would favour the ends of arithmetic progressions, such as hours.
        """
        rows = np.empty((indices.size, 4), dtype="<u8")
        rows[:, :2], rows[:, 2], rows[:, 3] = units, words, indices.view(np.uint64)
        ends = np.arange(0, rows.nbytes + 1, rows.strides[0])
        return digest_column(keyed_state(self._secret, _ORDER), ord("r"), rows.view(np.uint8).reshape(-1), ends)

    @property
    def coefficients(self) -> Words:
        """Those of the secret polynomial that ranks slots."""
        return np.frombuffer(self._digest(b"", _ORDER, 64), dtype="<u8").astype(np.uint64)

    def _digest(self, message: bytes, person: bytes, size: int) -> bytes:
        return hashlib.blake2b(message, digest_size=size, key=self._secret, person=person).digest()


def _shuffled(sums: Sums, rows: Ints, groups: Ints, starts: Ints, draws: Draws) -> Ints:
    """Return an order of some rows, in groups that begin at ``starts``, that shuffles those of each group."""
    words, indices = draws.words[sums.codes[rows]], sums.indices[rows]
    queue = draws.queue(sums.units[sums.owners(starts)[groups]], words, indices)
    return in_order(groups, queue, words, indices)


def in_order(groups: Ints, queue: Words, words: Words, indices: Ints) -> Ints:
    """Return an order of rows by group, 0 to n without gaps, and in it by queue, then word, then index."""
    order = np.argsort(queue)
    ranked = queue[order]
    if (ranked[1:] == ranked[:-1]).any():  # two of n hashes are equal with probability n²/2^65
        return np.lexsort((indices, words, queue, groups))
    return by_group(order, groups)


@kernel
def by_group(order: Ints, groups: Ints) -> Ints:
    """Return rows in the order given within each group, group by group; groups are 0 to n without gaps."""
    places, out = np.zeros(order.size + 1, dtype=np.int64), np.empty(order.size, dtype=np.int64)
    for row in range(order.size):
        places[groups[row] + 1] += 1
    for group in range(order.size):
        places[group + 1] += places[group]
    for row in order:
        out[places[groups[row]]] = row
        places[groups[row]] += 1
    return out
