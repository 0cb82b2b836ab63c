"""What a schedule is: which sums of windows are published, one a window, so that any range of time has little noise."""

import dataclasses
import functools
import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

import numpy as np

from streamsketch.core import sentences
from streamsketch.core.documents import Json
from streamsketch.core.numbers import Floats, Ints, check_int
from streamsketch.errors import InvalidInputError
from streamsketch.kernels.schedules import solve_weights
from streamsketch.products import Registry

MOST_WINDOWS = 100_000
_MOST_BLOCKS = 1 << 24  # in all rows: some seconds, and 1 GB while they are listed


class Norms(NamedTuple):
    """How far one unit moves all rows of a schedule together, over how far it moves one window.

    Parameters
    ----------
    l1
        Factor of the ℓ1 sensitivity of a window.
    l2_squared
        Factor of the squared ℓ2 sensitivity of a window, for a unit that moves each of its windows by that much.
    together
        The same for a unit whose windows together, as one vector, are moved by that much.
    """

    l1: int
    l2_squared: int
    together: int


class RowBlocks(NamedTuple):
    """All rows, as blocks of consecutive windows with one coefficient each.

    Parameters
    ----------
    offsets
        int64, (horizon + 1,): the blocks of row t are those from ``offsets[t]`` to ``offsets[t + 1]``, oldest first,
        each up to the next one's start, the last window t alone.
    starts, coefficients
        int64: the first window of a block, and its factor, ≥ 0. What lies before the first block of a row was left.
    """

    offsets: Ints
    starts: Ints
    coefficients: Ints

    def of_row(self, window: int) -> tuple[Ints, Ints]:
        """Return starts and coefficients of the row of a window."""
        own = slice(int(self.offsets[window]), int(self.offsets[window + 1]))
        return self.starts[own], self.coefficients[own]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schedule(ABC):
    """A schedule of sums of windows: it publishes row t = Σ_{j≤t} C[t, j] · window j, for a public integer matrix C.

    One row is published as each window ends, with noise of its own, and readers solve for any range of windows. C is
    lower triangular, with one positive integer on its diagonal and none below 0 (Theory 11).

    Parameters
    ----------
    horizon
        The number T of windows, 1 to 100,000. The noise is for all of them, so T must be known before the first.
    max_windows
        The number of windows that a unit may be in; None for as many as ``gap`` allows.
    gap
        The smallest distance between a unit's windows: 7 for a unit that is in at most one of 7 consecutive windows.

    Raises
    ------
    InvalidInputError
        For numbers out of range.
    """

    horizon: int
    max_windows: int | None = 1
    gap: int = 1

    kind: ClassVar[str]
    """What the exchange format calls it."""

    def __post_init__(self) -> None:
        check_int(self.horizon, "the horizon of a schedule", 1, MOST_WINDOWS)
        check_int(self.gap, "the gap between a unit's windows", 1, MOST_WINDOWS)
        most = -(-self.horizon // self.gap)
        if self.max_windows is None:
            object.__setattr__(self, "max_windows", most)
        windows = check_int(self.max_windows, "max_windows", 1, MOST_WINDOWS)
        if windows > most:
            raise InvalidInputError(
                f"of {self.horizon} windows a unit is in at most {most} that are {self.gap} apart, and max_windows is "
                f"{windows}"
            )

    @property
    def most(self) -> int:
        """In how many windows a unit may be."""
        return self.max_windows or 1  # an int since it was made

    @property
    def limits_windows(self) -> bool:
        """Whether a unit may be in some of the windows only, so that those it is in may have to be left out."""
        return self.most < self.horizon

    @property
    def reach(self) -> int:
        """How many times what moves in a window may move in the rows: once a row and window of the unit, at most."""
        return self.most * self.horizon

    # --- the matrix -----------------------------------------------------------------------------------------

    def coarser(self) -> "Schedule | None":
        """Return the schedule with the next coarser weights, whose noise is narrower in grid steps; None for none."""
        return None

    @property
    @abstractmethod
    def scale(self) -> int:
        """The diagonal of C."""

    @abstractmethod
    def rows(self) -> Iterator[tuple[Ints, Ints]]:
        """Yield starts and coefficients of each row's blocks; each starts where one of the row before did, or at t."""

    @abstractmethod
    def largest_norms(self) -> Norms:
        """Return `norms`, which keeps them."""

    @property
    @abstractmethod
    def most_blocks(self) -> int:
        """A bound on the number of blocks of all rows together, which is the cost of enumerating them."""

    @property
    def row_blocks(self) -> RowBlocks:
        """All rows, as blocks of windows."""
        return _blocks_of(self)

    @property
    def norms(self) -> Norms:
        """How far one unit moves all rows together, exactly for a unit in one window, otherwise at most."""
        return _norms_of(self)

    def matrix(self) -> Ints:
        """Return C, int64 of shape (T, T), to look at small schedules.

        Examples
        --------
        >>> from streamsketch.schedules.tree import Tree
        >>> Tree(horizon=4, depth=2).matrix()
        array([[1, 0, 0, 0],
               [0, 1, 0, 0],
               [1, 1, 1, 0],
               [0, 0, 0, 1]])
        """
        matrix = np.zeros((self.horizon, self.horizon), dtype=np.int64)
        for window in range(self.horizon):
            starts, factors = self.row_blocks.of_row(window)
            matrix[window, starts[0] : window + 1] = np.repeat(factors, np.diff(starts, append=window + 1))
        return matrix

    # --- errors ---------------------------------------------------------------------------------------------

    def weights(self, start: int, stop: int) -> Floats:
        """Return the factors of the first ``stop`` rows in the sum of windows ``start`` to ``stop``: float64, (stop,).

        Raises
        ------
        InvalidInputError
            Unless 0 ≤ start < stop ≤ horizon.
        """
        self.check_range(start, stop)
        weights = np.empty(stop)
        solve_weights(start, stop, self.row_blocks.offsets, self.row_blocks.starts, _falls_of(self), weights)
        return weights

    def check_range(self, start: int, stop: int, windows: int | None = None) -> None:
        """Raise `InvalidInputError` for a range that is empty, or not of the first ``windows``, by default all."""
        most = self.horizon if windows is None else windows
        check_int(start, "the start of a range", 0, MOST_WINDOWS)
        check_int(stop, "the stop of a range", 0, MOST_WINDOWS)
        if not start < stop <= most:
            raise InvalidInputError(f"a range is of windows from 0 to {most}, start < stop, got {start} and {stop}")

    def error(self, start: int, stop: int, *, laplace: bool = False) -> float:
        """Return the standard deviation of a range's noise, relative to that of one window released alone.

        The window released alone has the same ε and δ, for a unit in that window.

        Parameters
        ----------
        start, stop
            The range of windows, counted from 0; without ``stop``.
        laplace
            Whether the noise is Laplace, whose scale follows from ℓ1, or Gaussian, from ℓ2.

        Raises
        ------
        InvalidInputError
            As in `weights`.

        Examples
        --------
        >>> from streamsketch.schedules.factorisation import Factorisation
        >>> from streamsketch.schedules.separate import Separate
        >>> from streamsketch.schedules.tree import Tree
        >>> [round(kind(horizon=365).error(0, 365), 1) for kind in (Separate, Tree, Factorisation)]
        [19.1, 5.5, 3.0]
        """
        size = float(np.linalg.norm(self.weights(start, stop)))
        return size * (self.norms.l1 if laplace else math.sqrt(self.norms.l2_squared))

    def worst_error(self, length: int | None = None, *, laplace: bool = False) -> float:
        """Return the largest `error` of a range of that many windows; by default of ranges from the first window on.

        It is exact for up to 512 windows. For longer schedules it covers some 200 ranges, evenly spaced and at powers
        of 2.
        """
        if length is None:
            ranges = [(0, stop) for stop in _some(self.horizon)]
        else:
            check_int(length, "the length of a range", 1, self.horizon)
            ranges = [(stop - 1, stop - 1 + length) for stop in _some(self.horizon - length + 1)]
        return max(self.error(start, stop, laplace=laplace) for start, stop in ranges)

    # --- as text --------------------------------------------------------------------------------------------

    def unit_text(self, unit: str, window: str = "") -> str:
        """Return what is protected, in words.

        Examples
        --------
        >>> from streamsketch.schedules.tree import Tree
        >>> Tree(horizon=365).unit_text("customer", "1 day"), Tree(horizon=52, max_windows=4, gap=7).unit_text("sale")
        ('customer in one of 365 windows of 1 day', 'sale in at most 4 of 52 windows, 7 apart')
        """
        many = "one" if self.most == 1 else f"at most {self.most}"
        of = f" of {window}" if window else ""
        apart = sentences.ROWS_APART.format(gap=self.gap) if self.gap > 1 and self.most > 1 else ""
        return f"{unit} in {many} of {self.horizon} windows{of}{apart}"

    @property
    def in_words(self) -> str:
        """The schedule in a mechanism's text.

        Examples
        --------
        >>> from streamsketch.schedules.tree import Tree
        >>> Tree(horizon=52, max_windows=4, gap=7).in_words
        '52 windows (tree of depth 3), a unit in at most 4 of them, 7 apart'
        """
        apart = sentences.ROWS_APART.format(gap=self.gap) if self.gap > 1 and self.most > 1 else ""
        many = "one" if self.most == 1 else f"at most {self.most}"
        return sentences.ROWS.format(horizon=self.horizon, schedule=self.words, windows=many, apart=apart)

    def is_unit(self, text: str) -> bool:
        """Return whether a text is a `unit_text` of this schedule, with any name of the unit and of the windows.

        If a unit may be in all windows, any text is.

        Examples
        --------
        >>> from streamsketch.schedules.tree import Tree
        >>> [Tree(horizon=52).is_unit(f"sale in {many} of 52 windows of 1 week") for many in ("one", "at most 9")]
        [True, False]
        """
        if not self.limits_windows:
            return True
        head, windows, apart = self.unit_text("").partition(" windows")
        _, separator, length = text.partition(head + windows)
        length = length.removesuffix(apart) if length.endswith(apart) else ", of another gap"
        return bool(separator) and (not length or (length.startswith(" of ") and not length.endswith(" apart")))

    def unit_over_windows(self, unit: str) -> str:
        """Return the text of the unit in a guarantee, which states in how many windows it may be, if not all.

        Raises
        ------
        InvalidInputError
            If ``unit`` already states a number of windows, and the schedule has another one.
        """
        if self.is_unit(unit):
            return unit
        if f" of {self.horizon} windows" in unit:
            raise InvalidInputError(
                f"the unit is {unit!r}, and the noise of the schedule is for a unit{self.unit_text('')}: name the unit "
                f"alone, or pass a schedule with this max_windows and gap"
            )
        return self.unit_text(unit)

    def to_dict(self) -> Json:
        """Return the schedule as a dict that JSON can hold."""
        return {"kind": self.kind, **dataclasses.asdict(self)}

    def to_json(self) -> str:
        """Return the schedule as canonical JSON."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))

    @property
    def fingerprint(self) -> str:
        """16 bytes of the hash of `to_json`, in hexadecimal."""
        return hashlib.blake2b(self.to_json().encode(), digest_size=16, person=b"streamsketch.sch").hexdigest()

    def __str__(self) -> str:
        return f"{self.words} over {self.horizon} windows"

    @property
    @abstractmethod
    def words(self) -> str:
        """The kind of schedule, in words."""


SCHEDULES: Registry[type[Schedule]] = Registry("schedule")
"""The kinds of schedules by `Schedule.kind`."""


def toeplitz_norms(envelope: Ints, column: tuple[int, int], schedule: Schedule) -> Norms:
    """Return norms of a matrix C[t, j] ≤ envelope[t - j], nonincreasing: exact for one window, else upper bounds.

    Of windows i < j, ⟨c_i, c_j⟩ ≤ Σ_t e[t - i]·e[t - j], which falls with j - i and with j. So of all sets that are
    allowed, the first windows, as near to each other as may be, have the largest sum of products, and the largest norm
    of the matrix of products, which is at most its largest sum of a row (Theory 11.2).

    Parameters
    ----------
    envelope
        int64, (T,), with a sum below 2^22, so that all sums below are below 2^62.
    column
        The largest ℓ1 norm and the largest squared ℓ2 norm of a column of C.
    schedule
        Whose unit it is.
    """
    most, gap, horizon = schedule.most, schedule.gap, envelope.size
    largest, squared = column
    if most == 1:
        return Norms(largest, squared, squared)
    padded = np.zeros(-(-horizon // gap) * gap, dtype=np.int64)
    padded[:horizon] = envelope
    sums = np.cumsum(padded.reshape(-1, gap), axis=0).ravel()[:horizon]
    if most * gap < horizon:
        sums[most * gap :] -= sums[: -most * gap].copy()  # of the first windows: Σ_i e[t - i·gap]
    if most * horizon <= _MOST_BLOCKS:
        rows = [int(envelope[: horizon - i * gap] @ sums[i * gap :]) for i in range(most)]
    else:  # by Schur's test
        rows = [int(envelope.sum()) * int(sums.max())]
    return Norms(most * largest, int(sums @ sums), max(rows))


@functools.lru_cache(maxsize=8)
def _blocks_of(schedule: Schedule) -> RowBlocks:
    if schedule.most_blocks > _MOST_BLOCKS:
        raise InvalidInputError(
            f"{schedule} may hold {schedule.most_blocks} blocks in all its rows, more than {_MOST_BLOCKS}: take fewer "
            f"blocks"
        )
    starts, factors = [], []
    for own, coefficients in schedule.rows():
        starts.append(own)
        factors.append(coefficients)
    offsets = np.concatenate([[0], np.cumsum([row.size for row in starts])]).astype(np.int64)
    return RowBlocks(offsets, *(np.concatenate(rows).astype(np.int64, copy=False) for rows in (starts, factors)))


@functools.lru_cache(maxsize=8)
def _falls_of(schedule: Schedule) -> Floats:
    """Return the coefficient of each block less that of the next one of its row; the last one counts as 0 there."""
    offsets, _, factors = schedule.row_blocks
    nexts = np.append(factors[1:], 0)
    last = offsets[1:] - 1
    nexts[last] = 0
    nexts[last[np.diff(offsets) > 1] - 1] = 0
    falls: Floats = (factors - nexts).astype(np.float64)
    return falls


@functools.lru_cache(maxsize=64)
def _norms_of(schedule: Schedule) -> Norms:
    return schedule.largest_norms()


def _some(count: int, most: int = 512) -> list[int]:
    """Return the numbers from 1 to ``count``, or some 200 of them: powers of 2, less 1, and evenly spaced."""
    if count <= most:
        return list(range(1, count + 1))
    powers = [1 << power for power in range(count.bit_length())]
    return sorted(
        {*powers, *(power - 1 for power in powers[1:]), *np.linspace(1, count, 180).astype(int).tolist(), count}
    )
