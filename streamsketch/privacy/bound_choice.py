"""A bound chosen privately on a public grid: a quantile of what units add, or what makes answers most accurate.

The quantile is chosen by permute-and-flip. For accuracy, units are counted by size with noise, and all that follows is
a function of the noisy counts.
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Protocol

import numpy as np

from streamsketch.core.numbers import Exact, Ints, Numbers, exact_fraction, short
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.budget import Budget, least
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.laplace import DiscreteLaplace
from streamsketch.privacy.mechanism import Mechanism
from streamsketch.privacy.neighbours import Neighbours
from streamsketch.privacy.noise import Sensitivity
from streamsketch.privacy.samplers import BitSource, SystemBits

_MOST_CANDIDATES, _MOST_TERMS = 4096, 1 << 16
_DIGITS = 1600  # bits of a drawn height: what lies beyond has a probability below e^-1000


_DEFAULT_SHARE = Fraction(19, 20)


class Criterion(Protocol):
    """What a bound is chosen by, of counts that are public once they have noise."""

    def errors(self, bounds: Sequence[Fraction], counts: Sequence[int], deviation: float) -> Sequence[float]:
        """Return the predicted error of an answer for each bound.

        Parameters
        ----------
        bounds
            The candidates, ascending.
        counts
            Noisy counts of units by size: up to the first bound, from each bound up to the next, beyond the last. One
            more than there are bounds, and some may be negative.
        deviation
            The standard deviation of the noise in each.
        """
        ...


@dataclasses.dataclass(frozen=True)
class ChosenBound:
    """A bound, and the privacy loss of choosing it.

    Parameters
    ----------
    bound
        The chosen candidate.
    budget
        The privacy loss of the choice. It adds to that of the release: ``chosen.budget + release.guarantee.budget``.
    share
        The share of units that the bound was to cover. None if it was chosen for accuracy.
    candidates
        Number of candidates.
    counts
        If it was chosen for accuracy, noisy counts of units by size, between the candidates. Like the bound, they may
        be published: the budget covers them.
    errors
        If it was chosen for accuracy, the predicted error for each candidate.

    Examples
    --------
    >>> chosen = ChosenBound(Fraction(50), Budget(0.1), Fraction(19, 20), candidates=32)
    >>> round(chosen.rank_error(0.99))
    153
    """

    bound: Fraction
    budget: Budget
    share: Fraction | None
    candidates: int
    counts: tuple[int, ...] = ()
    errors: tuple[float, ...] = ()

    def rank_error(self, confidence: float = 0.95) -> float:
        """Return a bound on the rank error, in units: how far the choice may be from the best candidate.

        With probability ``confidence``, the number of units within the bound differs from the target by at most this
        many units more than for the best candidate: 2·max(p, 1 - p)(ln m + t)/ε with t = -ln(1 - confidence), for m
        candidates (McKenna and Sheldon 2020, Theorem 2, and Theory 3.1).

        Raises
        ------
        InvalidInputError
            If the confidence is out of range, or the bound was chosen for accuracy.
        """
        if self.share is None:
            raise InvalidInputError("the bound was chosen for accuracy, so it has no rank error; see errors")
        if not 0 < confidence < 1:
            raise InvalidInputError(f"confidence must lie in (0, 1), got {short(confidence)}")
        spread = math.log(self.candidates) - math.log1p(-confidence)
        return 2 * float(max(self.share, 1 - self.share)) * spread / self.budget.epsilon

    def guarantee(self, neighbours: Neighbours) -> Guarantee:
        """Return the guarantee of the choice, for `streamsketch.compose` with the releases that use the bound.

        Parameters
        ----------
        neighbours
            The neighbours of the releases, which add or remove one unit.
        """
        method = "permute-and-flip choice of the bound" if self.share is not None else "noisy counts of units by size"
        return Guarantee.of(self.budget, neighbours, Mechanism.stated(method))


def choose_bound(
    totals: object,
    candidates: Iterable[Exact],
    *,
    epsilon: float,
    share: Exact | None = None,
    accuracy: Criterion | None = None,
    bits: BitSource | None = None,
) -> ChosenBound:
    """Choose a bound that ``share`` of the units keep to, or the most accurate one, with ε-differential privacy.

    The guarantee has δ = 0 and is for adding or removing one unit, however much it adds.

    **By share**, the score of a candidate B is |c·#{t_u ≤ B} - a·n| for n units of totals t_u and share = a/c; one unit
    moves it by max(a, c - a) at most. The candidates are tried in random order, each with a coin of probability
    exp(-ε(score - least)/2Δ), and the first success is chosen (permute-and-flip, McKenna and Sheldon 2020, Theorem 1).
    Coins are exact, in rationals, and their number of random bits does not depend on the totals.

    **By accuracy**, units are counted by size: how many add at most the first candidate, how many add more than that
    but at most the second, and so on. One unit moves one of these counts by 1, so with discrete Laplace noise of scale
    1/ε on each count they are ε-differentially private (Dwork and Roth 2014, Theorem 3.6). The bound with the least
    predicted error is a function of these noisy counts alone.

    The share is a good criterion for totals and a bad one for shapes: noise grows with the bound, and a few large units
    determine it. On order lines of a shop, the bound that 95 % of the units keep to gave cosines an error of 0.78, and
    a bound of 5 pieces an error of 0.56. Cosines need no bound at all with ``clip="equal"`` (`SketchL2`).

    Parameters
    ----------
    totals
        How much each unit adds: numbers ≥ 0, (n_units,), from `streamsketch.bounding.unit_totals`. Secret.
    candidates
        The public bounds to choose from: positive numbers in data units, such as ``[1, 2, 5, 10, 20, 50]``. Do not look
        at the totals to list them. For accuracy, the largest should exceed what most units add.
    epsilon
        The privacy loss of the choice, in nats. It adds to that of the release.
    share
        The share of units to cover, in (0, 1); by default 0.95. A larger share clips less and needs more noise.
    accuracy
        The question that releases answer, a `streamsketch.bounding.Accuracy`, instead of ``share``.
    bits
        Source of random bits; by default the operating system's.

    Raises
    ------
    InvalidInputError
        If ε or the share is out of range, both share and accuracy are given, there are fewer than two candidates or
        repeated ones, or a total is not a number ≥ 0.

    Examples
    --------
    >>> chosen = choose_bound([3.0] * 900 + [80.0] * 100, [1, 5, 100], epsilon=1.0, share=0.9)
    >>> print(chosen.bound, chosen.budget)
    5 ε = 1, δ = 0
    """
    budget = Budget(epsilon).warn_if_weak()
    grid = _grid(candidates)
    source = SystemBits() if bits is None else bits
    if accuracy is not None:
        if share is not None:
            raise InvalidInputError(
                "a bound is chosen either for a share of units or for accuracy; leave out one of the two"
            )
        return _most_accurate(totals, grid, budget, accuracy, source)
    covered = _share(_DEFAULT_SHARE if share is None else share)
    drawn = [(_uniform(place + 1, source), height_of(source)) for place in range(len(grid))]
    exponents = exponents_of(totals, grid, least(budget.epsilon), covered)
    return ChosenBound(grid[_first_to_succeed(exponents, drawn)], budget, covered, len(grid))


def _most_accurate(
    totals: object, grid: Sequence[Fraction], budget: Budget, accuracy: Criterion, bits: BitSource
) -> ChosenBound:
    cells = len(grid) + 1
    noise = DiscreteLaplace.calibrated(Sensitivity(1, 1, cells), budget)
    drawn = noise.sample(cells, bits)
    counts = tuple((counts_by_size(totals, grid) + drawn).tolist())
    errors = tuple(map(float, accuracy.errors(grid, counts, math.sqrt(noise.cumulants.k2))))
    return ChosenBound(grid[errors.index(min(errors))], budget, None, len(grid), counts, errors)


def counts_by_size(totals: object, grid: Sequence[Fraction]) -> Ints:
    """Return how many totals are at most the first bound, beyond it and at most the second, …: int64, (n + 1,)."""
    places = np.searchsorted([float(bound) for bound in grid], _checked(totals), side="left")
    return np.bincount(places, minlength=len(grid) + 1).astype(np.int64)


def exponents_of(totals: object, grid: Sequence[Fraction], epsilon: Fraction, share: Fraction) -> list[Fraction]:
    """Return x of each candidate's coin e^-x: ε(score - least score) / 2Δ; at least one is 0."""
    values = _checked(totals)
    wanted, whole = share.numerator, share.denominator
    bounds = np.array([float(bound) for bound in grid])
    below = np.searchsorted(np.sort(values), bounds, side="right").tolist()
    scores = [abs(whole * count - wanted * values.size) for count in below]
    sensitivity = max(wanted, whole - wanted)
    return [epsilon * (score - min(scores)) / (2 * sensitivity) for score in scores]


