"""Many estimates at once, as arrays: intervals that hold together, ranks, tables."""

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
from streamsketch.estimation.estimate import (
    SECRECY,
    SECRET_METADATA,
    Estimate,
    SecretEstimate,
    bracketed,
    estimate_cells,
    interval_text,
    value_text,
)
from streamsketch.estimation.intervals import (
    ErrorLaw,
    ErrorModel,
    Grain,
    Interval,
    Intervals,
    Method,
    invert,
    invert_each,
    invert_selected,
    miss_of,
    quantile,
)
from streamsketch.estimation.ranking import Ranks, largest_of, ranks_of, smallest_of

Level: TypeAlias = Literal["each", "all"]
"""Whether a confidence holds for each interval by itself, or for all of them together."""

JointBy: TypeAlias = Literal["cosine", "profile", "distance", "product"]
"""What joint estimates are of."""

JOINT_BY: tuple[JointBy, ...] = ("cosine", "profile", "distance", "product")

_SHOWN = 3  # of many estimates
_LONGEST_NAME = 40  # characters
_EQUAL = 1e-6  # standard errors


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
        if level == "each":
            return invert_each(self._stated(), miss_of(confidence), method)
        if method == "normal":
            return self.selected_interval(self.distinct, confidence)
        return invert(self._stated(), quantile(miss_of(confidence, self.distinct), method))

    def selected_interval(self, candidates: int, confidence: float = 0.95) -> Intervals:
        """Return intervals for estimates that were selected for their values; see `Estimate.selected_interval`."""
        return invert_selected(self._stated(), candidates, miss_of(confidence, candidates))

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
        return f"{shape} estimates{self._of_names()}" + bracketed(self._notes())

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
        ends = [estimate.interval(0.95) for estimate in shown]
        drawn = [notebooks.Drawn(low, estimate.value, high) for estimate, (low, high) in zip(shown, ends, strict=True)]
        scale = notebooks.scale_of(drawn, self.lowest, self.highest)
        rows = [
            [
                *(place if names is None else [notebooks.name_of(names[part]) for part in place]),
                *(["undefined", "", ""] if math.isnan(estimate.value) else estimate_cells(estimate, end)),
                notebooks.interval_bar(bar, scale, f"95 % interval {interval_text(estimate, end)}"),
            ]
            for place, estimate, end, bar in zip(places, shown, ends, drawn, strict=True)
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
