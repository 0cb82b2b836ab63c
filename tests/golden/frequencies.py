"""How often items occur, and intervals that hold together, from WIRE.md alone, in fractions, as in ``estimates.py``.

The law of a median is a list of integers with their numbers, so probabilities are exact, too. Where WIRE.md lets a
reader take either of two results, `AmbiguousError` says so: such a case is none for the kit.
"""

import functools
import math
from bisect import bisect_left, bisect_right
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import accumulate, pairwise
from statistics import NormalDist
from typing import Any, NamedTuple

from tests.golden import estimates, interval_ends, laws
from tests.golden.exact_numbers import ULP, Expected, Sized, UndefinedError, decimal, sized, total
from tests.golden.interval_ends import Ends, interval_at, reach_of, reach_of_noise, widened
from tests.golden.reader import cells_of, values_message
from tests.golden.views import Message, View, tolerance, view_of

EDGE = Fraction(1, 10**9)
"""How far probabilities must be apart that are compared, and how far off a median's law may be."""

_SIZES, _STEPS = 4096, 255
_NORMAL = NormalDist()


class AmbiguousError(Exception):
    """Readers may take either of two results."""


class Law(NamedTuple):
    """The law of the median of s cells with random signs."""

    sizes: list[int]
    """Different ones, ascending."""
    counts: list[int]
    """How many cells have each size."""
    draws: int
    unit: Fraction
    """Of the sizes, in data units."""

    def tail(self, t: Fraction) -> Fraction:
        """Return P(|median| > t), t in cells."""
        cells, h = sum(self.counts), self.draws // 2
        if self.draws % 2:
            p = Fraction(sum(self.counts[bisect_right(self.sizes, t) :]), 2 * cells)
            return 2 * at_least(h + 1, self.draws, p)
        numbers = [-size for size in reversed(self.sizes)] + self.sizes
        counts = [*reversed(self.counts), *self.counts]
        below = [0, *accumulate(counts)]

        def share(least: int, most: int) -> int:
            """Return F(y), of 4·cells, for a number between two integers, or the one that both are."""
            return below[bisect_left(numbers, most)] + below[bisect_right(numbers, least)]

        whole, found = 4 * cells, 0
        least, most = math.floor(-2 * t), math.ceil(-2 * t)
        for x, count in zip(numbers[: bisect_left(numbers, math.ceil(-t))], counts, strict=False):
            own, other = share(x, x), share(least - x, most - x)
            found += count * own ** (h - 1) * ((whole - own) ** h - (whole - other) ** h)
        return min(Fraction(2 * h * math.comb(self.draws, h) * found, 2 * cells * whole ** (2 * h - 1)), Fraction(1))

    @property
    def is_coarse(self) -> bool:
        """Whether readers may leave sizes out of the sum for the variance."""
        return self.draws > 2 and self.draws % 2 == 0 and len(self.sizes) > _STEPS

    def variance(self) -> Fraction:
        """Return S."""
        cells = sum(self.counts)
        if self.draws <= 2:
            squares = sum(count * size**2 for size, count in zip(self.sizes, self.counts, strict=True))
            return self.unit**2 * Fraction(squares, cells * self.draws)
        ends = [0, *self.sizes]
        if self.is_coarse:
            ends = [ends[i * len(self.sizes) // _STEPS] for i in range(_STEPS + 1)]
        pieces = (self.tail(Fraction(a + b, 2)) * (b * b - a * a) for a, b in pairwise(ends))
        return self.unit**2 * sum(pieces, Fraction(0))

    def reach(self, confidence: Fraction, variance: Fraction) -> Decimal:
        """Return v(C) in data units."""
        if self.draws % 2:
            found, is_known = self._odd(confidence)
        else:
            found, is_known = self._even(1 - confidence)
        if is_known:
            return decimal(self.unit * found)
        wide = decimal(variance).sqrt() * Decimal(_NORMAL.inv_cdf(float((1 + confidence) / 2)))
        return max(decimal(self.unit * sum(self.sizes[-2:])), wide)

    def _odd(self, confidence: Fraction) -> tuple[Fraction, bool]:
        low, high, cells = Fraction(0), Fraction(1, 2), sum(self.counts)
        for _ in range(60):
            p = (low + high) / 2
            low, high = (low, p) if 2 * at_least(self.draws // 2 + 1, self.draws, p) > 1 - confidence else (p, high)
        shares = [Fraction(one, cells) for one in accumulate(self.counts)]
        last = Fraction(self.counts[-1], cells)
        if any(abs(share - (1 - 2 * low)) < EDGE for share in [*shares[:-1], 1 - last]):
            raise AmbiguousError
        place = next(place for place, share in enumerate(shares) if share >= 1 - 2 * low - Fraction(1, 10**12))
        return Fraction(self.sizes[place]), 2 * low >= last

    def _even(self, miss: Fraction) -> tuple[Fraction, bool]:
        quarter = Fraction(1, 4)  # T changes at halves of integers alone
        low, high = 0, 2 * self.sizes[-1]
        while low < high:
            place = (low + high) // 2
            low, high = (place + 1, high) if self.tail(place * 2 * quarter + quarter) > miss else (low, place)
        found = low * 2 * quarter
        beside = [self.tail(found + quarter)] + ([self.tail(found - quarter)] if low else [])
        before = self.tail(Fraction(self.sizes[-2])) if len(self.sizes) > 1 else Fraction(1)
        if any(abs(one - miss) < EDGE for one in (*beside, before)):
            raise AmbiguousError
        return found, len(self.sizes) > 1 and before <= miss


def at_least(least: int, draws: int, p: Fraction) -> Fraction:
    """Return P(Bin(draws, p) ≥ least)."""
    chances = (math.comb(draws, i) * p**i * (1 - p) ** (draws - i) for i in range(least, draws + 1))
    return sum(chances, Fraction(0))


@functools.cache
def normal_median_variance(draws: int) -> float:
    """Return ν_s, by a sum over a grid: of the middle variable, or of the mean of the middle two."""
    if draws <= 2:
        return 1 / draws
    h, step = draws // 2, 1 / 16
    grid = [step * (i + 0.5) for i in range(-96, 96)]
    below, density = [_NORMAL.cdf(x) for x in grid], [step * _NORMAL.pdf(x) for x in grid]
    if draws % 2:
        law = zip(grid, below, density, strict=True)
        factor = math.factorial(draws) / math.factorial(h) ** 2
        return factor * sum(x * x * (f * (1 - f)) ** h * d for x, f, d in law)
    lower = [f ** (h - 1) * d for f, d in zip(below, density, strict=True)]
    upper = list(reversed(lower))
    found = 0.0
    for i, x in enumerate(grid):
        inner = sum((x + grid[j]) ** 2 * upper[j] for j in range(i + 1, len(grid)))
        found += lower[i] * (inner + 2 * x * x * upper[i])  # half of the diagonal
    return math.factorial(draws) / math.factorial(h - 1) ** 2 * found / 4


# --- frequencies -----------------------------------------------------------------------------------------------------


class Point(NamedTuple):
    """An item's estimate."""

    expected: Expected
    law: Law | None
    """Of a median."""


def law_of_median(message: Message) -> Law:
    """Return the law of a median's error."""
    fields = message["projection"]
    s, k = laws.few_entries(fields), fields["sketch_dim"]
    if not s or message["noise"]["place"] or laws.law_of(fields).a * k < Fraction(9, 10):
        raise UndefinedError
    seen = Counter(abs(cell) for cell in cells_of(message))
    sizes = sorted(seen)
    if len(sizes) > _SIZES:
        half, rest = _SIZES // 2, len(sizes) - _SIZES // 2
        places = [i * rest // half - 1 for i in range(1, half + 1)] + list(range(rest, len(sizes)))
        ends = [0, *(place + 1 for place in places)]
        counts = [sum(seen[size] for size in sizes[a:b]) for a, b in pairwise(ends)]
        sizes = [sizes[place] for place in places]
    else:
        counts = [seen[size] for size in sizes]
    return Law(sizes, counts, s, abs(_step(message)) * s)


def _step(message: Message) -> Fraction:
    """Return w."""
    fields = message["projection"]
    found: Fraction = message["multiplier"] * laws.scale_squared(fields) * fields["resolution"]
    return found


def difference(x: Message, y: Message) -> Message:
    """Return what has the frequencies x_j - y_j, in the largest steps of which both multipliers are multiples."""
    m, n = x["multiplier"], y["multiplier"]
    step = Fraction(math.gcd(m.numerator * n.denominator, n.numerator * m.denominator), m.denominator * n.denominator)
    a, b = int(m / step), int(n / step)
    cells = [a * one - b * other for one, other in zip(cells_of(x), cells_of(y), strict=True)]
    noise = x["noise"] | {
        name: a**power * x["noise"][name] + b**power * y["noise"][name] for name, power in (("k2", 2), ("k4", 4))
    }
    return x | {"values": values_message(cells), "noise": noise, "multiplier": step, "_of": [x, y]}


def frequency(message: Message, column: list[int], estimator: str) -> Point:
    """Estimate x_j, of the item whose column of A this is."""
    view = view_of(message)
    law = None
    try:
        law = None if estimator == "mean" else law_of_median(message)
    except UndefinedError:
        if estimator == "median":
            raise
    if law is None:
        return Point(_mean(message, column), None)
    s, variance = law.draws, law.variance()
    if estimator == "auto" and s > 2:
        spread = view.factor * sum(cell.value**2 for cell in view.cells) / view.fields["sketch_dim"]
        slack = Fraction(1, 20) if law.is_coarse else EDGE
        if abs(variance - spread) <= slack * variance:
            raise AmbiguousError
        if variance > spread:
            return Point(_mean(message, column), None)
    signed = sorted(entry * cell for entry, cell in zip(column, cells_of(message), strict=True) if entry)
    middle = Fraction(signed[(s - 1) // 2] + signed[s // 2], 2)
    size = Fraction(max(map(abs, signed)))
    value = s * _step(message) * middle, s * abs(_step(message)) * size
    noise = min(variance, view.k2.value * s * Fraction(normal_median_variance(s)))
    off = (Fraction(1, 20) if law.is_coarse else EDGE) * variance
    bounds = (tolerance(view) * value[1], noise / 100 + off, noise / 100 + off)
    return Point(Expected(value[0], variance - noise, noise, None, None, bounds), law)


def _mean(message: Message, column: list[int]) -> Expected:
    view, place = view_of(message), message["noise"]["place"]
    pairs = zip(column, cells_of(message), strict=True)
    value = _step(message) * total(entry * sized(cell) for entry, cell in pairs)
    norm = _squared_norm(view).clipped(Fraction(0))
    law, k2, before = view.law, view.k2, view.before
    square = (value * value).clipped(Fraction(0), norm)
    variance = (law.a * norm + (law.b + law.c) * square).clipped(Fraction(0))
    noise = k2
    if before is not None:
        noise = (view.count * before.a * k2 + (before.b + before.c + 1) * k2).clipped(Fraction(0))
    near = tolerance(view)
    parts = value, variance, noise
    found = Expected(*(one.value for one in parts), None, None, tuple(near * one.size for one in parts))
    growth = law.b + law.c
    error = variance.value + noise.value
    kurtosis = view.k4.value / (laws.entries_of(view.fields) * error**2) if error and not place else Fraction(0)
    found = found._replace(slope=2 * growth * value.value, curvature=growth, kurtosis=kurtosis)
    plain, s = law.a == 0 and law.b == 0, laws.entries_of(view.fields)
    is_sparse = laws.few_entries(view.fields) > 0
    if s > 8 or not (plain or (is_sparse and not place)):
        return found
    return found._replace(reach=_noise_reach(message, s), alone=plain)


def _noise_reach(message: Message, draws: int) -> Any:
    """Return how far the noise in the mean of an item's cells reaches."""
    fields, place = message["projection"], message["noise"]["place"]
    scale = laws.scale_squared(fields)
    unit = scale * fields["resolution"] ** 2 if place == "" else fields["resolution"] ** 2
    messages = message.get("_of", [message])
    return reach_of_noise(messages * draws, [Fraction(1)], unit * scale)


def _squared_norm(view: View) -> Sized:
    return view.factor * total(cell * cell for cell in view.cells) - view.count * view.k2


def interval(point: Point, confidence: float, method: str, candidates: int = 1) -> Ends:
    """Return the interval of an item, or of each of several that hold at once."""
    found = point.expected
    one = 1 - (1 - Fraction(confidence)) / candidates
    if point.law is None:
        return interval_ends.interval(found, float(one), method)
    with localcontext() as context:
        context.prec = 50
        variance = found.projection_variance + found.noise_variance
        if method == "normal":
            width = point.law.reach(one, variance)
            ground = decimal(point.law.unit * point.law.sizes[-1]) if point.law.draws % 2 == 0 else width
        else:
            width = decimal(variance).sqrt() / decimal(1 - one).sqrt()
            ground = 10**8 * width if point.law.is_coarse else width
        value = decimal(found.value)
        within = decimal(found.tolerances[0]) + decimal(EDGE) * ground + decimal(ULP) * (abs(value) + width)
        return Ends(value - width, value + width, within)


def missed(message: Message, columns: list[list[int]]) -> Expected:
    """Estimate the squared norm of what items with these columns leave out."""
    view, m = view_of(message), len(columns)
    law, k2, k4, k = view.law, view.k2, view.k4, view.count
    if message["noise"]["place"]:
        raise UndefinedError
    cells = cells_of(message)
    if view.fields["kind"] == "identity":
        others = [cell for place, cell in enumerate(view.cells) if not any(column[place] for column in columns)]
        if not others:
            one = view.k4.value + 2 * view.k2.value**2
            slack = tolerance(view) * one
            return Expected(Fraction(0), Fraction(0), one, Fraction(0), None, (Fraction(0), Fraction(0), slack))
        return estimates.squared(others, view.k2, view.k4, view._replace(count=len(others)), view.step_squared)
    means = [
        _step(message) * total(entry * sized(cell) for entry, cell in zip(column, cells, strict=True))
        for column in columns
    ]
    norm = _squared_norm(view)
    found = total(one * one for one in means) - m * (law.a * norm + k2)
    known = 1 / (1 + law.b + law.c) * found
    value, q = norm - known, norm.clipped(Fraction(0))
    inside, outside = (one.clipped(Fraction(0), q) for one in (known, value))
    noise = 4 * (k2 * outside)
    if law.a == 0:
        variance = sized(0)
        noise += max(k - m, 1) * (k4 + 2 * (k2 * k2))
    else:
        squares = sum(cell**2 for cell in cells)
        tails = Fraction(k * sum(cell**4 for cell in cells), squares**2) if squares else Fraction(3)
        s = laws.entries_of(view.fields)
        factor = m * (2 * (s - 1) + tails - 1) / s
        length = law.a * q
        longer = length + k2
        variance = (law.a + law.b) * (inside * inside + outside * outside) + factor * (length * length)
        noise += k * (k4 + 2 * (k2 * k2)) + factor * (longer * longer - length * length)
    noise += Fraction(1, 1 << 100) * (q * q)
    near = tolerance(view) + m * ULP
    parts = value, variance, noise
    return Expected(*(one.value for one in parts), Fraction(0), None, tuple(near * one.size for one in parts))


# --- intervals that hold together ------------------------------------------------------------------------------------


def together(found: Expected, candidates: int, confidence: float) -> Ends:
    """Return the interval of an estimate that was selected among ``candidates``."""
    beta = (1 - confidence) / (2 * candidates)
    with localcontext() as context:
        context.prec = 50
        z = -Decimal(_NORMAL.inv_cdf(beta))
        if found.lowest is not None and found.highest is not None:
            ends = _between(found, reach_of(z, found))
            return widened(ends, found, (1 - confidence) / candidates)
        miss = (1 - confidence) / candidates
        usual = widened(interval_at(found, reach_of(z, found), 28), found, miss)
        if candidates == 1 or found.lowest is None or found.curvature <= Fraction(1, 10**7):
            return usual
        freedom = 2 / float(found.curvature)
        spread = math.sqrt(2 * freedom)
        above = (chi_squared(freedom, 1 - beta) - freedom) / spread
        below = (freedom - chi_squared(freedom, beta)) / spread
        first, second = (interval_at(found, Decimal(one), 28) for one in (below, above))
        ends = Ends(min(first.low, second.low), first.high, max(first.within, second.within))
        return widened(ends, found, miss)


def chi_squared(freedom: float, share: float) -> float:
    """Return what a χ² variable is below with this probability."""
    low, high = 0.0, freedom + 40 * math.sqrt(2 * freedom) + 400
    for _ in range(200):
        x = (low + high) / 2
        low, high = (x, high) if lower_gamma(freedom / 2, x / 2) < share else (low, x)
    return high


def lower_gamma(a: float, x: float) -> float:
    """Return the regularised lower incomplete gamma function, by its series."""
    if x <= 0:
        return 0.0
    term = found = 1 / a
    place = a
    while abs(term) > found * 1e-18:
        place += 1
        term *= x / place
        found += term
    return min(found * math.exp(a * math.log(x) - x - math.lgamma(a)), 1.0)


def _between(found: Expected, z: Decimal) -> Ends:
    low, high, value = (decimal(one) for one in (found.lowest, found.highest, found.value))
    half = (high - low) / 2
    value = min(max(value, low), high)
    v = abs(value - (high + low) / 2) / half
    e = decimal(found.projection_variance).sqrt() / half
    usual, total = Decimal(_NORMAL.inv_cdf(0.975)), (e * e + decimal(found.noise_variance) / half**2).sqrt()
    o, q = (max(v - one * total, Decimal(0)) for one in (usual, z))
    t = z * e / (1 - o * o) if e > Decimal("1e-9") else Decimal(0)
    f = 2 * (v - t) / (1 + max(1 - 4 * t * (v - t), Decimal(0)).sqrt())
    h = Decimal(2) if v - usual * e <= -1 else max(z * e, v - f, t * (1 - q * q))
    width = (half**2 * h * h + z * z * decimal(found.noise_variance)).sqrt()
    return Ends(max(value - width, low), min(value + width, high), half * Decimal("1e-6"))
