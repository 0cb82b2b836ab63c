"""A test of whether two streams are proportional: x = c·y for some c ≥ 0, whatever c is (Theory 4.7).

Under that hypothesis the cells of s·x - t·y hold noise alone, for the s and t ≥ 0 that make s·x = t·y. The p-value is
the largest over all of them.
"""

import dataclasses
import functools
import heapq
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np

from streamsketch.core.numbers import Floats
from streamsketch.estimation.gap_law import GapLaw, gap_law
from streamsketch.estimation.noise_effect import effect_of
from streamsketch.estimation.noise_law import NoiseTerm
from streamsketch.estimation.tail_law import NormalSquares
from streamsketch.privacy.mechanism import NoisePlace
from streamsketch.projections.base import Projection

NoiseOf: TypeAlias = Callable[[float, float], tuple[NoiseTerm, ...]]
"""Returns the noise in a cell of s·x - t·y, for s and t ≥ 0."""

LEAST = 1e-9
"""The least p-value under noise: a smaller one is given as this, as tails that are exact so far out take seconds."""

_LEVELS = 1e-6, 1e-10
"""Of what a cell of the search may add to a p-value: the second for p-values below a thousand times the first."""
_NEGLIGIBLE = 1e-3  # of a p-value
_LOOSE = 1.1  # p-values are at most so many times the largest
_LARGE = 0.2  # a p-value that is no evidence, so that larger ones may be bounded loosely
_ERROR = 1e-11  # of quick tails
_MOST_DIVISIONS = 20, 6  # of cells; where laws are those of a tolerance
_DEPTHS = 3, 8  # of the search: cells of 1/8 to 1/256
_TOLERANT_DEPTH = 5
_NORMAL_DEPTH = 10  # where laws take no time
_FINE_STEPS = 64.0  # in a standard deviation: of fewer, the lattices of fine nodes take ten times as long
_FIRST_DEPTH = 2
_FEW = 3  # cells, to begin with
_FARTHER = 1.15
_LEAST_SQUARE = 1e-300
_ROUNDING = 2.0**-50  # of cells, which are rounded to floats
_KEPT = 64  # lengths
_KEPT_TAILS = 256  # of a tolerance, 0.1 MB each
_KNOTS = 1 << 13  # of them
_BELOW = 8.0  # standard deviations of a square, below which its tail is taken as 1


class Proportional(NamedTuple):
    """The result of a test of x = c·y."""

    p_value: float
    law: GapLaw
    """The law of ‖s·N_x - t·N_y‖² where the p-value is the largest, or close to it."""
    gap: float
    """The least squared distance between cells of one stream and multiples of the other's, in the units of that law."""
    squared_norm: float
    """The estimated squared norm of the stream that is not multiplied, in the same units."""


def proportional(
    projection: Projection, place: NoisePlace, cells: tuple[Floats, Floats], noise_of: NoiseOf, tolerance: float = 0.0
) -> Proportional:
    """Test whether ‖x - c·y‖ or ‖y - c·x‖ is at most ``tolerance`` for some c from 0 to 1.

    The p-value is at least P(‖z + s·N_x - t·N_y‖ ≥ ‖s·X - t·Y‖), X and Y the cells and z the least favourable
    difference within the tolerance, for all s and t from 0 to 1 of which one is 1. Noises may depend on each other.

    Parameters
    ----------
    projection
        The map of both sketches.
    place
        Where noises were added.
    cells
        X and Y: float64, (k,), in data units.
    noise_of
        The noise in cells, or in coordinates before the map, of s·x - t·y.
    tolerance
        In data units.
    """
    x, y = cells
    noises = noise_of(1.0, 0.0), noise_of(0.0, 1.0)
    scale = 1.0 if tolerance else _scale(cells, noises)
    lines = _Line.of(x, scale * y), _Line.of(scale * y, x)
    return _Search(projection, place, lines, lambda s, t: noise_of(s, scale * t), tolerance, any(noises)).result()


