"""Estimates: values with standard errors and confidence intervals."""

import dataclasses
import itertools
import math
from itertools import islice
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamsketch.core import notebooks
from streamsketch.core.libraries import pa, pc
from streamsketch.core.numbers import Floats
from streamsketch.core.text import short_name
from streamsketch.errors import InvalidInputError
from streamsketch.estimation.intervals import (
    ErrorLaw,
    ErrorModel,
    Grain,
    Interval,
    Intervals,
    LeastWidth,
    Method,
    invert,
    invert_each,
    invert_selected,
    quantile,
)
from streamsketch.estimation.ranking import Ranks, largest_of, ranks_of, smallest_of

Level: TypeAlias = Literal["each", "all"]
"""Whether a confidence holds for each interval by itself, or for all of them together."""

SECRECY = "secret: from a raw sketch"
"""The text that results as secret as a raw sketch show when they are printed."""

SECRET_METADATA = {"streamsketch.secret": "true"}
"""The schema metadata of their Arrow tables."""

_SHOWN = 3  # of many estimates
_LONGEST_NAME = 40  # characters
_EQUAL = 1e-6  # standard errors


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

    def with_interval(self, confidence: float = 0.95) -> dict[str, Any]:
        """Return value, standard error and the ends of an interval, as tables and JSON show them.

        A secret estimate also has ``secret``: True.
        """
        low, high = self.interval(confidence)
        found = {"value": self.value, "standard_error": self.standard_error, "low": low, "high": high}
        return found | self._marked()

    def to_dict(self, name: str = "value") -> dict[str, Any]:
        """Return the estimate, under a name, and its errors as a dict that JSON can hold."""
        return {
            name: self.value,
            "standard_error": self.standard_error,
            "projection_variance": self.projection_variance,
            "noise_variance": self.noise_variance,
            **self._marked(),
        }

    def _marked(self) -> dict[str, Any]:
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
        low, high = invert_each(self._stated(), confidence, method, self.kurtosis)
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
            Number of estimates from which this one was selected, at least 1.
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
        low, high = invert_selected(self._stated(), candidates, confidence, self.kurtosis)
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
        return value_text(self) + _bracketed(self._notes())

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
    slope: Floats = dataclasses.field(default_factory=lambda: np.zeros(()))
    curvature: Floats = dataclasses.field(default_factory=lambda: np.zeros(()))
    grain: Grain | None = None
    error_law: ErrorLaw = "auto"
    names: tuple[Any, ...] | None = None
    """Names of the n streams of (n, n) estimates, if they were compared under their names, as in a table."""

    def __post_init__(self) -> None:
        if self.grain is not None:
            shape = np.shape(self.value)
            object.__setattr__(self, "grain", Grain(*(np.broadcast_to(part, shape) for part in self.grain)))
        for name in ("slope", "curvature"):
            if np.shape(getattr(self, name)) != np.shape(self.value):
                object.__setattr__(self, name, np.broadcast_to(getattr(self, name), np.shape(self.value)))

    @property
    def variance(self) -> Floats:
        """The sum of the projection's and the noise's variance."""
        return self.projection_variance + self.noise_variance

    @property
    def secret(self) -> bool:
        """Whether the estimates come from a raw sketch and are as secret, as only `SecretEstimates` are."""
        return False

    def as_secret(self) -> "SecretEstimates":
        """Return the estimates as `SecretEstimates`."""
        return SecretEstimates(**vars(self))

    @property
    def standard_error(self) -> Floats:
        """The square root of the variance."""
        return np.sqrt(self.variance)

    def interval(self, confidence: float = 0.95, method: Method = "normal", *, level: Level = "each") -> Intervals:
        """Return the intervals around the values.

        With ``level="all"`` they are simultaneous: with probability ``confidence`` *all* of them contain their
        quantities. So any statement that follows from them together holds at that confidence. They are
        `Estimate.selected_interval` with as many candidates as there are estimates, by Bonferroni's inequality. A pair
        of streams, which `pairwise` compares both ways, counts once; a stream compared with itself does not count. In
        simulations of all pairs of 5 to 40 streams with at least 32 cells and Gaussian noise or none, 95 % intervals
        covered all squared distances together in 93 to 98 % of cases. If Laplace noise dominates, they did in 92 to 96
        % with 256 cells or more, and in 88 to 94 % with 32 (Theory 4). They covered all cosines together in 95 % or
        more. Taking the dependence between estimates into account would make intervals at most 8 % narrower.

        Parameters
        ----------
        confidence, method
            As in `Estimate.interval`.
        level
            Whether the confidence holds for ``"each"`` interval, or for ``"all"`` together.

        Returns
        -------
        Intervals
            Two float64 arrays of the estimates' shape, in the units of ``value``; NaN where the estimate is NaN.

        Raises
        ------
        InvalidInputError
            For a confidence outside (0, 1), or an unknown method or level.

        Examples
        --------
        >>> table = Estimates(np.array([100.0, 40.0]), np.array([9.0, 9.0]), np.array([16.0, 16.0]))
        >>> table.interval(0.95, level="all").low.round(1)
        array([88.8, 28.8])
        """
        if level not in ("each", "all"):
            raise InvalidInputError(f"level must be 'each' or 'all', got {level!r:.40}")
        quantile(confidence, method)  # checks both
        if level == "each":
            return invert_each(self._stated(), confidence, method)
        if method == "normal":
            return self.selected_interval(self.distinct, confidence)
        return invert(self._stated(), quantile(1 - (1 - confidence) / self.distinct, method))

    def selected_interval(self, candidates: int, confidence: float = 0.95) -> Intervals:
        """Return intervals for estimates that were selected for their values; see `Estimate.selected_interval`."""
        return invert_selected(self._stated(), candidates, confidence)

    def smallest(self, confidence: float = 0.95) -> Interval:
        """Return an interval for the smallest of the quantities, without stating which one it is.

        It follows from simultaneous intervals (``level="all"``), and so allows for the selection. A stream compared
        with itself does not count. If an estimate is NaN, its quantity may be anything in the range.

        Parameters
        ----------
        confidence
            Probability in (0, 1) with which it contains the smallest quantity. The confidence also holds for
            `smallest`, `largest` and ``ranks(level="all")`` together.

        Raises
        ------
        InvalidInputError
            For a confidence outside (0, 1), or if there is no estimate.

        Examples
        --------
        >>> table = Estimates(np.array([100.0, 40.0, 42.0]), np.full(3, 9.0), np.full(3, 16.0))
        >>> print("from {:.1f} to {:.1f}".format(*table.smallest()))
        from 28.0 to 52.0
        """
        return smallest_of(self._counted(self.interval(confidence, level="all")), self.lowest)

    def largest(self, confidence: float = 0.95) -> Interval:
        """Return an interval for the largest of the quantities; see `smallest`."""
        return largest_of(self._counted(self.interval(confidence, level="all")), self.highest)

    def ranks(self, confidence: float = 0.95, *, level: Level = "each") -> Ranks:
        """Return the lowest and the highest possible rank of each quantity, among all or, in a table, within its row.

        Rank 1 is the smallest. A quantity may be the smallest if its ranks begin at 1; for distances, these are the
        streams that may be the nearest. For cosines the nearest is the largest, whose ranks end at the number of
        candidates. Ranks follow from simultaneous intervals (Klein, Wright and Wieczorek 2020): a quantity is above
        another if its interval is. So they hold with at least the confidence, and usually with more.

        Parameters
        ----------
        confidence
            Probability in (0, 1) with which the ranks hold.
        level
            Whether the ranks of ``"each"`` row hold together, or the ranks of ``"all"`` rows.

        Returns
        -------
        Ranks
            Two int64 arrays of the estimates' shape. Equal quantities may have either order. A stream compared with
            itself has rank 0 and does not count; a quantity whose estimate is NaN may have any rank.

        Raises
        ------
        InvalidInputError
            For a confidence outside (0, 1), an unknown level, or estimates of more than two dimensions.

        Examples
        --------
        >>> table = Estimates(np.array([100.0, 40.0, 42.0]), np.full(3, 9.0), np.full(3, 16.0))
        >>> low, high = table.ranks()
        >>> low, high
        (array([3, 1, 1]), array([3, 2, 2]))
        >>> low == 1  # these may be the smallest
        array([False,  True,  True])
        """
        if not 1 <= self.value.ndim <= 2:
            raise InvalidInputError(f"ranks need estimates of one or two dimensions, these have {self.value.ndim}")
        counted = self._apart()
        if level == "each" and self.value.ndim == 2:
            candidates = max(int(counted[:1].sum()), 1)
            ends = self.selected_interval(candidates, confidence)
        else:
            ends = self.interval(confidence, level="all" if self.value.ndim == 1 else level)
        low, high = (np.zeros(self.value.shape, dtype=np.int64) for _ in range(2))
        for row in np.ndindex(self.value.shape[:-1]):
            own = counted[row]
            low[row][own], high[row][own] = ranks_of(ends.low[row][own], ends.high[row][own])
        return Ranks(low, high)

    @property
    def distinct(self) -> int:
        """The number of quantities, at least 1; for n streams compared with each other n(n - 1)/2."""
        count = int(self._apart().sum())
        return max(count // 2 if self._among_themselves() else count, 1)

    def _among_themselves(self) -> bool:
        """Whether n streams were compared with themselves: both ways alike, and each with itself without error."""
        shape = self.value.shape
        if len(shape) != 2 or shape[0] != shape[1] or np.nan_to_num(np.diagonal(self.variance)).any():
            return False
        gaps = np.nan_to_num(np.abs(self.value - self.value.T))
        return bool((gaps <= _EQUAL * np.nan_to_num(self.standard_error)).all())

    def _apart(self) -> NDArray[np.bool_]:
        """Return which estimates are not of a stream compared with itself."""
        if self._among_themselves():
            return ~np.eye(len(self.value), dtype=bool)
        return np.ones(self.value.shape, dtype=bool)

    def _counted(self, ends: Intervals) -> Intervals:
        counted = self._apart()
        if not counted.any():
            raise InvalidInputError(
                "there are no estimates, so none is the smallest or largest; compare at least two streams"
            )
        return Intervals(*(end[counted] for end in ends))

    def parts(self) -> tuple[Floats, ...]:
        """Return value, both variances, slope and curvature, and the grain's four, if any: arrays of one shape."""
        plain = self.value, self.projection_variance, self.noise_variance, self.slope, self.curvature
        return plain if self.grain is None else (*plain, *self.grain)

    def with_parts(self, *parts: Floats) -> Self:
        """Return estimates of the same range with other `parts`, without names."""
        value, projection, noise, slope, curvature, *grain = parts
        return dataclasses.replace(
            self, value=value, projection_variance=projection, noise_variance=noise, slope=slope, curvature=curvature,
            grain=Grain(*grain) if grain else None, names=None,
        )  # fmt: skip

    def _stated(self) -> ErrorModel:
        plain = self.value, self.projection_variance, self.noise_variance, self.slope, self.curvature
        return ErrorModel(*plain, self.lowest, self.highest, self.grain, self.error_law)

    __iter__ = None  # the order of iteration would be ambiguous; index estimates instead

    def __getitem__(self, place: int | tuple[int, ...]) -> Estimate:
        if np.ndim(self.value[place]):
            raise InvalidInputError(f"select one estimate by {self.value.ndim} indices, as in estimates[i, j]")
        return (SecretEstimate if self.secret else Estimate)(
            float(self.value[place]),
            float(self.projection_variance[place]),
            float(self.noise_variance[place]),
            self.lowest,
            self.highest,
            float(self.slope[place]),
            float(self.curvature[place]),
            grain=None if self.grain is None else Grain(*(part[place] for part in self.grain)),
            error_law=self.error_law,
        )

    def to_arrow(self, keys: Any = None) -> "pa.Table":
        """Return the estimates between all pairs of n keys as an Arrow table.

        Parameters
        ----------
        keys
            The n keys, in the order in which their sketches were given to `pairwise`. By default the `names` of the
            streams, which `pairwise` knows of a table or a dict.

        Returns
        -------
        pyarrow.Table
            Columns ``first``, ``second``, ``estimate``, ``standard_error``, ``low_95`` and ``high_95``, with one row
            for each pair of different keys. Keys ascend within a row and from row to row, so the table does not reveal
            the order of the sketches, which may be that of events. The schema metadata of a secret table has
            ``streamsketch.secret`` = ``true``.

        Raises
        ------
        InvalidInputError
            If the estimates are not (n, n) for n keys, the keys have several types, or no keys are known.

        Examples
        --------
        >>> from streamsketch import L1, CountSketch, pairwise
        >>> sketches = [CountSketch(dim=100, sketch_dim=8, seed=1).sketch() for _ in range(3)]
        >>> pairwise(sketches).to_arrow(["a", "b", "c"]).column("second").to_pylist()
        ['b', 'c', 'c']
        """
        from streamsketch.data.columns import key_column  # noqa: PLC0415 - as above

        if keys is None and self.names is None:
            raise InvalidInputError(
                "the names of the streams are not known: pass them, to_arrow(keys), or compare a table or a dict"
            )
        names = key_column(list(self.names if keys is None else keys), "key")  # type: ignore[arg-type] # one is there
        if self.value.shape != (len(names), len(names)):
            raise InvalidInputError(
                f"pairs of {len(names)} keys need estimates of shape ({len(names)}, {len(names)}), these have "
                f"{self.value.shape}"
            )
        order = pc.sort_indices(names).to_numpy()
        first, second = (order[places] for places in np.triu_indices(len(names), 1))
        interval = self.interval(0.95)
        table = pa.table(
            {
                "first": names.take(pa.array(first)),
                "second": names.take(pa.array(second)),
                "estimate": self.value[first, second],
                "standard_error": self.standard_error[first, second],
                "low_95": interval.low[first, second],
                "high_95": interval.high[first, second],
            }
        )
        metadata = self._metadata()
        return table.replace_schema_metadata(metadata) if metadata else table

    def _metadata(self) -> dict[str, str]:
        """Return the schema metadata of Arrow tables."""
        return SECRET_METADATA if self.secret else {}

    def _notes(self) -> tuple[str, ...]:
        """Return what is said of the estimates wherever they are shown."""
        return (SECRECY,) if self.secret else ()

    def __repr__(self) -> str:
        shown = [value_text(self[place]) for place in islice(np.ndindex(self.value.shape), _SHOWN)]
        more = ", …" if self.value.size > len(shown) else ""
        return f"<{self}: {', '.join(shown)}{more}>"

    def __str__(self) -> str:
        shape = " by ".join(map(str, self.value.shape))
        return f"{shape} estimates{self._of_names()}" + _bracketed(self._notes())

    def _of_names(self) -> str:
        """Return the first names, as they follow the number of estimates."""
        if not self.names:
            return ""
        shown = [short_name(name, _LONGEST_NAME) for name in self.names[:_SHOWN]]
        more = len(self.names) - len(shown)
        return f" of {', '.join(shown)}" + (f" and {more:,} more" if more else "")

    def _repr_html_(self) -> str:
        pairs = self._among_themselves()
        places: list[tuple[int, ...]] = list(
            islice(
                itertools.combinations(range(len(self.value)), 2) if pairs else np.ndindex(self.value.shape),
                notebooks.MOST_ROWS,
            )
        )
        names = self.names if self.names is not None and self.value.shape == (len(self.names),) * 2 else None
        shown = [self[place] for place in places]
        ends = [one.interval(0.95) for one in shown]
        drawn = [notebooks.Drawn(low, one.value, high) for one, (low, high) in zip(shown, ends, strict=True)]
        scale = notebooks.scale_of(drawn, self.lowest, self.highest)
        rows = [
            [
                *(place if names is None else [notebooks.name_of(names[part]) for part in place]),
                *(["undefined", "", ""] if math.isnan(one.value) else estimate_cells(one, end)),
                notebooks.interval_bar(bar, scale, f"95 % interval {interval_text(one, end)}"),
            ]
            for place, one, end, bar in zip(places, shown, ends, drawn, strict=True)
        ]
        axes = ["first", "second"] if self.value.ndim == 2 else [f"index {axis}" for axis in range(self.value.ndim)]
        count = self.distinct if pairs else self.value.size
        more = [f"{count - len(rows):,} more are not shown"] if count > len(rows) else []
        return notebooks.table(
            f"{count:,} {'pairs' if pairs else 'estimates'}",
            [*axes, "estimate", "standard error", "95 % interval", ""],
            rows,
            len(axes),
            [*self._notes(), *more],
        )


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class SecretEstimates(Estimates):
    """Estimates of which some come from your own raw sketch, so that all are as secret as it; see `SecretEstimate`.

    Indexing returns a `SecretEstimate`, and tables have ``streamsketch.secret`` = ``true`` in their schema metadata.

    Parameters
    ----------
    value, projection_variance, noise_variance, lowest, highest, slope, curvature, grain, error_law
        As in `Estimates`.
    """

    @property
    def secret(self) -> bool:
        """True."""
        return True


def _bracketed(notes: tuple[str, ...]) -> str:
    return f" ({'; '.join(notes)})" if notes else ""


def format_value(value: float, standard_error: float) -> str:
    """Return a value rounded to two significant digits of its standard error; ∞ for an end that does not exist.

    Examples
    --------
    >>> format_value(20931.46, 1734.2), format_value(0.16423, 0.036)
    ('20,931', '0.164')
    """
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if not 1e-9 < standard_error < math.inf:
        return f"{value:,.6g}"
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
