"""Which of a unit's rows count, if those of one time do: the latest or the first in each slot."""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.numbers import Ints
from streamsketch.sketching.bounding.contributions import Contributions, Slot
from streamsketch.sketching.bounding.runs import Runs, by_unit


def of_one_time(events: Contributions | Runs, *, first: bool = False) -> Contributions | Runs:
    """Return the events of each unit's latest or first time in each slot; all of them, if they have no times.

    Events of equal times are all kept, so the order of rows does not matter. What is kept of a unit depends on its own
    rows alone, so whatever is then done to units one by one, such as clipping, bounds what one of them adds.

    Parameters
    ----------
    events
        Whole units, with a slot for each time.
    first
        Whether to keep the first time, not the latest.

    Returns
    -------
    Contributions or Runs
        Without times: slots that differ in their times alone are one.
    """
    if events.times is None:
        return events
    slots: dict[Slot, int] = {}
    places = np.array([slots.setdefault(slot, len(slots)) for slot in events.slots], dtype=np.int64)
    units, codes, times = _unit_numbers(events), places[events.codes], np.array(events.times, dtype=np.int64)
    # ~t orders the other way, and every int64 has one
    kept = _latest(units * len(slots) + codes, (~times if first else times)[events.codes])
    if isinstance(events, Contributions):
        return dataclasses.replace(events, slots=list(slots), codes=codes, times=None).rows(kept)
    bounds = np.append(0, np.cumsum(np.bincount(units[kept], minlength=len(events.units))))
    return Runs(events.units, bounds, list(slots), codes[kept], events.indices[kept], events.steps[kept])


def _unit_numbers(events: Contributions | Runs) -> Ints:
    """Return a number of the unit of each event: int64, (n,)."""
    if isinstance(events, Runs):
        return np.repeat(np.arange(len(events.units)), np.diff(events.bounds))
    numbers = np.empty(len(events), dtype=np.int64)
    order, ends = by_unit(events.units)
    numbers[order] = np.repeat(np.arange(ends.size), np.diff(ends, prepend=0))
    return numbers


def _latest(groups: Ints, times: Ints) -> NDArray[np.bool_]:
    """Return which rows have the greatest time of their group: bool, (n,)."""
    order = np.lexsort((times, groups))
    ends = np.append(np.flatnonzero(np.diff(groups[order])), groups.size - 1)[: groups.size]
    kept = np.empty(groups.size, dtype=np.bool_)
    kept[order] = times[order] == np.repeat(times[order[ends]], np.diff(ends, prepend=-1))
    return kept
