"""A slow twin of point queries, from columns of the naive maps, in fractions."""

import itertools
import json
import statistics
from collections.abc import Sequence
from fractions import Fraction

from tests.oracles.naive_maps import column


def frequency(text: str, scale_squared: Fraction, cells: Sequence[int], index: int, estimator: str) -> Fraction:
    """Return c²·g·⟨A_j, Y⟩, or c²·g·s times the median of the s cells of an item with their signs."""
    entries = [(entry, cell) for entry, cell in zip(column(text, index), cells, strict=True) if entry]
    step = scale_squared * Fraction(json.loads(text)["resolution"])
    signed = [entry * cell for entry, cell in entries]
    if estimator == "mean":
        return step * sum(signed)
    return step * len(signed) * statistics.median(map(Fraction, signed))


def median_tails(sizes: Sequence[int], count: int, ends: Sequence[Fraction]) -> list[Fraction]:
    """Return the probabilities that the median of ``count`` sizes with random signs is farther from 0 than each end.

    By enumeration of all draws.
    """
    law = [sign * one for one in sizes for sign in (-1, 1)]
    medians = [abs(statistics.median(draw)) for draw in itertools.product(law, repeat=count)]
    return [Fraction(sum(median > end for median in medians), len(medians)) for end in ends]
