"""Estimates: values with standard errors and confidence intervals."""

import dataclasses
import math
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from streamsketch.errors import InvalidInputError

if TYPE_CHECKING:
    import pyarrow as pa

Floats: TypeAlias = NDArray[np.float64]
Method: TypeAlias = Literal["normal", "chebyshev"]


_SHOWN = 3  # of many estimates


class Interval(NamedTuple):
    """A confidence interval, ends included."""

    low: float
    high: float


class Intervals(NamedTuple):
    """The confidence intervals of `Estimates`, as two float64 arrays of their shape."""

    low: Floats
    high: Floats


@dataclasses.dataclass(frozen=True, repr=False)
class Estimate:
    """An estimate with its standard error and intervals.

    Estimates from sketches and their intervals are valid under these conditions:

    - The exact sum of every cell, noise included, fits into 63 bits. Cells count modulo 2^64, so a larger sum wraps to
      another number. This does not affect privacy (THEORY.md 4.2) and is not detected.
    - The noise is what the releases state. A release that contradicts itself raises `NoiseMismatchWarning`.
    - Errors are nearly normal. With one cell for each item (`CountSketch`, `OPORP`, an `SJLT` of sparsity 1) they are
      not if the difference consists of few items: two of them rarely collide in a cell, but then the error is large.
      In simulations 95 % intervals then covered in 81 % of cases without noise (1024 cells, 21 items), and in 89 % with
      noise of a quarter of the map's variance. Use a larger sparsity, or Chebyshev intervals.
    - The estimate was not selected for its value; otherwise use `selected_interval`.

    Parameters
    ----------
    value
        The estimate, in data units. That of a squared quantity may be negative where noise dominates.
    projection_variance
        The part of its variance that comes from the random projection.
    noise_variance
        The part that comes from privacy noise.
    lowest, highest
        The quantity's possible range, to which intervals are clipped.

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

    @property
    def variance(self) -> float:
        """The sum of the projection's and the noise's variance."""
        return self.projection_variance + self.noise_variance

    @property
    def standard_error(self) -> float:
        """Square root of the variance."""
        return math.sqrt(self.variance)

    def with_interval(self, confidence: float = 0.95) -> dict[str, float]:
        """Return value, standard error and the ends of an interval, as rows and JSON show them."""
        low, high = self.interval(confidence)
        return {"value": self.value, "standard_error": self.standard_error, "low": low, "high": high}

    def to_dict(self, name: str = "value") -> dict[str, float]:
        """Return the estimate, under a name, and its errors as what JSON can hold."""
        return {
            name: self.value,
            "standard_error": self.standard_error,
            "projection_variance": self.projection_variance,
            "noise_variance": self.noise_variance,
        }

    def scaled(self, factor: float) -> "Estimate":
        """Return the estimate of ``factor`` times the quantity, for ``factor`` > 0, as for another unit of measure."""
        return Estimate(
            self.value * factor,
            self.projection_variance * factor**2,
            self.noise_variance * factor**2,
            self.lowest * factor,
            self.highest * factor,
        )

    def interval(self, confidence: float = 0.95, method: Method = "normal") -> Interval:
        """Return an interval around the value, clipped to the quantity's possible range.

        If noise puts the value outside the range by more than the half-width, the interval is the nearest possible
        point.

        Parameters
        ----------
        confidence
            Probability in (0, 1) with which the interval is to contain the true quantity.
        method
            ``"normal"``: the half-width is the normal quantile times the standard error. With few cells the coverage is
            lower, since an estimate that is too small also has too small a standard error: for the squared norm of many
            coordinates, 95 % intervals cover in 92.0 % of cases with 32 cells, 94.2 % with 128 and 94.9 % with 1024.
            ``"chebyshev"``: 1/√(1 - confidence) times the standard error, which would be valid for any distribution if
            the variance were known: for such a norm, 95 % intervals cover in 71.2 % of cases with one cell, 91.6 % with
            4, 96.3 % with 8 and 99.5 % with 32.

        Returns
        -------
        Interval
            Its ends ``low`` and ``high``, in the units of ``value``.

        Raises
        ------
        InvalidInputError
            For a confidence outside (0, 1) or another method.
        """
        half_width = _quantile(confidence, method) * self.standard_error
        ends = self.value - half_width, self.value + half_width
        low, high = (min(max(end, self.lowest), self.highest) for end in ends)
        return Interval(low, high)

    def selected_interval(self, candidates: int, confidence: float = 0.95) -> Interval:
        """Return an interval for an estimate selected for its value, such as the distance to the nearest neighbour.

        The least of many distances is biased downwards, and so is its standard error, so `interval` covers a selected
        quantity far less often than its confidence. This interval is simultaneous for all candidates and so covers
        whichever is selected. It uses Bonferroni's quantile z at 1 - (1 - confidence) / ``candidates``, and extends up
        to the largest distance D for which the value lies within z standard errors *of D*; the map's part of these
        grows with D². Each of n streams has n - 1 candidates; the confidence is for the intervals of one stream. Errors
        must be normal at that quantile; see THEORY.md 4. A cosine, or an estimate made of one, has the map's error of
        the farthest cosine within z standard errors instead.

        Parameters
        ----------
        candidates
            Number of estimates from which this one was selected, at least 1.
        confidence
            Probability in (0, 1) with which the intervals of all candidates are to contain the true quantities.

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
        >>> estimate = Estimate(100.0, 9.0, 16.0, lowest=0.0)
        >>> low, high = estimate.selected_interval(39)
        >>> round(low, 1), round(high, 1), round(estimate.interval().high, 1)
        (83.9, 117.1, 109.8)
        """
        low, high = _selected(self, candidates, confidence)
        return Interval(float(low), float(high))

    def __repr__(self) -> str:
        low, high = (rounded(end, self.standard_error) for end in self.interval(0.95))
        return f"<Estimate {self}, 95 % interval {low} … {high}>"

    def __str__(self) -> str:
        return f"{rounded(self.value, self.standard_error)} ± {rounded(self.standard_error, self.standard_error)}"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Estimates:
    """Many estimates as float64 arrays of equal shape, with the fields of `Estimate`.

    Examples
    --------
    >>> table = Estimates(np.array([100.0, 9.0]), np.array([9.0, 0.0]), np.array([16.0, 1.0]), lowest=0.0)
    >>> table.standard_error
    array([5., 1.])
    >>> print(table[1])
    9.0 ± 1.0
    """

    value: Floats
    projection_variance: Floats
    noise_variance: Floats
    lowest: float = -math.inf
    highest: float = math.inf

    @property
    def variance(self) -> Floats:
        """The sum of the projection's and the noise's variance."""
        return self.projection_variance + self.noise_variance

    @property
    def standard_error(self) -> Floats:
        """Square root of the variance."""
        return np.sqrt(self.variance)

    def interval(self, confidence: float = 0.95, method: Method = "normal") -> Intervals:
        """Return the intervals around the values; parameters and errors as in `Estimate.interval`."""
        half_width = _quantile(confidence, method) * self.standard_error
        return Intervals(
            np.clip(self.value - half_width, self.lowest, self.highest),
            np.clip(self.value + half_width, self.lowest, self.highest),
        )

    def selected_interval(self, candidates: int, confidence: float = 0.95) -> Intervals:
        """Return intervals for estimates selected for their values; see `Estimate.selected_interval`."""
        return _selected(self, candidates, confidence)

    __iter__ = None  # the order of iteration would be ambiguous; index estimates instead

    def __getitem__(self, place: int | tuple[int, ...]) -> Estimate:
        if np.ndim(self.value[place]):
            raise InvalidInputError(f"select one estimate by {self.value.ndim} indices, as in estimates[i, j]")
        return Estimate(
            float(self.value[place]),
            float(self.projection_variance[place]),
            float(self.noise_variance[place]),
            self.lowest,
            self.highest,
        )

    def to_arrow(self, keys: Any) -> "pa.Table":
        """Return the estimates between all pairs of n keys as an Arrow table.

        Parameters
        ----------
        keys
            The n keys, in the order in which their sketches were given to `pairwise`.

        Returns
        -------
        pyarrow.Table
            Columns ``first``, ``second``, ``estimate``, ``standard_error``, ``low_95`` and ``high_95``, with a row for
            each pair of different keys. Keys ascend within a row and from row to row, so the table does not reveal the
            order of the sketches, which may be that of events.

        Raises
        ------
        InvalidInputError
            If these are not (n, n) estimates for n keys, or the keys have several types.

        Examples
        --------
        >>> from streamsketch import L1, CountSketch, pairwise
        >>> sketches = [CountSketch(dim=100, sketch_dim=8, seed=1).sketch() for _ in range(3)]
        >>> pairwise(sketches).to_arrow(["a", "b", "c"]).column("second").to_pylist()
        ['b', 'c', 'c']
        """
        import pyarrow as pa  # noqa: PLC0415 - estimates alone need no Arrow
        import pyarrow.compute as pc  # noqa: PLC0415 - as above

        from streamsketch.data import key_column  # noqa: PLC0415 - as above

        names = key_column(list(keys), "key")
        if self.value.shape != (len(names), len(names)):
            raise InvalidInputError(
                f"pairs of {len(names)} keys need estimates of shape ({len(names)}, {len(names)}), these have "
                f"{self.value.shape}"
            )
        order = pc.sort_indices(names).to_numpy()
        first, second = (order[places] for places in np.triu_indices(len(names), 1))
        interval = self.interval(0.95)
        return pa.table(
            {
                "first": names.take(pa.array(first)),
                "second": names.take(pa.array(second)),
                "estimate": self.value[first, second],
                "standard_error": self.standard_error[first, second],
                "low_95": interval.low[first, second],
                "high_95": interval.high[first, second],
            }
        )

    def __repr__(self) -> str:
        shown = [str(self[place]) for place in islice(np.ndindex(self.value.shape), _SHOWN)]
        more = ", …" if self.value.size > len(shown) else ""
        return f"<{self}: {', '.join(shown)}{more}>"

    def __str__(self) -> str:
        return f"{' by '.join(map(str, self.value.shape))} estimates"


def rounded(value: float, standard_error: float) -> str:
    """Return a value rounded to two significant digits of its standard error.

    Examples
    --------
    >>> rounded(20931.46, 1734.2), rounded(0.16423, 0.036)
    ('20,931', '0.164')
    """
    if not 1e-9 < standard_error < math.inf:
        return f"{value:,.6g}"
    return f"{value:,.{max(0, 1 - math.floor(math.log10(standard_error)))}f}"


def _selected(estimates: Estimate | Estimates, candidates: int, confidence: float) -> Intervals:
    if type(candidates) is not int or candidates < 1:
        raise InvalidInputError(f"candidates must be an integer of at least 1, got {candidates!r:.40}")
    if not 0 < confidence < 1:
        raise InvalidInputError(f"confidence must lie in (0, 1), got {confidence}; 0.95 is usual")
    z = -float(ndtri((1 - confidence) / (2 * candidates)))
    value, of_map, of_noise = (
        np.asarray(part, dtype=np.float64)
        for part in (estimates.value, estimates.projection_variance, estimates.noise_variance)
    )
    if math.isfinite(estimates.lowest) and math.isfinite(estimates.highest):
        middle, half = (estimates.highest + estimates.lowest) / 2, (estimates.highest - estimates.lowest) / 2
        cosine = np.minimum(np.abs(value - middle) / half, 1.0)
        width = half * np.sqrt(_map_width(cosine, np.sqrt(of_map) / half, z) ** 2 + z**2 * of_noise / half**2)
        return Intervals(*(np.clip(end, estimates.lowest, estimates.highest) for end in (value - width, value + width)))
    low = value - z * np.sqrt(of_map + of_noise)
    with np.errstate(divide="ignore", invalid="ignore"):
        # solve D - value = z √(p D² + noise), p the map's relative variance
        rest = 1 - z**2 * np.where(value > 0, of_map / value**2, 0.0)
        high = np.where(rest > 0, (value + z * np.sqrt(of_map + of_noise * np.maximum(rest, 0.0))) / rest, math.inf)
    return Intervals(
        np.clip(low, estimates.lowest, estimates.highest), np.clip(high, estimates.lowest, estimates.highest)
    )


def _map_width(cosine: Floats, error: Floats, z: float) -> Floats:
    """Return the half-width at z of a cosine's interval from its stated standard error, the map's part.

    The error was stated at the farthest cosine within 1.96 standard errors; here it is that within z of them.
    """
    usual = float(ndtri(0.975))
    end = cosine - usual * error
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.where(error > 0, z * error / (1 - end**2), 0.0)  # z √a, with error = √a (1 - end²)
        farthest = 2 * (cosine - slope) / (1 + np.sqrt(np.maximum(1 - 4 * slope * (cosine - slope), 0.0)))
    width: Floats = np.where(end > -1, np.maximum(cosine - farthest, z * error), 2.0)
    return width


def _quantile(confidence: float, method: str) -> float:
    """Return the half-width of an interval in standard errors."""
    if not 0 < confidence < 1:
        raise InvalidInputError(f"confidence must lie in (0, 1), got {confidence}; 0.95 is usual")
    if method == "normal":
        return float(ndtri((1 + confidence) / 2))
    if method == "chebyshev":
        return 1 / math.sqrt(1 - confidence)
    raise InvalidInputError(f"method must be 'normal' or 'chebyshev', got {method!r}")
