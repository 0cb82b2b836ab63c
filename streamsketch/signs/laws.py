"""Flip laws: with which probability a published sign is the wrong one."""

import dataclasses
import functools
from fractions import Fraction
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from streamsketch.core import Ints, short
from streamsketch.errors import InvalidInputError
from streamsketch.privacy import Neighbours, check_rate
from streamsketch.projections import MAX_ENUMERATED, Projection, RandomNorms
from streamsketch.release import grid_steps

Shape: TypeAlias = Literal["constant", "levels", "linear"]
Floats: TypeAlias = NDArray[np.float64]

_MAX_STEP = 1 << 62


@dataclasses.dataclass(frozen=True)
class FlipLaw:
    """A sign is flipped with probability 1/(exp(rate · L) + 1), L ≥ 0 the level of its cell y.

    At y = 0 there is no sign, L is 0 and a fair coin decides: each law is odd around it.

    Parameters
    ----------
    shape
        ``"constant"``: L = 1. ``"levels"``: L = ⌈|y| / step⌉, step the farthest a neighbour can move that cell (Li and
        Li 2023, Algorithm 4). ``"linear"``: L = |y|, in grid steps.
    rate
        An exact rational n / 2^s, rounded down from what the guarantee allows.

    Raises
    ------
    InvalidInputError
        For another shape, or a rate outside the sampler's range.

    Examples
    --------
    >>> law = FlipLaw("levels", Fraction(1, 2))
    >>> law.levels(np.array([[-7, 0, 3]]), np.array([3, 3, 3])).tolist()
    [[3, 0, 1]]
    >>> print(law)
    flips with 1/(exp(1/2·⌈|cell|/step⌉) + 1)
    """

    shape: Shape
    rate: Fraction

    def __post_init__(self) -> None:
        if self.shape not in get_args(Shape):
            raise InvalidInputError(f"a flip law is one of {', '.join(get_args(Shape))}, got {short(self.shape)}")
        check_rate(self.rate)

    def levels(self, cells: Ints, steps: Ints) -> Ints:
        """Return each cell's level: int64, of the cells' shape (…, k), for steps ≥ 1 of shape (k,)."""
        size: Ints = np.abs(cells)
        if self.shape == "constant":
            return np.minimum(size, 1)
        return size if self.shape == "linear" else -(-size // steps)

    def gain(self, cells: Floats, step: float) -> Floats:
        """Return E[published sign] at real cells in grid steps: sign(y)·tanh(rate·L / 2), as floats, for estimates."""
        return np.sign(cells) * np.tanh(float(self.rate) / 2 * self._sizes(cells, step))

    def chance(self, cells: Floats, step: float) -> Floats:
        """Return with which probability the published signs of real cells, in grid steps and none 0, are wrong."""
        wrong: Floats = expit(-float(self.rate) * self._sizes(cells, step))
        return wrong

    def _sizes(self, cells: Floats, step: float) -> Floats:
        """Return the levels of real cells."""
        if self.shape == "constant":
            return np.ones_like(cells)
        return np.abs(cells) if self.shape == "linear" else np.ceil(np.abs(cells) / step)

    def __str__(self) -> str:
        level = {"constant": "", "levels": "·⌈|cell|/step⌉", "linear": "·|cell|"}[self.shape]
        return f"flips with 1/(exp({self.rate}{level}) + 1)"


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
    if projection.max_entry == 1 or not isinstance(projection, RandomNorms):
        return np.full(projection.sketch_dim, projection.max_entry, dtype=np.int64)
    if projection.dim * projection.sketch_dim > MAX_ENUMERATED:
        raise InvalidInputError(
            f"the largest entries of the rows of {type(projection).__name__} are found by looking, and "
            f"dim={projection.dim} times sketch_dim={projection.sketch_dim} are more than {MAX_ENUMERATED}. Use "
            f"Rademacher, SJLT or OPORP, whose entries are ±1"
        )
    return _found_maxima(projection.replace(resolution=Fraction(1)))  # the grid does not change A


@functools.lru_cache(maxsize=64)
def _found_maxima(projection: RandomNorms) -> Ints:
    largest = projection.row_maxima()
    largest.flags.writeable = False
    return largest
