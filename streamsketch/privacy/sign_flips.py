"""Laws of randomised response on signs: how often a sign is flipped, by how far its cell is from zero.

A sign at level L ≥ 0 is flipped with probability 1/(e^{rate·L} + 1), ``rate`` a rational: at level 0 it is a fair coin.
`streamsketch.privacy.flip_sampler` draws the flips.
"""

import dataclasses
import math
from fractions import Fraction
from typing import Literal, TypeAlias, get_args

import numpy as np

from streamsketch.core import sentences, special
from streamsketch.core.numbers import Floats, Ints, short
from streamsketch.errors import InvalidInputError

Shape: TypeAlias = Literal["constant", "levels", "linear"]

MAX_NUMERATOR = 1 << 32
MAX_SHIFT = 52  # the denominator stays below the sampler's 2^54, and rate · level reaches 2^10 before it is capped

_KEPT_BITS = 24


def rate_below(rate: Fraction) -> Fraction:
    """Return a rate the sampler can take, at most ``rate``, by less than 2^-23 of it from 2^-28 on.

    Raises
    ------
    InvalidInputError
        If the rate is below 2^-52: every sign would be a fair coin.
    """
    leading = rate.numerator.bit_length() - rate.denominator.bit_length()
    shift = min(MAX_SHIFT, max(0, _KEPT_BITS - leading))
    steps = math.floor(rate * (1 << shift))
    if steps < 1:
        raise InvalidInputError(
            f"each sign would have a share of epsilon below 2^-{MAX_SHIFT}, so all signs would be fair coin flips; "
            "use a larger epsilon, a coarser resolution or a smaller sketch_dim"
        )
    return Fraction(steps, 1 << shift)


def check_rate(rate: Fraction) -> None:
    """Raise `InvalidInputError` unless the sampler can take this rate."""
    shift = rate.denominator.bit_length() - 1
    if not (0 < rate.numerator <= MAX_NUMERATOR and rate.denominator == 1 << shift and shift <= MAX_SHIFT):
        raise InvalidInputError(
            f"a flip rate must be n / 2^s with 0 < n <= {MAX_NUMERATOR} and s <= {MAX_SHIFT}, got {short(rate)}"
        )


def sign_margin(cells: Ints) -> Ints:
    """Return how far cells are from where their sign changes: min(|y|, 2^63 - |y|), at most 2^62.

    Cells are sums modulo 2^64, so signs change at 0 and, past the last of 63 bits, at ±2^63. On that circle the margin
    moves by no more than the cell does.

    Parameters
    ----------
    cells
        int64, of any shape.

    Returns
    -------
    ndarray
        int64, of the same shape.

    Examples
    --------
    >>> sign_margin(np.array([-7, 0, (1 << 63) - 3, -(1 << 63)])).tolist()
    [7, 0, 3, 0]
    """
    size = np.abs(cells).view(np.uint64)  # |-2^63| wraps to -2^63, which is 2^63 as uint64
    margin: Ints = np.minimum(size, np.uint64(1 << 63) - size).view(np.int64)
    return margin


@dataclasses.dataclass(frozen=True)
class FlipLaw:
    """A sign is flipped with probability 1/(exp(rate · L) + 1), L ≥ 0 the level of its cell y.

    At y = 0 there is no sign, L is 0 and a fair coin decides: each law is odd around it. Cells are sums modulo 2^64,
    so signs change at ±2^63 as well. There a law is as around 0: |y| below is that, or 2^63 - |y| where that is less
    (`sign_margin`). No sum, however large, is then an exception to what flips guarantee.

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
        size = sign_margin(cells)
        if self.shape == "constant":
            return np.minimum(size, 1)
        return size if self.shape == "linear" else -(-size // steps)

    def gain(self, cells: Floats, step: float) -> Floats:
        """Return E[published sign] at real cells in grid steps: sign(y)·tanh(rate·L / 2), as floats, for estimates."""
        return np.sign(cells) * np.tanh(float(self.rate) / 2 * self._sizes(cells, step))

    def chance(self, cells: Floats, step: float) -> Floats:
        """Return with which probability the published signs of real cells, in grid steps and none 0, are wrong."""
        wrong: Floats = special.expit(-float(self.rate) * self._sizes(cells, step))
        return wrong

    def _sizes(self, cells: Floats, step: float) -> Floats:
        """Return the levels of real cells."""
        if self.shape == "constant":
            return np.ones_like(cells)
        return np.abs(cells) if self.shape == "linear" else np.ceil(np.abs(cells) / step)

    def __str__(self) -> str:
        level = {"constant": "", "levels": "·⌈|cell|/step⌉", "linear": "·|cell|"}[self.shape]
        return sentences.FLIPS.format(rate=self.rate, level=level)