def _checked(totals: object) -> Numbers:
    values = np.asarray(totals)
    if values.ndim != 1 or (values.size and values.dtype.kind not in "iuf"):
        raise InvalidInputError(
            f"totals must be numbers, (n_units,), got {values.dtype} of shape {values.shape}; see unit_totals"
        )
    if not (np.isfinite(values) & (values >= 0)).all():
        raise InvalidInputError("totals must be finite and at least 0: sums of absolute values")
    return values


def _grid(candidates: Iterable[Exact]) -> list[Fraction]:
    if isinstance(candidates, str):
        raise InvalidInputError(f"candidates must be several numbers, such as [5, 10, 20], got {short(candidates)}")
    grid = sorted(exact_fraction(bound, "a candidate") for bound in candidates)
    if not 2 <= len(grid) <= _MOST_CANDIDATES or grid[0] <= 0 or len(set(grid)) < len(grid):
        raise InvalidInputError(
            f"candidates must be 2 to {_MOST_CANDIDATES} different positive numbers, got {short([*map(str, grid)])}"
        )
    return grid


def _share(share: Exact) -> Fraction:
    fraction = exact_fraction(share, "share")
    if not 0 < fraction < 1 or fraction.denominator > _MOST_TERMS:
        raise InvalidInputError(
            f"share must lie in (0, 1) and be a fraction of at most {_MOST_TERMS}ths, such as 0.95, got {short(share)}"
        )
    return fraction


