"""Events of privacy units: their units as digests, their keys and windows as slots."""

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.concealed import concealed
from streamsketch.core.documents import TableKey
from streamsketch.core.numbers import Cells, Ints
from streamsketch.intake.events import Events
from streamsketch.kernels.hashing import Words
from streamsketch.sketching.bounding.digests import RunDigests, UnitDigests
from streamsketch.sketching.keyed import codes_of

Slot: TypeAlias = tuple[Any, int]
"""A key and a window (its last instant, in microseconds), which together identify a sketch."""

TimedSlot: TypeAlias = tuple[Slot, int | None]
"""A slot with the time of its rows, or None without times."""

FeatureRows: TypeAlias = Cells | NDArray[np.int16]

NO_KEY = ""
"""The key of a slot of a single stream."""

WHOLE = 9_223_371_950_454_774_999
"""The window of a slot without windows: the last instant of Beam's global window, so that both choose the same."""

_FEW_SLOTS, _EVENTS_A_SLOT = 32, 8  # such slots weigh less than leaving some out takes


@concealed
@dataclasses.dataclass(frozen=True, eq=False)
class Contributions:
    """Valid, quantised events of many units, as columns of equal length.

    Parameters
    ----------
    units
        Digests of the privacy units, by `UnitDigests`: uint64, (n, 2).
    slots
        Distinct slots.
    codes
        The position of each event's slot in ``slots``: int64, (n,).
    indices, steps
        Indices in [0, dim), and values in grid steps: int64, (n,).
    features
        Features of rows, if the agreement has `Features`: int32, (n, D), or int16 if all values fit. ``indices`` and
        ``steps`` are then empty. Where units' rows are averaged, there is a 1 behind the features of each row: (n,
        D + 1). Its sum is the number of rows, however often they are summed, and as an event it has the index D.
    times
        The time of the rows of each slot, if a unit keeps those of its latest or first time (`of_one_time`). Slots are
        then distinct together with their times.
    """

    units: Words
    slots: list[Slot]
    codes: Ints
    indices: Ints
    steps: Ints
    features: FeatureRows | None = None
    times: list[int] | None = None

    @classmethod
    def of(
        cls, events: Events, digests: UnitDigests | RunDigests, window: int = WHOLE, *, averaged: bool = False
    ) -> "Contributions":
        """Return events that were read to be bounded, with units; ``window`` is part of their slots.

        With ``averaged`` rows of features are counted by a 1 behind them. Events with times have a slot for each.
        """
        if not len(events):
            return concatenated([])
        names, codes = (
            ([NO_KEY], np.zeros(len(events), dtype=np.int64)) if events.keys is None else codes_of(events.keys)
        )
        slots = [(name, window) for name in names]
        units, codes, times = digests.of(events.units), codes.astype(np.int64), None
        if events.times is not None:
            moments, places = np.unique(events.times, return_inverse=True)
            pairs, codes = np.unique(codes * moments.size + places, return_inverse=True)
            slots = [slots[place] for place in (pairs // moments.size).tolist()]
            times = moments[pairs % moments.size].tolist()
        features = events.features
        if averaged and features is not None:
            features = np.append(features, np.ones_like(features[:, :1]), axis=1)
        return cls(units, slots, codes, events.indices, events.steps, features, times)

    def __len__(self) -> int:
        return self.codes.size

    @property
    def timed_slots(self) -> list[TimedSlot]:
        """The slots with their times: distinct."""
        times = [None] * len(self.slots) if self.times is None else self.times
        return list(zip(self.slots, times, strict=True))

    def rows(self, rows: NDArray[Any] | slice) -> "Contributions":
        """Return some of the events, selected by a mask, by positions or, without copying, by a slice."""
        if isinstance(rows, np.ndarray) and rows.dtype == np.bool_:
            rows = np.flatnonzero(rows)  # once, not for each column
        units, codes = self.units[rows], self.codes[rows]
        if self.features is not None:
            return dataclasses.replace(self, units=units, codes=codes, features=self.features[rows])
        return dataclasses.replace(self, units=units, codes=codes, indices=self.indices[rows], steps=self.steps[rows])

    def one_by_one(self) -> "Contributions":
        """Return events of one index and one step each; a row of D features becomes at most D events."""
        if self.features is None:
            return self
        rows, indices = np.nonzero(self.features)
        steps = self.features[rows, indices].astype(np.int64)
        return Contributions(self.units[rows], self.slots, self.codes[rows], indices, steps, times=self.times)

    def of_rows(self) -> "Contributions":
        """Return an event of one step for each row of features, whose index is the number of the row."""
        numbers = np.arange(len(self))
        return Contributions(self.units, self.slots, self.codes, numbers, np.ones_like(numbers))

    def compact(self) -> "Contributions":
        """Return the same events without many unused slots, for sending events in many parts."""
        if len(self.slots) <= max(_FEW_SLOTS, len(self) // _EVENTS_A_SLOT):
            return self
        timed, codes = used_slots(self.timed_slots, self.codes)
        slots, times = without_times(timed)
        return dataclasses.replace(self, slots=slots, codes=codes, times=times)


def without_times(timed: Sequence[TimedSlot]) -> tuple[list[Slot], list[int] | None]:
    """Return slots, and the time of each, or None without times."""
    times = [time for _, time in timed if time is not None]
    return [slot for slot, _ in timed], times or None


def used_slots(slots: list[TableKey], codes: Ints) -> tuple[list[Any], Ints]:
    """Return the slots that occur in ``codes``, and the codes renumbered to match."""
    used = np.zeros(len(slots), dtype=bool)
    used[codes] = True
    places: Ints = np.cumsum(used) - 1
    return [slots[place] for place in np.flatnonzero(used).tolist()], places[codes]


def shared_slots(parts: Sequence[Contributions]) -> tuple[tuple[list[Slot], list[int] | None], list[Ints]]:
    """Return the slots of all parts and their times, as `without_times`, and where those of each part are there."""
    slots: dict[TimedSlot, int] = {}
    places = [np.array([slots.setdefault(slot, len(slots)) for slot in part.timed_slots], np.int64) for part in parts]
    return without_times(list(slots)), places


def concatenated(parts: Sequence[Contributions]) -> Contributions:
    """Return the events of all parts as one object, of features if all are."""
    if len(parts) == 1:
        return parts[0]
    features: list[Any] = [part.features for part in parts if part.features is not None]
    if features and any(part.features is None and len(part) for part in parts):
        return concatenated([part.one_by_one() for part in parts])
    (names, times), places = shared_slots(parts)
    codes = [np.empty(0, dtype=np.int64)]
    for part, its in zip(parts, places, strict=True):
        codes.append(part.codes if (its == np.arange(its.size)).all() else its[part.codes])
    return Contributions(
        np.concatenate([np.empty((0, 2), dtype=np.uint64), *(part.units for part in parts)]),
        names,
        np.concatenate(codes),
        np.concatenate([codes[0], *(part.indices for part in parts)]),
        np.concatenate([codes[0], *(part.steps for part in parts)]),
        np.concatenate(features) if features else None,
        times,
    )
