"""The inputs of a plan for sites: what is assumed about a population, and how another one may differ from it.

Formulas: Theory 10.4.
"""

import dataclasses
import functools
import math
from numbers import Real
from typing import NamedTuple, TypeAlias

import numpy as np

from streamsketch.core.numbers import Floats, check_int, short
from streamsketch.errors import InvalidInputError
from streamsketch.features.columns import Category, Embedding, Number
from streamsketch.features.features import JOINT, REST, Features

_VALUES = 20  # of a hashed category, all as frequent
_COSINE = 0.5  # of two people's embeddings
_OTHER_COSINE = 0.25  # if they are of two classes
_NODES, _CHANCES = np.polynomial.hermite_e.hermegauss(48)
_CHANCES = _CHANCES / _CHANCES.sum()


class Means(NamedTuple):
    """Average features of two populations, as products: ‖μ_x‖², ‖μ_y‖² and ⟨μ_x, μ_y⟩."""

    first: float
    second: float
    product: float

    @property
    def apart(self) -> float:
        """‖μ_x - μ_y‖²."""
        return max(self.first + self.second - 2 * self.product, 0.0)

    def plus(self, other: "Means") -> "Means":
        """Return the products of both blocks together."""
        return Means(*(product + more for product, more in zip(self, other, strict=True)))


@dataclasses.dataclass(frozen=True)
class MeanShift:
    """The means of some numbers differ.

    Parameters
    ----------
    deviations
        The shift in standard deviations of a number, above 0.
    columns
        The number of columns that shift.

    Examples
    --------
    >>> print(MeanShift(0.5, columns=3))
    means of 3 numbers shifted by 0.5 standard deviations
    """

    deviations: float
    columns: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "deviations", _positive(self.deviations, "deviations", 100))
        check_int(self.columns, "columns", 1)

    def scaled(self, factor: float) -> "MeanShift":
        """Return a shift that is this many times as large."""
        return MeanShift(self.deviations * factor, self.columns)

    def __str__(self) -> str:
        which = "the mean of one number" if self.columns == 1 else f"means of {self.columns} numbers"
        return f"{which} shifted by {self.deviations:.3g} standard deviations"


@dataclasses.dataclass(frozen=True)
class ShareShift:
    """A share of people is in another category, of one column.

    Parameters
    ----------
    moved
        The share of people, above 0 and at most 1.

    Examples
    --------
    >>> print(ShareShift(0.05))
    5 % of people moved to another category
    """

    moved: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "moved", _positive(self.moved, "moved", 1))

    def scaled(self, factor: float) -> "ShareShift":
        """Return a shift that is this many times as large, at most of all people."""
        return ShareShift(min(self.moved * factor, 1.0))

    def __str__(self) -> str:
        return f"{100 * self.moved:.3g} % of people moved to another category"


@dataclasses.dataclass(frozen=True)
class ClassShift:
    """A class of people, such as the ill, is more frequent.

    Parameters
    ----------
    times
        How many times as often a person of the class occurs in the second population, above 1.
    share
        The share of the class in the first population, in (0, 1).
    deviations
        The difference between the means of the class and of the others, in standard deviations within a class.
    columns
        The number of columns in which the means differ; by default all.

    Examples
    --------
    >>> print(ClassShift(1.4, share=0.37))
    a class of 37 % made 1.4 times as frequent
    """

    times: float
    share: float = 0.5
    deviations: float = 1.0
    columns: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "times", _positive(self.times, "times", 1e6))
        object.__setattr__(self, "share", _positive(self.share, "share", 1))
        object.__setattr__(self, "deviations", _positive(self.deviations, "deviations", 100))
        if self.times <= 1 or self.share >= 1:
            raise InvalidInputError(
                f"share must be less than 1 and times more than 1, got share={self.share:g} and times={self.times:g}"
            )
        if self.columns is not None:
            check_int(self.columns, "columns", 1)

    @property
    def other_share(self) -> float:
        """The share of the class in the second population."""
        return self.times * self.share / (1 + (self.times - 1) * self.share)

    def scaled(self, factor: float) -> "ClassShift":
        """Return a shift whose class grows by this many times as much."""
        return dataclasses.replace(self, times=1 + (self.times - 1) * factor)

    def __str__(self) -> str:
        return f"a class of {100 * self.share:.3g} % made {self.times:.3g} times as frequent"


SiteShift: TypeAlias = MeanShift | ShareShift | ClassShift
"""How a second population differs from the first."""


def check_shift(shift: SiteShift, features: Features) -> None:
    """Raise `InvalidInputError` for a shift of columns that features lack."""
    kinds = [type(column) for column in features.columns.values()]
    numbers = kinds.count(Number)
    if isinstance(shift, ShareShift):
        if Category not in kinds:
            raise InvalidInputError(
                "a ShareShift moves people between categories, but no column is a category; use MeanShift or ClassShift"
            )
    elif (shift.columns or 1) > numbers and not (isinstance(shift, ClassShift) and Embedding in kinds):
        raise InvalidInputError(
            f"the shift is in {shift.columns or 1} columns of numbers, but there are only {numbers}; use fewer columns"
        )


