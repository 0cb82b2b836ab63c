"""Sums of nested blocks of windows: any prefix is the sum of a few, and a window is in a few."""

import dataclasses
import math
from collections.abc import Iterator

import numpy as np

from streamsketch.core import sentences
from streamsketch.core.numbers import Ints, check_int
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.schedule import SCHEDULES, Norms, Schedule

_DEEPEST = 64


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tree(Schedule):
    """Sums of nested blocks of windows, one as each window ends; any prefix is the sum of a few of them.

    A window is in at most ``depth`` blocks, and a prefix consists of at most b blocks, with C(depth + b, b) > T. A
    block ends with its last window, and contains smaller blocks before it. Noise may be Laplace, so δ may be 0, and
    ranges are exact in integers. No tree of this kind has a smaller product of the two numbers.

    Source: Andersson and Pagh, "A smooth binary mechanism for efficient private continual observation", NeurIPS 2023,
    of which these are the nodes that are used; Dwork, Naor, Pitassi and Rothblum 2010; Chan, Shi and Song 2011.

    Parameters
    ----------
    horizon, max_windows, gap
        As in `Schedule`.
    depth
        The number of sums that a window is in, 1 to 64. The default has the smallest worst error of prefixes under
        Gaussian noise. For Laplace noise a smaller depth is better (`for_laplace`).

    Examples
    --------
    >>> tree = Tree(horizon=8760)  # the hours of a year
    >>> tree.depth, round(tree.worst_error(), 2)
    (7, 7.94)
    """

    depth: int | None = None

    kind = "tree"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.depth is None:
            object.__setattr__(self, "depth", _best_depth(self.horizon, laplace=False))
        check_int(self.depth, "the depth of a tree", 1, _DEEPEST)

    @classmethod
    def for_laplace(cls, *, horizon: int, max_windows: int | None = 1, gap: int = 1) -> "Tree":
        """Return the tree whose prefixes have the smallest worst error under Laplace noise.

        Examples
        --------
        >>> Tree.for_laplace(horizon=8760).depth
        4
        """
        plain = cls(horizon=horizon, max_windows=max_windows, gap=gap)
        return dataclasses.replace(plain, depth=_best_depth(horizon, laplace=True))

    @property
    def scale(self) -> int:
        """1."""
        return 1

    @property
    def most_blocks(self) -> int:
        """The depth plus one, for each window."""
        return self.horizon * (1 + min(self.depth or 1, self.horizon))

    @property
    def words(self) -> str:
        """What kind of schedule it is."""
        return sentences.TREE.format(depth=self.depth)

    def nodes(self) -> tuple[Ints, Ints]:
        """Return the first window of the block that each window ends, and its level, two int64 arrays of shape (T,).

        Blocks of one level are disjoint, and those of a level are inside those of the next.
        """
        starts, levels = (np.zeros(self.horizon, dtype=np.int64) for _ in range(2))

        def fill(start: int, level: int, terms: int) -> None:
            while terms > 0 and start < self.horizon:
                inside = math.comb(level - 1 + terms, terms) - 1  # windows before the last one of the block
                if level > 1:
                    fill(start, level - 1, terms)
                closing = start + inside
                if closing >= self.horizon:
                    return
                starts[closing], levels[closing] = start, level
                start, terms = closing + 1, terms - 1

        depth = self.depth or 1  # an int since it was made
        fill(0, depth, _terms(self.horizon, depth))
        return starts, levels

    def rows(self) -> Iterator[tuple[Ints, Ints]]:
        """Yield starts and coefficients of each row's blocks; see `Schedule.rows`."""
        first, _ = self.nodes()
        unclosed = np.bincount(first, minlength=self.horizon)
        held: list[int] = []  # where blocks began that are not closed
        for window, start in enumerate(first.tolist()):
            starts = np.array([*held, window])
            yield starts, (starts >= start).astype(np.int64)
            unclosed[start] -= 1
            if unclosed[start] == 0 and start != window:
                held.pop()  # blocks are nested, so it is the last
            if unclosed[window] > 0:
                held.append(window)

    def largest_norms(self) -> Norms:
        """Return `Schedule.norms`."""
        starts, levels = self.nodes()
        windows = np.arange(self.horizon)
        steps = np.bincount(starts, minlength=self.horizon + 1) - np.bincount(windows + 1, minlength=self.horizon + 1)
        deepest = int(np.cumsum(steps).max())
        if self.most == 1:
            return Norms(deepest, deepest, deepest)
        squared, together = 0, 0
        for level in range(1, int(levels.max()) + 1):
            sizes = (windows - starts + 1)[levels == level]
            if sizes.size:
                inside = min(self.most, -(-int(sizes.max()) // self.gap))  # windows of a unit in one block of the level
                blocks, left = divmod(self.most, inside)
                squared += blocks * inside**2 + left**2
                together += inside
        return Norms(self.most * deepest, squared, together)


SCHEDULES.enter(Tree.kind, Tree)


def _terms(horizon: int, depth: int) -> int:
    """Return of how many blocks prefixes are, at most, if each window is in at most ``depth``."""
    terms = 1
    while math.comb(depth + terms, terms) <= horizon:
        terms += 1
    return terms


def _best_depth(horizon: int, *, laplace: bool) -> int:
    def error(depth: int) -> tuple[int, int]:
        return depth * _terms(horizon, depth) * (depth if laplace else 1), depth

    if horizon < 1:
        raise InvalidInputError(f"a tree has at least one window, got {horizon}")
    return min(range(1, min(horizon, _DEEPEST) + 1), key=error)