def nearest_multiple(cells: tuple[Floats, Floats]) -> tuple[float, float]:
    """Return the s and t from 0 to 1, of which one is 1, with the least ‖s·X - t·Y‖ relative to the longer of both."""
    x, y = cells
    line = _Line.of(x, y)
    if line.nearest <= 1:
        return 1.0, max(line.nearest, 0.0)
    return min(max(_Line.of(y, x).nearest, 0.0), 1.0), 1.0


def _scale(cells: tuple[Floats, Floats], noises: tuple[tuple[NoiseTerm, ...], tuple[NoiseTerm, ...]]) -> float:
    """Return the power of 2 by which the second noise is about as large as the first.

    If a stream is exact, that by which it is longer than the other: then the noise does not depend on its factor.
    """
    variances = [sum(term.moments.k2 for term in terms) for terms in noises]
    if all(variances):
        return 2.0 ** round(math.log2(variances[0] / variances[1]) / 2)
    squares = [float(values @ values) for values in cells]
    if not all(squares):
        return 1.0
    times = math.log2(squares[0] / squares[1]) / 2
    return 2.0 ** (math.floor(times) - 1 if variances[1] else math.ceil(times) + 1)


class _Line(NamedTuple):
    """The points v - t·w, for numbers t ≥ 0."""

    nearest: float
    """The t at which the point is nearest to 0."""
    least: float
    """Its squared distance from 0."""
    slope: float
    """‖w‖²."""
    rounding: float
    """The largest error of a distance."""
    squared_norm: float
    """‖v‖²."""

    @classmethod
    def of(cls, v: Floats, w: Floats) -> "_Line":
        slope, square = float(w @ w), float(v @ v)
        rounding = _ROUNDING * (math.sqrt(slope) + math.sqrt(square))
        if slope == 0:
            return cls(0.0, square, 0.0, rounding, square)
        nearest = float(v @ w) / slope
        nearest += float((v - nearest * w) @ w) / slope
        rest = v - nearest * w
        return cls(nearest, float(rest @ rest), slope, rounding * max(nearest, 1.0), square)

    def distance(self, t: float) -> float:
        """Return ‖v - t·w‖, less what rounding may have added."""
        return max(math.sqrt(self.least + self.slope * (t - self.nearest) ** 2) - self.rounding, 0.0)

    def least_within(self, low: float, high: float, node: float, slack: float) -> float:
        """Return the least of ‖v - t·w‖ - ``slack``·|t - ``node``| for t from ``low`` to ``high``.

        It is convex in t on either side of the node, so it is least at an end, at the node, or where its slope is 0.
        """
        places = [low, high, min(max(node, low), high)]
        if self.slope > slack**2:
            apart = slack * math.sqrt(self.least / (self.slope * (self.slope - slack**2)))
            places += [min(max(self.nearest + sign * apart, low), high) for sign in (-1, 1)]
        return min(self.distance(t) - slack * abs(t - node) for t in places)


class _Cell(NamedTuple):
    """The numbers from ``low`` to ``high`` on one of two lines, whose noises are close to that at ``node``."""

    line: int
    low: float
    high: float
    node: float
    depth: int

    def parts(self) -> Iterator["_Cell"]:
        """Yield the cells of the next depth."""
        half, depth = 0.5 ** (self.depth + 2), self.depth + 1
        for node in (self.node - 2 * half, self.node, self.node + 2 * half):
            low, high = max(self.low, node - half), min(self.high, node + half)
            if low < high:
                yield _Cell(self.line, low, high, node, depth)


