"""Counts of units, and totals, that are published beside the cells of a sketch, in the same draw of noise."""

import dataclasses
import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from streamsketch.core import sentences
from streamsketch.core.numbers import Ints, check_int, short
from streamsketch.errors import InvalidInputError
from streamsketch.privacy import calibration
from streamsketch.privacy.budget import Budget
from streamsketch.privacy.laplace import DiscreteLaplace
from streamsketch.privacy.neighbours import Moved, Neighbours
from streamsketch.privacy.noise import NOISES, Sensitivity

_MOST = (1 << 31) - 1
_SHARES = {False: Fraction(3, 100), True: Fraction(1)}  # of D1 that a count may add: 3 % by default, or twice the noise


@dataclasses.dataclass(frozen=True)
class Counting:
    """How the number of units and their total are published beside the cells of each key.

    A release then holds one or two more numbers for each key, with noise of the same draw and under the same guarantee.
    The first is ``units`` · n, where n is the number of units that contribute to the key after clipping. The second is
    ``slack`` times the sum of B̃ - ‖x̃_u‖₁ over these units u, where B̃ is the bound on a unit and x̃_u its clipped
    contribution, both in grid steps. Together they give the total Σ_u ‖x̃_u‖₁.

    One unit moves the first number by ``units``. It moves the second by no more than it could still have moved the
    cells: for w = ‖x̃_u‖₁ ≤ B̃, the cells move by at most Δ1·w in ℓ1 and Δ2·w in ℓ2, and Δ1·w + slack·(B̃ - w) ≤ Δ1·B̃,
    as well as Δ2²w² + slack²(B̃ - w)² ≤ Δ2²B̃², which is convex in w, if ``slack`` ≤ Δ2 ≤ Δ1 (Fitzsimons, Honaker,
    Shoemate and Singhal, arXiv 2408.10438; Theory 2.3). So slack costs no noise, and the count of units widens D1 by
    ``units`` and D2² by its square for each key that a unit may be in.

    Parameters
    ----------
    units
        Weight of the count of units, in grid steps of a cell.
    slack
        Weight of the slack, in grid steps of a cell for each grid step of a value. 0 for no slack, as `SketchL2`
        requires, because it does not bound ‖x̃_u‖₁.

    Raises
    ------
    InvalidInputError
        If a weight is not an integer from 1 (for ``slack``, from 0) to 2^31 - 1.

    Examples
    --------
    >>> print(Counting(1024, slack=2))
    a count of units (weight 1024) and slack (weight 2)
    """

    units: int
    slack: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "units", check_int(self.units, "the weight of the count of units", 1, _MOST))
        object.__setattr__(self, "slack", check_int(self.slack, "the weight of slack", 0, _MOST))

    @classmethod
    def of(
        cls,
        projection: Moved,
        neighbours: Neighbours,
        *,
        delta: float,
        epsilon: float | None = None,
        tolerance: float | None = None,
        mechanism: str = "auto",
    ) -> "Counting":
        """Return weights for a release, by default the largest that widen the noise by at most 3 %.

        Under `L1` there is slack, with the largest weight that costs no noise.

        Parameters
        ----------
        projection
            The public map.
        neighbours
            `L1`, or `SketchL2` with ``max_keys``.
        delta
            The δ of the releases, which decides between Laplace and Gaussian noise.
        epsilon, tolerance
            The standard error that the count of units should have, in units, in a release with this ε, instead of the
            share of 3 %. All releases of one agreement have one weight, so give the smallest ε.
        mechanism
            As in `Sketch.release`.

        Raises
        ------
        InvalidInputError
            For other neighbours or an unknown mechanism; if even a weight of one grid step exceeds the share, because a
            unit moves the cells by few steps or is in many keys; if the tolerance is not a positive number, would more
            than double the noise, or is given without ε.

        Examples
        --------
        >>> from streamsketch import L1, SJLT
        >>> projection = SJLT(sketch_dim=1024, sparsity=8, seed=7)
        >>> Counting.of(projection, L1(100, unit="customer"), delta=0)
        Counting(units=24, slack=2)
        >>> Counting.of(projection, L1(100, unit="customer"), delta=0, epsilon=1, tolerance=20)
        Counting(units=61, slack=2)
        """
        check_counted(neighbours)
        calibration.check_choice(Budget(1, delta), mechanism)
        alone, keys = _cells_alone(projection, neighbours), neighbours.max_keys
        slack = math.isqrt(projection.l2_sensitivity_squared) if neighbours.free_slack else 0
        most = _most_units(alone, keys, doubled=tolerance is not None, laplace=_is_laplace(alone, delta, mechanism))
        if _is_laplace(cls(most).beside(alone, neighbours), delta, mechanism) != _is_laplace(alone, delta, mechanism):
            most = min(
                _most_units(alone, keys, doubled=tolerance is not None, laplace=laplace) for laplace in (False, True)
            )
        if tolerance is None:
            return cls(most, slack)
        if epsilon is None:
            raise InvalidInputError("the standard error of a count depends on ε: pass epsilon with tolerance")
        budget = Budget(epsilon, delta)
        if isinstance(tolerance, bool) or not isinstance(tolerance, int | float | Fraction) or not tolerance > 0:
            raise InvalidInputError(
                f"the tolerance of a count must be a positive number, in units, got {short(tolerance)}"
            )

        def error(weight: int) -> float:
            noise = calibration.choose(cls(weight).beside(alone, neighbours), budget, mechanism)
            return math.sqrt(noise.cumulants.k2) / weight

        if error(most) > tolerance:
            raise InvalidInputError(
                f"a count of {neighbours.unit}s to ± {tolerance:g} at {budget} would more than double the noise of "
                f"the cells, with which it is ± {error(most):.3g}. Allow a larger tolerance, a larger ε, or fewer "
                "keys per unit (max_keys)"
            )
        least = 0
        while most - least > 1:
            middle = (least + most) // 2
            least, most = (least, middle) if error(middle) <= tolerance else (middle, most)
        return cls(most, slack)

    @property
    def numbers(self) -> int:
        """How many numbers are published for each key, 1 or, with slack, 2."""
        return 2 if self.slack else 1

    def beside(self, cells: Sensitivity, neighbours: Neighbours) -> Sensitivity:
        """Return how far one unit moves the cells and counts of all keys together.

        Parameters
        ----------
        cells
            How far one unit moves the cells of all keys.
        neighbours
            Of the release.

        Raises
        ------
        InvalidInputError
            As in `check_counted`; for slack under `SketchL2`.
        """
        self.check_for(neighbours)
        keys = neighbours.max_keys
        return dataclasses.replace(
            cells,
            l1=cells.l1 + keys * self.units,
            l2_squared=cells.l2_squared + keys * self.units**2,
            moved=cells.moved + keys * self.numbers,
        )

    def check_for(self, neighbours: Neighbours) -> None:
        """Raise `InvalidInputError` for neighbours that are not counted so: as `check_counted`; for slack, but `L1`."""
        check_counted(neighbours)
        if self.slack and not neighbours.free_slack:
            raise InvalidInputError(
                f"slack is free where the absolute values of a unit sum to at most the bound (L1), got {neighbours!r}: "
                f"leave it out, Counting({self.units})"
            )

    def check_free(self, projection: Moved) -> None:
        """Raise `InvalidInputError` if the slack could move further than the cells of a unit leave room for."""
        if self.slack and self.slack**2 > projection.l2_sensitivity_squared:
            raise InvalidInputError(
                f"slack must weigh at most Δ2 of the map, {math.isqrt(projection.l2_sensitivity_squared)} here, to be "
                f"free; got {self.slack}"
            )

    def most_steps(self, neighbours: Neighbours, grid: Fraction) -> int:
        """Return how far one unit can move one of the numbers, in grid steps."""
        return max(self.units, self.slack * neighbours.grid_steps(grid) if self.slack else 0)

    def weighted(self, counts: Ints, steps: int) -> Ints:
        """Return the exact numbers before noise, int64 of shape (n, `numbers`), modulo 2^64 as cells are.

        Parameters
        ----------
        counts
            Number of units and total of each key, as in `SketchTable.counts`: int64, (n, 2).
        steps
            B̃, the bound of the release in grid steps; not used without slack.
        """
        units, totals = counts[:, :1], counts[:, 1:]
        numbers = self.units * units
        if not self.slack:
            return numbers
        slack: Ints = self.slack * (steps * units - totals)
        return np.concatenate([numbers, slack], axis=1)

    def to_dict(self) -> dict[str, int]:
        """Return the weights as a dict that JSON can hold."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, fields: object) -> "Counting":
        """Return what `to_dict` returned; `InvalidInputError` for anything else."""
        names = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(fields, Mapping) or fields.keys() != names:
            raise InvalidInputError(f"counting is an object of {', '.join(sorted(names))}, got {short(fields)}")
        return cls(**fields)

    def __str__(self) -> str:
        slack = sentences.SLACK.format(weight=self.slack) if self.slack else ""
        return f"{sentences.UNIT_COUNT.format(weight=self.units)}{slack}"


def check_counted(neighbours: Neighbours) -> None:
    """Raise `InvalidInputError` for neighbours under which no count of units is proven here."""
    if not neighbours.counted:
        raise InvalidInputError(
            f"units are counted under L1(bound) or SketchL2(bound), got {neighbours!r}: release without a count, or "
            f"bound what a unit adds in one of these ways"
        )
    if neighbours.any_keys:
        raise InvalidInputError(
            "a unit may be in any number of keys, and is counted in each of them: pass the largest number, "
            f"{type(neighbours).__name__}({neighbours.bound}, …, max_keys=…), or release without a count"
        )


def _cells_alone(projection: Moved, neighbours: Neighbours) -> Sensitivity:
    """Return how far one unit moves the cells of all keys; of data, as if each key had one cell."""
    alone = neighbours.sensitivity(projection)
    if neighbours.of_sketches:
        return dataclasses.replace(alone, moved=alone.cells)
    return dataclasses.replace(alone, cells=1, moved=neighbours.max_keys)


def _most_units(cells: Sensitivity, keys: int, *, doubled: bool, laplace: bool) -> int:
    """Return the weight that adds 3 % to the noise, or doubles it."""
    grown = 1 + _SHARES[doubled]
    if laplace:
        weight = math.floor((grown - 1) * cells.l1 / keys)
    else:
        weight = math.isqrt(math.floor((grown**2 - 1) * cells.l2_squared / keys))
    if weight < 1:
        raise InvalidInputError(
            "the weight of a count of units is at least one grid step, which would widen the noise by more than "
            f"{float(grown - 1):.0%} where one unit moves the cells of {keys} {'key' if keys == 1 else 'keys'} by "
            f"{math.isqrt(cells.l2_squared)} steps in all: use a finer resolution, or fewer keys per unit (max_keys)"
        )
    return min(weight, _MOST)


def _is_laplace(cells: Sensitivity, delta: float, mechanism: str) -> bool:
    """Return whether the cells would get Laplace noise."""
    if mechanism in NOISES:
        return mechanism == DiscreteLaplace.name
    return DiscreteLaplace.suits(cells, Budget(1, delta))
