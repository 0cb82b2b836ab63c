"""A bound chosen privately: a quantile of what units add, by permute-and-flip on a public grid."""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from streamsketch.core import Exact, exact_fraction, short
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.budget import Budget
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.mechanism import Mechanism
from streamsketch.privacy.neighbours import Neighbours
from streamsketch.privacy.samplers import BitSource, SystemBits

_MOST_CANDIDATES, _MOST_TERMS = 4096, 1 << 16
_DIGITS = 1600  # bits of a drawn height: what lies beyond has a probability below e^-1000


@dataclasses.dataclass(frozen=True)
class ChosenBound:
    """A bound, and what choosing it cost.

    Parameters
    ----------
    bound
        One of the candidates.
    budget
        What the choice spent, which adds to the release's: ``chosen.budget + release.guarantee.budget``.
    share
        The share of units that the bound was to cover.
    candidates
        How many there were.

    Examples
    --------
    >>> chosen = ChosenBound(Fraction(50), Budget(0.1), Fraction(19, 20), candidates=32)
    >>> round(chosen.rank_error(0.99))
    153
    """

    bound: Fraction
    budget: Budget
    share: Fraction
    candidates: int

    def rank_error(self, confidence: float = 0.95) -> float:
        """Return by how many units the covered ones may differ from the best candidate's, at this confidence.

        2·max(p, 1 - p)(ln m + t)/ε with t = -ln(1 - confidence), for m candidates (McKenna and Sheldon 2020,
        Theorem 2, and THEORY.md 3.1).
        """
        if not 0 < confidence < 1:
            raise InvalidInputError(f"confidence must lie in (0, 1), got {short(confidence)}")
        spread = math.log(self.candidates) - math.log1p(-confidence)
        return 2 * float(max(self.share, 1 - self.share)) * spread / self.budget.epsilon

    def guarantee(self, neighbours: Neighbours) -> Guarantee:
        """Return what the choice guarantees, for `streamsketch.compose` with the releases that use the bound.

        Parameters
        ----------
        neighbours
            Those of the releases: adding or removing one unit.
        """
        return Guarantee.of(self.budget, neighbours, Mechanism.stated("permute-and-flip choice of the bound"))


def choose_bound(
    totals: Any,
    candidates: Iterable[Exact],
    *,
    epsilon: float,
    share: Exact = 0.95,
    bits: BitSource | None = None,
) -> ChosenBound:
    """Return a bound that about ``share`` of the units keep to: ε-differentially private, with δ = 0.

    The guarantee is for adding or removing one unit, whatever it adds. The score of a candidate B is
    |c·#{t_u ≤ B} - a·n| for n units of totals t_u and share = a/c; one unit moves it by max(a, c - a) at most. Of the
    candidates in random order, the first is taken whose coin of probability exp(-ε(score - least)/2Δ) succeeds
    (permute-and-flip, McKenna and Sheldon 2020, Theorem 1): exactly, in rationals, and with as many random bits
    whatever the totals are.

    Parameters
    ----------
    totals
        How much each unit adds: numbers ≥ 0, (n_units,), as `streamsketch.bounding.unit_totals` returns them. Secret.
    candidates
        The public grid to choose from: positive numbers in data units, such as ``[1, 2, 5, 10, 20, 50]``. They must not
        be chosen by a look at the totals.
    epsilon
        What the choice may spend, in nats. It adds to what the release spends.
    share
        The share of units to cover, in (0, 1). A larger one clips less and takes more noise.
    bits
        Random bytes; by default the operating system's.

    Raises
    ------
    InvalidInputError
        For ε or a share out of range, fewer than two candidates, repeated ones, or totals that are not numbers ≥ 0.

    Examples
    --------
    >>> chosen = choose_bound([3.0] * 900 + [80.0] * 100, [1, 5, 100], epsilon=1.0, share=0.9)
    >>> print(chosen.bound, chosen.budget)
    5 ε = 1, δ = 0
    """
    budget = Budget(epsilon).warn_if_weak()
    grid = _grid(candidates)
    covered = _share(share)
    source = SystemBits() if bits is None else bits
    drawn = [(_uniform(place + 1, source), _height(source)) for place in range(len(grid))]
    exponents = exponents_of(totals, grid, Fraction(budget.epsilon), covered)
    return ChosenBound(grid[_first_to_succeed(exponents, drawn)], budget, covered, len(grid))


def exponents_of(totals: Any, grid: Sequence[Fraction], epsilon: Fraction, share: Fraction) -> list[Fraction]:
    """Return x of each candidate's coin e^-x: ε(score - least score) / 2Δ; at least one is 0."""
    values = np.asarray(totals)
    if values.ndim != 1 or (values.size and values.dtype.kind not in "iuf"):
        raise InvalidInputError(
            f"totals must be numbers, (n_units,), got {values.dtype} of shape {values.shape}; see unit_totals"
        )
    if not (np.isfinite(values) & (values >= 0)).all():
        raise InvalidInputError("totals must be finite and at least 0: sums of absolute values")
    wanted, whole = share.numerator, share.denominator
    bounds = np.array([float(bound) for bound in grid])
    below = np.searchsorted(np.sort(values), bounds, side="right").tolist()
    scores = [abs(whole * count - wanted * values.size) for count in below]
    sensitivity = max(wanted, whole - wanted)
    return [epsilon * (score - min(scores)) / (2 * sensitivity) for score in scores]


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
    found = exact_fraction(share, "share")
    if not 0 < found < 1 or found.denominator > _MOST_TERMS:
        raise InvalidInputError(
            f"share must lie in (0, 1) and be a fraction of at most {_MOST_TERMS}ths, such as 0.95, got {short(share)}"
        )
    return found


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


def _height(bits: BitSource) -> Fraction:
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
