"""An estimate: a value with its standard error and confidence intervals, and how it is written."""

import dataclasses
import math
from typing import Self

import numpy as np

from streamsketch.core import notebooks
from streamsketch.core.documents import Json
from streamsketch.estimation.intervals import (
    ErrorLaw,
    ErrorModel,
    Grain,
    Interval,
    LeastWidth,
    Method,
    invert_each,
    invert_selected,
    miss_of,
)

SECRECY = "secret: from a raw sketch"
"""The text that results as secret as a raw sketch show when they are printed."""

SECRET_METADATA = {"streamsketch.secret": "true"}
"""The schema metadata of their Arrow tables."""

_SIX_WHOLE, _MOST_WHOLE = 1e5, 1e15  # from six whole digits on, as far as floats tell them


@dataclasses.dataclass(frozen=True, repr=False)
class Estimate:
    """An estimate with its standard error and intervals.

    Estimates from sketches and their intervals are valid under these conditions:

    - The exact sum of every cell, noise included, fits into 63 bits. Cells are sums modulo 2^64, so a larger sum wraps
      around to another number. This does not affect privacy (Theory 4.2) and is not detected.
    - The noise is what the releases state. A release that contradicts itself raises `NoiseMismatchWarning`.
    - Errors are nearly normal. They are not if each item has one cell (`CountSketch`, `OPORP`, an `SJLT` of sparsity 1)
      and the difference consists of few items: two items rarely collide in a cell, but then the error is large. In
      simulations of this case, 95 % intervals covered in 81 % of cases without noise (1024 cells, 21 items), and in 89
      % with noise of a quarter of the map's variance. Use a larger sparsity, or Chebyshev intervals.
    - The estimate was not selected for its value; otherwise use `selected_interval`.
    - For units that were clipped in sketch space (`SketchL2`), the estimated quantity is that of sums in which each
      unit is clipped by its exact length, not by the length of its sketch. The difference is a bias of at most a share
      of 1/(2 · cells), or of half a standard error of the map if all units have exactly the length of the bound and
      ``clip="scale"``. Distances and cosines keep their coverage. Intervals of norms and products are too wide if units
      are alike and cells are few. Intervals of distances covered less (95 % intervals in 87 % of cases) only between
      nearly equal sums of nearly equal units without noise (Theory 4.4).

    Parameters
    ----------
    value
        The estimate, in data units. An estimate of a squared quantity may be negative if noise dominates.
    projection_variance
        The part of the estimate's variance that comes from the random projection.
    noise_variance
        The part that comes from privacy noise.
    lowest, highest
        The quantity's possible range, to which intervals are clipped.
    slope, curvature
        How the variance changes with the quantity: if the true value were t, the variance would be ``variance`` +
        ``slope`` · (t - q) + ``curvature`` · (t - q)², where q is the value clipped to the range. 0 if the variance is
        taken not to change.
    kurtosis
        Excess kurtosis of the error, for which intervals allow: 0 for a nearly normal error, 3 for a single Laplace
        noise, as in a count of units.
    grain
        How coarse the noise is, for which intervals allow; None if the error is nearly continuous.
    error_law
        How the map's error changes with the quantity, for `selected_interval`: ``"cosine"`` as that of a cosine, for
        estimates made of one; ``"normal"`` by slope and curvature alone; ``"auto"`` as a cosine's for the range [-1,
        1], and normal for others.

    Examples
    --------
    >>> estimate = Estimate(100.0, 9.0, 16.0, lowest=0.0)
    >>> estimate.standard_error
    5.0
    >>> print(estimate)
    100.0 ± 5.0
    """

    value: float
    projection_variance: float
    noise_variance: float
    lowest: float = -math.inf
    highest: float = math.inf
    slope: float = 0.0
    curvature: float = 0.0
    kurtosis: float = 0.0
    grain: Grain | LeastWidth | None = None
    error_law: ErrorLaw = "auto"

    @property
    def variance(self) -> float:
        """The sum of the projection's and the noise's variance."""
        return self.projection_variance + self.noise_variance

    @property
    def secret(self) -> bool:
        """Whether the estimate comes from a raw sketch and is as secret, as only a `SecretEstimate` is."""
        return False

    def as_secret(self) -> "SecretEstimate":
        """Return the estimate as a `SecretEstimate`."""
        return SecretEstimate(**vars(self))

    @property
    def standard_error(self) -> float:
        """The square root of the variance."""
        return math.sqrt(self.variance)

    @property
    def errors(self) -> tuple[float, float, float]:
        """The standard error, and the parts of the projection and of the noise in it."""
        return self.standard_error, self.projection_variance**0.5, self.noise_variance**0.5

    def with_interval(self, confidence: float = 0.95) -> Json:
        """Return value, standard error and the ends of an interval, as tables and JSON show them.

        A secret estimate also has ``secret``: True.
        """
        low, high = self.interval(confidence)
        fields = {"value": self.value, "standard_error": self.standard_error, "low": low, "high": high}
        return fields | self._marked()

    def to_dict(self, name: str = "value") -> Json:
        """Return the estimate, under a name, and its errors as a dict that JSON can hold."""
        return {
            name: self.value,
            "standard_error": self.standard_error,
            "projection_variance": self.projection_variance,
            "noise_variance": self.noise_variance,
            **self._marked(),
        }

    def _marked(self) -> Json:
        """Return what JSON says of the estimate."""
        return {"secret": True} if self.secret else {}

    def scaled(self, factor: float) -> Self:
        """Return the estimate of ``factor`` times the quantity, for ``factor`` > 0, as for another unit of measure."""
        return dataclasses.replace(
            self,
            value=self.value * factor,
            projection_variance=self.projection_variance * factor**2,
            noise_variance=self.noise_variance * factor**2,
            lowest=self.lowest * factor,
            highest=self.highest * factor,
            slope=self.slope * factor,
            grain=None if self.grain is None else self.grain.scaled(factor),
        )

    def interval(self, confidence: float = 0.95, method: Method = "normal") -> Interval:
        """Return a confidence interval of the quantity, within its possible range.

        It contains every t from which the value differs by at most a number of standard errors, *namely those that the
        estimate would have if t were true*: the standard error of a squared norm, a distance or a product grows with
        the quantity. So the upper end is farther from the value than the lower end. With few cells there may be no
        upper end: for a squared norm it is infinite with fewer than 8 cells at 95 %, or fewer than 14 at 99 %. A value
        outside the range counts as the nearest end of the range, so an interval always has a width.

        Where noise is only a step or two wide, as in a histogram under a large ε, the errors have few values. Intervals
        of frequencies by the mean, of units and of totals then are the least whole numbers of steps that hold with the
        confidence or more. Those of norms, distances, products and cosines of histograms hold for any entries: also if
        one entry makes up the whole, so that its noise is all of the error (Theory 4, "Coarse noise").

        Parameters
        ----------
        confidence
            Probability in (0, 1) with which the interval contains the true quantity.
        method
            ``"normal"`` takes a normal quantile of standard errors, 1.96 at 95 %. For the squared norm of many
            coordinates, 95 % intervals cover in 95.5 % of cases with 8 cells, 95.3 % with 32 and 95.0 % with 1024. They
            are 1.3 times as wide as ± 1.96 standard errors with 32 cells, and 1.01 times with 1024. ``"chebyshev"``
            takes 1/√(1 - confidence) standard errors, which is valid for any distribution of the errors. For a squared
            norm, there is an upper end at 95 % only with more than 40 cells.

        Returns
        -------
        Interval
            The ends ``low`` and ``high``, in the units of ``value``. An end that does not exist is infinite.

        Raises
        ------
        InvalidInputError
            For a confidence outside (0, 1) or an unknown method.
        """
        low, high = invert_each(self._stated(), miss_of(confidence), method, self.kurtosis)
        return Interval(float(low), float(high))

    def selected_interval(self, candidates: int, confidence: float = 0.95) -> Interval:
        """Return an interval for an estimate that was selected for its value, such as the nearest neighbour's distance.

        The smallest of many distances is biased downwards, so `interval` covers a selected quantity far less often than
        its confidence. This interval is simultaneous for all candidates, and so covers the one that is selected. It is
        `interval` at Bonferroni's quantile, 1 - (1 - confidence) / ``candidates``, of a normal distribution or, for
        squared norms and distances, of χ² with a degree of freedom for each cell, because their errors are not normal
        in the tails. Each of n streams has n - 1 candidates; the confidence is for the intervals of one stream. See
        Theory 4. For a cosine, or an estimate made of one, the map's error is that of the farthest cosine within that
        many standard errors.

        Parameters
        ----------
        candidates
            Number of estimates from which this one was selected, from 1 to 2^64.
        confidence
            Probability in (0, 1) with which the intervals of all candidates contain the true quantities.

        Returns
        -------
        Interval
            The upper end is `highest` if there are too few cells for a finite one.

        Raises
        ------
        InvalidInputError
            For a confidence outside (0, 1) or fewer than 1 candidate.

        Examples
        --------
        >>> estimate = Estimate(100.0, 9.0, 16.0, lowest=0.0, slope=0.18, curvature=0.0009)
        >>> low, high = estimate.selected_interval(39)
        >>> round(low, 1), round(high, 1), round(estimate.interval().high, 1)
        (84.3, 116.6, 110.2)
        """
        miss = miss_of(confidence, candidates)
        low, high = invert_selected(self._stated(), candidates, miss, self.kurtosis)
        return Interval(float(low), float(high))

    def _stated(self) -> ErrorModel:
        return ErrorModel(
            np.asarray(self.value),
            np.asarray(self.projection_variance),
            np.asarray(self.noise_variance),
            np.asarray(self.slope),
            np.asarray(self.curvature),
            self.lowest,
            self.highest,
            self.grain,
            self.error_law,
        )

    def __repr__(self) -> str:
        low, high = (format_value(end, self.standard_error) for end in self.interval(0.95))
        notes = "".join(f", {note}" for note in self._notes())
        return f"<{'Secret' * self.secret}Estimate {value_text(self)}, 95 % interval {low} … {high}{notes}>"

    def __str__(self) -> str:
        return value_text(self) + bracketed(self._notes())

    def _repr_html_(self) -> str:
        low, high = self.interval(0.95)
        drawn = notebooks.Drawn(low, self.value, high)
        scale = notebooks.scale_of([drawn], self.lowest, self.highest)
        return notebooks.table(
            "Estimate",
            ["estimate", "standard error", "95 % interval", ""],
            [[*estimate_cells(self), notebooks.interval_bar(drawn, scale, f"95 % interval {interval_text(self)}")]],
            0,
            self._notes(),
        )

    def _notes(self) -> tuple[str, ...]:
        """Return what is said of the estimate wherever it is shown."""
        return (SECRECY,) if self.secret else ()


