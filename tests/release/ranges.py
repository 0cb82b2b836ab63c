"""Ranges of windows from the rows of a history, by the inverse of its matrix: the twin of `History.range`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

import streamsketch as ss
from streamsketch.continual import HistoryPart
from streamsketch.privacy.noise import NoiseMoments


def range_of(rows: Sequence[Any], start: int, stop: int, *, halvings: int = 8, minus: Any = None) -> ss.PrivateSketch:
    """Return the release of some windows, on a lattice of 2^-halvings, from all rows of one key."""
    first = rows[0]
    schedule = first.guarantee.mechanism.layout.schedule
    wanted = np.zeros(schedule.horizon)
    wanted[start:stop] += 1
    if minus is not None:
        wanted[slice(*minus)] -= 1
    weights = np.linalg.solve(schedule.matrix().T.astype(float), wanted)[: len(rows)]

    def solved(numbers: list[Any]) -> Any:
        return np.rint(2.0**halvings * (weights @ np.array(numbers, dtype=float))).astype(np.int64)

    k2 = first.noise.k2 * 4**halvings * float((weights**2).sum())
    k4 = first.noise.k4 * 16**halvings * float((weights**4).sum())
    return ss.PrivateSketch(
        first.projection,
        solved([row.values for row in rows]),
        NoiseMoments(k2, k4),
        first.guarantee,
        multiplier=f"1/{2**halvings}",
        release_ids=first.release_ids,
        data_ids=first.data_ids,
        counts=None if first.counts is None else solved([row.counts for row in rows]),
        history=HistoryPart(first.history.id, start, stop, minus=minus),
    )