def _first_to_succeed(exponents: Sequence[Fraction], drawn: Sequence[tuple[int, Fraction]]) -> int:
    """Return the first place, in an order drawn beforehand, whose height reaches its exponent."""
    order: list[int] = []
    for place, (at, _) in enumerate(drawn):  # Fisher and Yates, inside out
        order.insert(at, place)
    heights = [height for _, height in drawn]
    succeed = [place for place in order if heights[place] >= exponents[place]]
    return succeed[0]


def _uniform(limit: int, bits: BitSource) -> int:
    """Return an integer below ``limit``: uniform up to e^-1000, by one read."""
    return int.from_bytes(bits.read(_DIGITS // 8), "little") * limit >> _DIGITS


def height_of(bits: BitSource) -> Fraction:
    """Return an exponential variable of mean 1, so that P(height ≥ x) = e^-x; floored to 2^-1600.

    Von Neumann 1951: in runs of falling uniforms u1 > u2 > …, the first run of odd length has the fraction u1, and the
    number of even ones before it is the whole part. How many are read does not depend on data.
    """
    whole = 0
    while True:
        first = last = int.from_bytes(bits.read(_DIGITS // 8), "little")
        length = 1
        while (drawn := int.from_bytes(bits.read(_DIGITS // 8), "little")) < last:
            last, length = drawn, length + 1
        if length % 2:
            return whole + Fraction(first, 1 << _DIGITS)
        whole += 1