def block_means(features: Features, shift: SiteShift, deviation: float) -> dict[str, Means]:
    """Return what to expect of the average features of two populations, block by block, over seeds.

    Numbers are independent and normal about the middle of their ranges, in each class. Categories of a column are all
    as frequent, and 20 of a hashed one. Embeddings of two people have a cosine of 0.5, of two classes 0.25.

    Parameters
    ----------
    features
        The map.
    shift
        How the second population differs.
    deviation
        The standard deviation of a number, as a share of its range.
    """
    numbers = [name for name, column in features.columns.items() if isinstance(column, Number)]
    moved = shift.columns if isinstance(shift, MeanShift | ClassShift) else 0
    shifted = set(numbers[: len(numbers) if moved is None else moved])
    expected, left, spread, movable = {}, 0.0, 0.0, True
    for block in features.blocks:
        square, column = (block.amplitude / (1 << 15)) ** 2, features.columns.get(block.name)
        if block.name == JOINT:
            expected[block.name] = _scaled(square, _joint(features, shift, deviation, len(numbers), len(shifted)))
        elif isinstance(column, Number):
            means, held, varies = _number(column.moments, shift, 2 * deviation, moves=block.name in shifted)
            expected[block.name] = _scaled(square, means)
            left, spread = left + square * (1 - held), spread + square**2 * varies
        elif isinstance(column, Category):
            values = len(column.values) if column.values is not None else min(_VALUES, column.cells - 1)
            apart = 2 * shift.moved**2 if isinstance(shift, ShareShift) and movable else 0.0
            movable = False
            expected[block.name] = _scaled(square, Means(1 / values, 1 / values + apart, 1 / values))
        elif isinstance(column, Embedding):
            expected[block.name] = _scaled(square, _embedding(column.width, shift))
        elif block.name == REST:
            # (E √R)² = E R - Var R/(4 E R), about
            rest = max(left - spread / (4 * left), 0.0) if left > 0 else 0.0
            expected[block.name] = Means(rest, rest, rest)
    return expected


def random_share(features: Features, means: dict[str, Means]) -> float:
    """Return the relative variance of the squared distance over seeds: 2/w of what w random frequencies see."""
    whole = sum(mean.apart for mean in means.values())
    variance = 0.0
    for block in features.blocks:
        if waves := features.waves_of(block):
            variance += 2 / waves * means[block.name].apart ** 2
    return variance / whole**2 if whole else 0.0


def _positive(value: object, name: str, most: float) -> float:
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    if not 0 < number <= most:
        raise InvalidInputError(f"{name} must be a number above 0, at most {most:g}, got {short(value)}")
    return number


def _scaled(factor: float, means: Means) -> Means:
    return Means(*(factor * mean for mean in means))


def _mixed(shift: SiteShift, within: float, between: float) -> Means:
    """Return products of averages from those of two people of one class and of two classes."""
    if not isinstance(shift, ClassShift):
        return Means(within, within, between)
    p, q = shift.share, shift.other_share

    def product(own: float, other: float) -> float:
        same = own * other + (1 - own) * (1 - other)
        return same * within + (1 - same) * between

    return Means(product(p, p), product(q, q), product(p, q))


def _joint(features: Features, shift: SiteShift, deviation: float, numbers: int, shifted: int) -> Means:
    """E k = (1 + 2σ²/h²)^(-d/2) exp(-Δ²/(2(h² + 2σ²))) of two normal populations Δ apart."""
    wide = float(features.width or 1.0) ** 2
    within = (1 + 2 * deviation**2 / wide) ** (-numbers / 2)
    if isinstance(shift, ShareShift):
        return Means(within, within, within)
    gap = shifted * (shift.deviations * deviation) ** 2
    return _mixed(shift, within, within * math.exp(-gap / (2 * (wide + 2 * deviation**2))))


def _embedding(width: float, shift: SiteShift) -> Means:
    within, between = (math.exp(-(1 - cosine) / width**2) for cosine in (_COSINE, _OTHER_COSINE))
    return _mixed(shift, within, between if isinstance(shift, ClassShift) else within)


@functools.lru_cache(maxsize=256)
def _polynomials(moments: int, centre: float, deviation: float) -> tuple[Floats, float, float]:
    """Return E T_j of a normal number in [-1, 1], and mean and variance of their squares' mean."""
    angles = np.arccos(np.clip(centre + deviation * _NODES, -1.0, 1.0))
    values = np.cos(np.arange(1, moments + 1)[:, None] * angles)
    squares = (values**2).mean(axis=0)
    held = float(squares @ _CHANCES)
    return values @ _CHANCES, held, max(float(squares**2 @ _CHANCES) - held**2, 0.0)


def _number(moments: int, shift: SiteShift, deviation: float, *, moves: bool) -> tuple[Means, float, float]:
    """Return products of averages of a number's own features, and mean and variance of their squared length."""
    first, held, varies = _polynomials(moments, 0.0, deviation)
    second = first
    if moves and not isinstance(shift, ShareShift):
        second, _, _ = _polynomials(moments, shift.deviations * deviation, deviation)
    if isinstance(shift, ClassShift):
        p, q = shift.share, shift.other_share
        first, second = (1 - p) * first + p * second, (1 - q) * first + q * second
    return (
        Means(*(float(own @ other) / moments for own, other in ((first, first), (second, second), (first, second)))),
        held,
        varies,
    )
