"""Estimates: values with their standard errors and intervals."""

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
    """A confidence interval."""

    low: float
    high: float


class Intervals(NamedTuple):
    """The confidence intervals of `Estimates`, as two float64 arrays of their shape."""

    low: Floats
    high: Floats


@dataclasses.dataclass(frozen=True, repr=False)
class Estimate:
    """An estimated quantity and how far off it may be.

    Estimates from sketches, and their intervals, hold under these conditions:

    - No cell's exact sum, noise included, has left the 63 bits of an integer. Cells count modulo 2^64, so a larger sum
      comes out as another number; that is no matter of privacy (THEORY.md 4.2), and nothing refuses it.
    - The noise is what the releases state. What is contradicted by the release itself raises `NoiseMismatchWarning`.
    - Errors are nearly normal. With one cell an item (`CountSketch`, `OPORP`, an `SJLT` of sparsity 1) they are not
      where few items make all of a difference: a collision of two of them in a cell is rare and costs much. Of 95 %
      intervals 81 % were then seen to cover without noise (1024 cells, 21 items), and 89 % with a quarter of the map's
      variance from noise. Use a larger sparsity, or Chebyshev intervals.
    - The estimate was not selected for its value, else see `selected_interval`.

    Parameters
    ----------
    value
        The estimate, in data units. A squared quantity may come out negative when noise dominates.
    projection_variance
        The part of its variance that comes from the random projection.
    noise_variance
        The part that comes from privacy noise.
    lowest, highest
        The quantity's possible range, to which intervals are cut.

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
        """Projection's and noise's variance together."""
        return self.projection_variance + self.noise_variance

    @property
    def standard_error(self) -> float:
        """Square root of the variance."""
        return math.sqrt(self.variance)

    def to_dict(self, name: str = "value") -> dict[str, float]:
        """Return the estimate, under a name, and its errors as what JSON can hold."""
        return {
            name: self.value,
            "standard_error": self.standard_error,
            "projection_variance": self.projection_variance,
            "noise_variance": self.noise_variance,
        }

    def scaled(self, factor: float) -> "Estimate":
        """Return the estimate of ``factor`` times the quantity, for ``factor`` > 0: the same in another unit."""
        return Estimate(
            self.value * factor,
            self.projection_variance * factor**2,
            self.noise_variance * factor**2,
            self.lowest * factor,
            self.highest * factor,
        )

    def interval(self, confidence: float = 0.95, method: Method = "normal") -> Interval:
        """Return an interval around the value, cut to the quantity's possible range.

        Where noise made the value impossible by more than its reach, that leaves the nearest possible point.

        Parameters
        ----------
        confidence
            Probability in (0, 1) with which the interval shall hold the true quantity.
        method
            ``"normal"``: the normal quantile times the standard error. With few cells it covers less, as an estimate
            that is too small states an error that is too small: for a squared norm of many coordinates 95 % are 92.0 %
            from 32 cells, 94.2 % from 128 and 94.9 % from 1024. ``"chebyshev"``: 1/√(1 - confidence) times it, which
            would hold for any distribution if the variance were known and not estimated: of such a norm 95 % are 71.2 %
            from one cell, 91.6 % from 4, 96.3 % from 8 and 99.5 % from 32.

        Raises
        ------
        InvalidInputError
            For a confidence outside (0, 1) or another method.
        """
        reach = _width(confidence, method) * self.standard_error
        low, high = (min(max(end, self.lowest), self.highest) for end in (self.value - reach, self.value + reach))
        return Interval(low, high)

    def selected_interval(self, candidates: int, confidence: float = 0.95) -> Interval:
        """Return an interval for a squared distance that was selected for its value, as that to a nearest neighbour.

        The least of many estimates is too small, and so is its standard error: `interval` covers far less of selected
        estimates than it says. This one is simultaneous for all candidates, so it covers whichever are selected: with
        Bonferroni's quantile z at 1 - (1 - confidence) / ``candidates``, and up to the largest distance D that has the
        value within z standard errors *of D*, whose map's part grows as D². Each of n streams has n - 1 candidates; the
        confidence is for the intervals of one stream. It rests on normal errors at that quantile, see THEORY.md 4.

        Parameters
        ----------
        candidates
            From how many estimates it was selected, at least 1.
        confidence
            Probability in (0, 1) with which the intervals of all candidates shall hold the true quantities.

        Returns
        -------
        Interval
            The upper end is `highest` where the cells are too few for any.

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
    """Many estimates at once, as float64 arrays of equal shape; fields mean what they do in `Estimate`.

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
        """Projection's and noise's variance together."""
        return self.projection_variance + self.noise_variance

    @property
    def standard_error(self) -> Floats:
        """Square root of the variance."""
        return np.sqrt(self.variance)

    def interval(self, confidence: float = 0.95, method: Method = "normal") -> Intervals:
        """Return the intervals around the values; parameters and errors as `Estimate.interval`."""
        reach = _width(confidence, method) * self.standard_error
        return Intervals(
            np.clip(self.value - reach, self.lowest, self.highest),
            np.clip(self.value + reach, self.lowest, self.highest),
        )

    def selected_interval(self, candidates: int, confidence: float = 0.95) -> Intervals:
        """Return intervals for estimates that were selected for their value; see `Estimate.selected_interval`."""
        return _selected(self, candidates, confidence)

    __iter__ = None  # arrays of arrays have no one order; name an estimate by its indices

    def __getitem__(self, place: int | tuple[int, ...]) -> Estimate:
        if np.ndim(self.value[place]):
            raise InvalidInputError(f"name one estimate by {self.value.ndim} indices, as in estimates[i, j]")
        return Estimate(
            float(self.value[place]),
            float(self.projection_variance[place]),
            float(self.noise_variance[place]),
            self.lowest,
            self.highest,
        )

    def to_arrow(self, keys: Any) -> "pa.Table":
        """Return the estimates between all pairs of n keys as an Arrow table, which every data frame can be made of.

        Parameters
        ----------
        keys
            The n keys, in the order in which their sketches were given to `pairwise`.

        Returns
        -------
        pyarrow.Table
            Columns ``first``, ``second``, ``estimate``, ``standard_error``, ``low_95`` and ``high_95``, a row for each
            pair of different keys. In a row and from row to row keys ascend, so that the order of the sketches, which
            may be that of events, shows nothing.

        Raises
        ------
        InvalidInputError
            If these are not (n, n) estimates for n keys, or the keys are of several types.

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
    """Return a value with the digits that its standard error leaves meaning to: two of the error's own.

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
        raise InvalidInputError(f"an estimate is selected from at least 1 candidate, got {candidates!r:.40}")
    if not 0 < confidence < 1:
        raise InvalidInputError(f"confidence must lie in (0, 1), got {confidence}; 0.95 is usual")
    z = -float(ndtri((1 - confidence) / (2 * candidates)))
    value, of_map, of_noise = (
        np.asarray(part, dtype=np.float64)
        for part in (estimates.value, estimates.projection_variance, estimates.noise_variance)
    )
    low = value - z * np.sqrt(of_map + of_noise)
    with np.errstate(divide="ignore", invalid="ignore"):
        # D - value = z √(p D² + noise), p the map's relative variance
        rest = 1 - z**2 * np.where(value > 0, of_map / value**2, 0.0)
        high = np.where(rest > 0, (value + z * np.sqrt(of_map + of_noise * np.maximum(rest, 0.0))) / rest, math.inf)
    return Intervals(
        np.clip(low, estimates.lowest, estimates.highest), np.clip(high, estimates.lowest, estimates.highest)
    )


def _width(confidence: float, method: str) -> float:
    """Return how many standard errors an interval reaches to each side."""
    if not 0 < confidence < 1:
        raise InvalidInputError(f"confidence must lie in (0, 1), got {confidence}; 0.95 is usual")
    if method == "normal":
        return float(ndtri((1 + confidence) / 2))
    if method == "chebyshev":
        return 1 / math.sqrt(1 - confidence)
    raise InvalidInputError(f"method must be 'normal' or 'chebyshev', got {method!r}")
