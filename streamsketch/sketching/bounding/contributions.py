"""Events of privacy units: their units as digests, their keys and windows as slots."""

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.concealed import concealed
from streamsketch.core.numbers import Cells, Ints
from streamsketch.intake.events import Events
from streamsketch.kernels.hashing import Words
from streamsketch.sketching.bounding.digests import UnitDigests
from streamsketch.sketching.keyed import codes_of

Slot: TypeAlias = tuple[Any, int]
"""A key and a window (its last instant, in microseconds), which together identify a sketch."""

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
    """

    units: Words
    slots: list[Slot]
    codes: Ints
    indices: Ints
    steps: Ints
    features: FeatureRows | None = None

    @classmethod
    def of(
        cls, events: Events, digests: UnitDigests, window: int = WHOLE, *, averaged: bool = False
    ) -> "Contributions":
        """Return events that were read to be bounded, with units; ``window`` is part of their slots.

        With ``averaged`` rows of features are counted by a 1 behind them.
        """
        if not len(events):
            return concatenated([])
        names, codes = (
            ([NO_KEY], np.zeros(len(events), dtype=np.int64)) if events.keys is None else codes_of(events.keys)
        )
        slots = [(name, window) for name in names]
        units, codes = digests.of(events.units), codes.astype(np.int64)
        features = events.features
        if averaged and features is not None:
            features = np.append(features, np.ones_like(features[:, :1]), axis=1)
        return cls(units, slots, codes, events.indices, events.steps, features)

    def __len__(self) -> int:
        return self.codes.size

    def rows(self, rows: NDArray[Any] | slice) -> "Contributions":
        """Return some of the events, selected by a mask, by positions or, without copying, by a slice."""
        if isinstance(rows, np.ndarray) and rows.dtype == np.bool_:
            rows = np.flatnonzero(rows)  # once, not for each column
        units, codes = self.units[rows], self.codes[rows]
        if self.features is not None:
            return Contributions(units, self.slots, codes, self.indices, self.steps, self.features[rows])
        return Contributions(units, self.slots, codes, self.indices[rows], self.steps[rows])

    def one_by_one(self) -> "Contributions":
        """Return events of one index and one step each; a row of D features becomes at most D events."""
        if self.features is None:
            return self
        rows, indices = np.nonzero(self.features)
        steps = self.features[rows, indices].astype(np.int64)
        return Contributions(self.units[rows], self.slots, self.codes[rows], indices, steps)

    def of_rows(self) -> "Contributions":
        """Return an event of one step for each row of features, whose index is the number of the row."""
        numbers = np.arange(len(self))
        return Contributions(self.units, self.slots, self.codes, numbers, np.ones_like(numbers))

    def compact(self) -> "Contributions":
        """Return the same events without many unused slots, for sending events in many parts."""
        if len(self.slots) <= max(_FEW_SLOTS, len(self) // _EVENTS_A_SLOT):
            return self
        slots, codes = used_slots(self.slots, self.codes)
        return dataclasses.replace(self, slots=slots, codes=codes)


def used_slots(slots: list[Slot], codes: Ints) -> tuple[list[Slot], Ints]:
    """Return the slots that occur in ``codes``, and the codes renumbered to match."""
    used = np.zeros(len(slots), dtype=bool)
    used[codes] = True
    places: Ints = np.cumsum(used) - 1
    return [slots[place] for place in np.flatnonzero(used).tolist()], places[codes]


def concatenated(parts: Sequence[Contributions]) -> Contributions:
    """Return the events of all parts as one object, of features if all are."""
    if len(parts) == 1:
        return parts[0]
    features: list[Any] = [part.features for part in parts if part.features is not None]
    if features and any(part.features is None and len(part) for part in parts):
        return concatenated([part.one_by_one() for part in parts])
    slots: dict[Slot, int] = {}
    codes = [np.empty(0, dtype=np.int64)]
    for part in parts:
        places = [slots.setdefault(slot, len(slots)) for slot in part.slots]
        same = places == list(range(len(places)))
        codes.append(part.codes if same else np.array(places, dtype=np.int64)[part.codes])
    return Contributions(
        np.concatenate([np.empty((0, 2), dtype=np.uint64), *(part.units for part in parts)]),
        list(slots),
        np.concatenate(codes),
        np.concatenate([codes[0], *(part.indices for part in parts)]),
        np.concatenate([codes[0], *(part.steps for part in parts)]),
        np.concatenate(features) if features else None,
    )