@dataclasses.dataclass(frozen=True, repr=False)
class SecretEstimate(Estimate):
    """An estimate from your own raw sketch, as secret as that sketch even if the other side is a release.

    Estimators return it if one of their arguments is a `Sketch`. It is marked as secret when it is printed and in JSON.
    `scaled` keeps the type. Do not publish anything that depends on it; release the sketch instead.

    Parameters
    ----------
    value, projection_variance, noise_variance, lowest, highest, slope, curvature, kurtosis, grain, error_law
        As in `Estimate`.

    Examples
    --------
    >>> print(Estimate(100.0, 9.0, 16.0).as_secret())
    100.0 ± 5.0 (secret: from a raw sketch)
    """

    @property
    def secret(self) -> bool:
        """True."""
        return True


def bracketed(notes: tuple[str, ...]) -> str:
    """Return notes in brackets, as they follow a text; nothing if there are none."""
    return f" ({'; '.join(notes)})" if notes else ""


def format_value(value: float, standard_error: float) -> str:
    """Return a value rounded to two significant digits of its standard error; ∞ for an end that does not exist.

    Without an error it has six significant digits, and all whole ones: ± 0 says that it is exact.

    Examples
    --------
    >>> format_value(20931.46, 1734.2), format_value(0.16423, 0.036), format_value(1234567.0, 0.0)
    ('20,931', '0.164', '1,234,567')
    """
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if not 1e-9 < standard_error < math.inf:
        return f"{value:,.0f}" if _SIX_WHOLE <= abs(value) < _MOST_WHOLE else f"{value:,.6g}"
    return f"{value:,.{max(0, 1 - math.floor(math.log10(standard_error)))}f}"


def value_text(estimate: Estimate) -> str:
    """Return value ± standard error, with the digits that mean something, and nothing of secrecy."""
    error = estimate.standard_error
    return f"{format_value(estimate.value, error)} ± {format_value(error, error)}"


def interval_text(estimate: Estimate, ends: Interval | None = None) -> str:
    """Return an interval, by default the 95 % interval, with its significant digits."""
    low, high = (format_value(end, estimate.standard_error) for end in ends or estimate.interval(0.95))
    return f"{low} … {high}"


def estimate_cells(estimate: Estimate, ends: Interval | None = None) -> tuple[str, str, str]:
    """Return an estimate, its standard error and its interval as the cells of a table."""
    error = estimate.standard_error
    return format_value(estimate.value, error), format_value(error, error), interval_text(estimate, ends)