@dataclasses.dataclass(frozen=True, eq=False)
class _Search:
    """The search for the largest p-value, over cells of s and t: x - t·y for t ≤ 1, and y - s·x for s ≤ 1.

    It asks for few laws and lengths again and again. It keeps them itself: `gap_law` would hash all noises each time.
    """

    projection: Projection
    place: NoisePlace
    lines: tuple[_Line, _Line]
    noise_of: NoiseOf
    tolerance: float
    is_noisy: bool
    _laws: dict[tuple[int, float], GapLaw] = dataclasses.field(default_factory=dict, init=False)
    _lengths: dict[tuple[int, float, bool], float] = dataclasses.field(default_factory=dict, init=False)

    def result(self) -> Proportional:
        """Return the largest p-value, or a bound that is 1.1 times as large, or more where the search ends early."""
        if self.tolerance and (alike := self._multiple_within()) is not None:
            return self._result(1.0, *alike)
        cells = self._first_cells()
        if not cells:  # with negligible p-values
            line = min((0, 1), key=lambda line: self.lines[line].nearest)
            count = 2**self._depth
            node = round(min(max(self.lines[line].nearest, 0.0), 1.0) * count) / count
            return self._result(LEAST if self.is_noisy else 0.0, line, node)
        largest = self._largest(cells)
        return largest._replace(p_value=max(largest.p_value, LEAST))

    def _multiple_within(self) -> tuple[int, float] | None:
        """Return a line and its coarsest node that is no evidence against the tolerance, if it is found at once.

        The laws of a tolerance take a second in thousands of cells, and a series shares those of coarse nodes.
        """
        count = effect_of(self.projection, self.place).count
        for depth in range(self._depth + 1):
            for line in sorted((0, 1), key=lambda line: self.lines[line].nearest > 1):
                chosen = self.lines[line]
                node = round(min(max(chosen.nearest, 0.0), 1.0) * 2**depth) / 2**depth
                noise = count * sum(term.moments.k2 for term in self._noise(line, node))
                length = chosen.distance(node)
                if length**2 <= noise + self.tolerance**2 and _tail(self._law(line, node), length) >= _LARGE:
                    return line, node
        return None

    def _largest(self, cells: list[_Cell]) -> Proportional:
        """Return the largest bound of cells, which are divided while the largest may be far too large."""
        best, heap = 0.0, list[tuple[float, _Cell]]()

        def add(cell: _Cell, most: float) -> float:
            law = self._law(cell.line, cell.node)
            heapq.heappush(heap, (-min(self._bound(cell, law), most), cell))
            within = cell.low <= cell.node <= cell.high
            return _tail(law, self.lines[cell.line].distance(cell.node)) if within else 0.0

        for cell in cells:
            best = max(best, add(cell, 1.0))
        for _ in range(_MOST_DIVISIONS[bool(self.tolerance)]):
            most, top = -heap[0][0], heap[0][1]
            if top.depth >= self._depth or most <= max(_LOOSE * best, LEAST) or best >= _LARGE:
                break
            heapq.heappop(heap)
            for cell in top.parts():
                best = max(best, add(cell, most))
        (most, top), *_ = heap
        return self._result(-most, top.line, top.node)

    def _result(self, p_value: float, line: int, node: float) -> Proportional:
        chosen = self.lines[line]
        gap = chosen.distance(min(max(chosen.nearest, 0.0), 1.0)) ** 2
        law = self._law(line, node)
        squared_norm = chosen.squared_norm - self._noise_law(line).of_noise[0]
        return Proportional(min(p_value, 1.0), law, gap, squared_norm)

    def _first_cells(self) -> list[_Cell]:
        """Return the coarsest cells of which a few remain, without those whose p-values are negligible."""
        for depth in range(_FIRST_DEPTH, self._depth + 1):
            half, count = 0.5 ** (depth + 1), 2**depth
            nodes = [place / count for place in range(count + 1)]
            cells = [
                _Cell(line, max(node - half, 0.0), min(node + half, 1.0), node, depth)
                for line in (0, 1)
                for node in nodes
            ]
            candidates = [cell for cell in cells if self._is_near(cell)]
            if not candidates or len(candidates) >= _FEW:
                break
        return candidates

    @property
    def _depth(self) -> int:
        """How finely to divide the numbers up to 1: noise of a cell is longer than at its node by a share of 1/√k."""
        if self.tolerance:
            return _TOLERANT_DEPTH
        if all(isinstance(law, NormalSquares) for line in (0, 1) for law in self._law(line, 0.0).laws):
            return _NORMAL_DEPTH
        noise = [term for line in (0, 1) for term in self._noise(line, 0.0)]
        if all(term.moments.k2 > (_FINE_STEPS * term.step) ** 2 for term in noise):
            return _DEPTHS[1]
        return min(max(math.ceil(math.log2(2 * math.sqrt(self.projection.sketch_dim))), _DEPTHS[0]), _DEPTHS[1])

    def _is_near(self, cell: _Cell) -> bool:
        """Return whether some p-value of a cell may not be negligible: P(‖N‖ ≥ q) + P(‖N'‖ ≥ q') bounds them."""
        own, other = self._length(cell.line, _LEVELS[1], of_noise=False), self._length(1 - cell.line, _LEVELS[1])
        least = self.lines[cell.line].least_within(cell.low, cell.high, cell.low, other)
        return least < own + cell.low * other

    def _bound(self, cell: _Cell, law: GapLaw) -> float:
        """Return a bound on the p-values of a cell.

        The noise N - t·N' is at most |t - node|·‖N'‖ longer than at the node, and ‖N'‖ is at most q but for a
        probability that is added.
        """
        for level in _LEVELS:
            slack = self._length(1 - cell.line, level)
            least = self.lines[cell.line].least_within(cell.low, cell.high, cell.node, slack)
            bound = _tail(law, max(least, 0.0)) + level
            if level <= _NEGLIGIBLE * bound:
                break
        return bound

    def _noise(self, line: int, t: float) -> tuple[NoiseTerm, ...]:
        return self.noise_of(1.0, t) if line == 0 else self.noise_of(t, 1.0)

    def _law(self, line: int, t: float) -> GapLaw:
        if (line, t) not in self._laws:
            noise = self._noise(line, t)
            self._laws[line, t] = gap_law(self.projection, noise, self.place, self.tolerance, (), 0.0)
        return self._laws[line, t]

    def _noise_law(self, line: int) -> GapLaw:
        return gap_law(self.projection, self._noise(line, 0.0), self.place, 0.0, (), 0.0)

    def _length(self, line: int, level: float, *, of_noise: bool = True) -> float:
        """Return the length that the noise of a line's first stream has with a probability of ``level`` at most."""
        asked = line, level, of_noise
        if asked not in self._lengths:
            law = self._noise_law(line) if of_noise else self._law(line, 0.0)
            self._lengths[asked] = _length_of(law, level)
        return self._lengths[asked]


