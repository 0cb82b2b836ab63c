"""How far a neighbour can move each cell: the steps in which flips count."""

import functools
from fractions import Fraction

import numpy as np

from streamsketch.accounting import grid_steps
from streamsketch.core import Ints
from streamsketch.errors import InvalidInputError
from streamsketch.privacy import FlipLaw, Neighbours, Shape
from streamsketch.projections import MAX_ENUMERATED, Projection

__all__ = ["FlipLaw", "Shape", "cell_steps", "row_maxima"]

_MAX_STEP = 1 << 62


def cell_steps(projection: Projection, neighbours: Neighbours) -> Ints:
    """Return how far a neighbour can move each cell, Δ̃·max_i|A_ji|, at least 1: int64, (k,), in grid steps.

    Under both relations: ‖x̃ - x̃'‖₁ ≤ Δ̃ moves cell j by at most Δ̃ times the largest entry of row j.

    Raises
    ------
    InvalidInputError
        If a step reaches 2^62, or A is random and too large to look at.
    """
    steps = grid_steps(projection, neighbours)
    entries = row_maxima(projection)
    if steps * max(1, int(entries.max())) >= _MAX_STEP:  # a map of few entries may have none but 0
        raise InvalidInputError("one unit could move a cell by 2**62 grid steps or more; use a coarser resolution")
    return np.maximum(steps * entries, 1)


def row_maxima(projection: Projection) -> Ints:
    """Return max_i |A_ji| of each row: int64, (k,); exactly where entries are other than -1, 0 and 1.

    Raises
    ------
    InvalidInputError
        If that would take a look at more than 2^35 entries.
    """
    if projection.enumerated_entries("row maxima") > MAX_ENUMERATED:
        raise InvalidInputError(
            f"the largest entries of the rows of {type(projection).__name__} are found by looking, and "
            f"dim={projection.dim} times sketch_dim={projection.sketch_dim} are more than {MAX_ENUMERATED}. Use "
            f"Rademacher, SJLT or OPORP, whose entries are ±1"
        )
    return _found_maxima(projection.replace(resolution=Fraction(1)))  # the grid does not change A


@functools.lru_cache(maxsize=64)
def _found_maxima(projection: Projection) -> Ints:
    largest = projection.row_maxima()
    largest.flags.writeable = False
    return largest
