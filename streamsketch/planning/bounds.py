"""Noise against bias: what a bound on units costs, and what it clips."""

import dataclasses
import math
from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from streamsketch.accounting.sensitivity import sensitivity_of
from streamsketch.core.documents import Json
from streamsketch.core.notebooks import ShownAsText
from streamsketch.core.numbers import Exact, exact_fraction, short
from streamsketch.core.text import aligned, filled
from streamsketch.errors import InvalidInputError
from streamsketch.estimation.estimate import format_value
from streamsketch.privacy.budget import Budget
from streamsketch.privacy.calibration import candidates
from streamsketch.privacy.l1 import L1
from streamsketch.privacy.noise import squared_distance_variance
from streamsketch.projections.base import Projection


@dataclasses.dataclass(frozen=True)
class BoundOption:
    """A bound, what it clips, and the noise that it needs.

    Parameters
    ----------
    bound
        The bound, in data units.
    units_over
        The share of units that exceed it.
    lost
        The share of Σ|value| that is clipped.
    mechanism
        The mechanism whose noise has the least variance.
    cell_noise
        The standard deviation of one cell's noise, in data units.
    bias
        What a squared distance loses if all vectors shrink to (1 - lost) of their length, in squared data units.
    noise
        The noise's part of the standard error of the squared distance after clipping.
    """

    bound: Fraction
    units_over: float
    lost: float
    mechanism: str
    cell_noise: float
    bias: float
    noise: float

    @property
    def error(self) -> float:
        """The root of the sum of the squares of ``bias`` and ``noise``."""
        return math.hypot(self.bias, self.noise)


@dataclasses.dataclass(frozen=True)
class BoundPlan(ShownAsText):
    """Bounds to choose between. **As secret as the totals** from which it was computed.

    Parameters
    ----------
    options
        The options, by ascending bound.
    squared_distance
        The squared distance that should be visible, in squared data units.
    units
        Number of units.
    unit
        What one unit is called.
    """

    options: tuple[BoundOption, ...]
    squared_distance: float
    units: int
    unit: str

    @property
    def least(self) -> BoundOption:
        """The option with the least `BoundOption.error`; if several have it, the one with the smallest bound."""
        return min(self.options, key=lambda option: option.error)

    def to_dict(self) -> Json:
        """Return the plan as a dict that JSON can hold."""
        options = [
            dataclasses.asdict(option) | {"bound": str(option.bound), "error": option.error} for option in self.options
        ]
        fields = {"unit": self.unit, "units": self.units, "squared_distance": self.squared_distance}
        return {"secret": True, **fields, "options": options}

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [
            ("bound", f"{self.unit}s over it", "clipped", "noise of a cell", "bias", "noise", "error")
        ]
        for option in self.options:
            shares = (part / self.squared_distance for part in (option.bias, option.noise, option.error))
            rows.append(
                (
                    f"{'>' if option is self.least else ' '} {option.bound}",
                    _percent(option.units_over),
                    _percent(option.lost),
                    format_value(option.cell_noise, option.cell_noise),
                    *map(_percent, shares),
                )
            )
        wanted = f"Bias, noise and error are of a squared distance of {self.squared_distance:,.6g}."
        warning = filled(
            f"Secret: computed from the totals of {self.units:,} {self.unit}s. To publish a bound, let choose_bound "
            f"choose it."
        )
        return f"{aligned(rows, left=1)}\n\n{wanted}\n{warning}"


def _percent(share: float) -> str:
    return f"{100 * share:,.0f} %" if share >= 1 else f"{100 * share:.3g} %"


def plan_bounds(
    totals: object,
    bounds: Iterable[Exact],
    projection: Projection,
    *,
    squared_distance: float,
    epsilon: float,
    delta: float = 0.0,
    unit: str = "unit",
    max_keys: int = 1,
) -> BoundPlan:
    """Return what each of several bounds would clip, and the noise that its release needs.

    A small bound needs little noise and clips much; a large bound does the reverse. The error of a given squared
    distance is smallest in between. The bias assumes that all vectors shrink to (1 - lost) of their length, as they do
    if heavy and light units are spread evenly over the keys. A distance that heavy units cause loses more.

    Parameters
    ----------
    totals
        How much each unit adds, (n_units,), from `streamsketch.bounding.unit_totals` or from other, public data.
    bounds
        The bounds to compare, in data units.
    projection
        The public map.
    squared_distance
        The squared distance between two keys that should be visible, without clipping, in squared data units.
    epsilon, delta
        As in `Sketch.release`.
    unit, max_keys
        As in `L1`.

    Raises
    ------
    InvalidInputError
        If there are no bounds or no totals, a total is negative, the distance is not positive, or a bound is below one
        grid step; and as in `streamsketch.accounting.mechanisms`.

    Examples
    --------
    >>> from streamsketch import SJLT
    >>> projection = SJLT(dim=1 << 40, sketch_dim=1024, sparsity=4, seed=7)
    >>> plan = plan_bounds([1] * 90 + [100] * 10, [1, 10, 100], projection, epsilon=1.0, squared_distance=1e6)
    >>> [round(option.lost, 2) for option in plan.options], plan.least.bound
    ([0.91, 0.83, 0.0], Fraction(10, 1))
    """
    values = np.asarray(totals, dtype=np.float64)
    if isinstance(bounds, str):
        raise InvalidInputError(f"bounds must be several numbers, such as [5, 10, 20], got {short(bounds)}")
    grid = sorted({exact_fraction(bound, "a bound") for bound in bounds})
    if values.ndim != 1 or not values.size or not (np.isfinite(values) & (values >= 0)).all() or not values.any():
        raise InvalidInputError("totals must be numbers of at least 0, (n_units,), not all of them 0; see unit_totals")
    if not grid:
        raise InvalidInputError("bounds is empty; pass at least one bound")
    if not (isinstance(squared_distance, int | float) and 0 < squared_distance < math.inf):
        raise InvalidInputError(f"squared_distance must be a number > 0, got {short(squared_distance)}")
    options = []
    for bound in grid:
        noises = candidates(sensitivity_of(projection, L1(bound, unit, max_keys)), Budget(epsilon, delta))
        best = min(noises, key=lambda candidate: candidate.variance)
        lost = max(0.0, 1 - float(np.minimum(values, float(bound)).sum() / values.sum()))
        left, unit_squared = squared_distance * (1 - lost) ** 2, projection.cell_unit**2
        variance = squared_distance_variance(best.noise.cumulants, projection.sketch_dim, left / unit_squared)
        options.append(
            BoundOption(
                bound,
                units_over=float((values > float(bound)).mean()),
                lost=lost,
                mechanism=best.mechanism,
                cell_noise=projection.cell_unit * math.sqrt(best.noise.cumulants.k2),
                bias=squared_distance - left,
                noise=math.sqrt(variance) * unit_squared,
            )
        )
    return BoundPlan(tuple(options), float(squared_distance), values.size, unit)