@functools.lru_cache(maxsize=_KEPT)
def _length_of(law: GapLaw, level: float) -> float:
    """Return a length that is reached with a probability of ``level`` at most."""
    square = _square_beyond(law)
    while _quick_tail(law, square) > level:
        square *= _FARTHER
    return math.sqrt(square)


def _square_beyond(law: GapLaw) -> float:
    return max(*(mean + 4 * deviation for mean, deviation in (part.moments for part in law.laws)), _LEAST_SQUARE)


def _tail(law: GapLaw, length: float) -> float:
    """Return the probability of this length or more, of the least favourable difference, or slightly more."""
    if not law.tolerance:
        return _quick_tail(law, length**2)
    squares, tails = _tails_of(law)
    return float(tails[max(int(np.searchsorted(squares, length**2, side="right")) - 1, 0)])


def _quick_tail(law: GapLaw, square: float) -> float:
    """Return a tail, or up to 1e-11 more."""
    return max(part.rough_tail(square) for part in law.laws) + _ERROR


@functools.lru_cache(maxsize=_KEPT_TAILS)
def _tails_of(law: GapLaw) -> tuple[Floats, Floats]:
    """Return squared lengths and their tails: those of all nodes in a series, whose laws would fill the memory."""
    last = max(_length_of(law, _LEVELS[1]) ** 2, _square_beyond(law))
    first = max(min(mean - _BELOW * deviation for mean, deviation in (part.moments for part in law.laws)), 0.0)
    squares = np.append(0.0, np.linspace(first, last, _KNOTS))
    return squares, np.max([part.rough_tails(squares) for part in law.laws], axis=0) + _ERROR
