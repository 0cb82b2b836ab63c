"""Which grid is fine enough for what is left of a unit once it is clipped in sketch space."""

import dataclasses
import math
from fractions import Fraction

from streamsketch.errors import InvalidInputError
from streamsketch.privacy.neighbours import Neighbours
from streamsketch.projections.base import Projection

MOST_COARSE = 1 << 12
"""The least bound on a sketch's norm, in grid steps, that units are clipped to."""

_ENOUGH = 1 << 14


def fine_enough(projection: Projection, neighbours: Neighbours | None) -> Projection:
    """Return the projection with a grid that is fine enough to clip units to these neighbours.

    The scaled cells of a clipped unit are truncated to the grid, which loses less than one step per cell. A bound of at
    least 2^14 steps keeps that loss small. If a unit's norm is spread evenly over n cells, each cell has 2^14/√n steps:
    1,000 cells lose 0.1 % on average, while the noise on each cell is wider than 2^14 steps. Sums of 2^48 units are
    still below 2^63.

    Returns
    -------
    Projection
        The same projection if the neighbours are not `SketchL2`, or if its grid is fine enough (a bound of 2^12 steps).
        Otherwise its resolution is divided by the smallest power of two that makes the bound at least 2^14 steps.
        Multiples of the old resolution are multiples of the new one.

    Examples
    --------
    >>> from streamsketch import SJLT, SketchL2
    >>> fine_enough(SJLT(sketch_dim=64, sparsity=4, seed=7), SketchL2(1)).resolution
    Fraction(1, 8192)
    """
    if neighbours is None or not neighbours.of_sketches or _steps(projection, neighbours) >= MOST_COARSE:
        return projection
    return dataclasses.replace(projection, resolution=_resolution(projection, neighbours))


def check_fine(projection: Projection, neighbours: Neighbours) -> None:
    """Raise `InvalidInputError` if the grid is too coarse for units to be clipped to these neighbours.

    That is, if a `SketchL2` bound is less than 2^12 grid steps of a cell: most cells of a unit would be scaled to less
    than a step, and vanish.
    """
    if neighbours.of_sketches and (steps := _steps(projection, neighbours)) < MOST_COARSE:
        finer = _resolution(projection, neighbours)
        raise InvalidInputError(
            f"on a resolution of {projection.grid}, {neighbours!r} leaves a unit's sketch a norm of {steps:,} grid "
            f"steps, so most of its cells would be rounded to zero; {MOST_COARSE:,} are needed. Use "
            f"resolution='{finer}', which streamsketch.agree chooses by itself; on the command line, `agree` "
            f"does too, and --set resolution={finer} states it"
        )


def _steps(projection: Projection, neighbours: Neighbours) -> int:
    """Return ⌊bound / cell_unit⌋; 0 for a bound below one step."""
    return math.isqrt(math.floor(Fraction(neighbours.bound) ** 2 / (projection.scale_squared * projection.grid**2)))


def _resolution(projection: Projection, neighbours: Neighbours) -> Fraction:
    """Return the grid over the least power of two for which the bound is 2^14 steps or more, up to 2^63."""
    steps_squared = Fraction(neighbours.bound) ** 2 / (projection.scale_squared * projection.grid**2)
    power = next((n for n in range(63) if steps_squared * 4**n >= _ENOUGH**2), 63)
    return projection.grid / (1 << power)
