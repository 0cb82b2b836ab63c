"""The p-value of a test of sameness, from WIRE.md alone: laws on a fine grid, summed by the discrete Fourier transform.

Slow and plain: a grid for each case, of squares of cells, damped so that what is beyond the grid does not wrap around.
"""

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tests.golden import laws, views
from tests.golden.frequencies import lower_gamma
from tests.golden.kit_releases import as_parts
from tests.golden.views import Message

Array: TypeAlias = NDArray[np.float64]
Signal: TypeAlias = tuple[Array, Array]

ITEMS = (1, 2, 3, 5, 8, 12)

_FINE = 100  # points of a grid in a standard deviation of a cell's square
_COARSE = 60  # points of wide noise in a standard deviation
_NODES = 100  # of a normal variable
_DAMPED = 1e-12  # of what is a whole transform away


class UnknownError(Exception):
    """The noise is known by its cumulants alone, which this reader has no law for."""


class Noise(NamedTuple):
    """A law on the multiples of a step."""

    step: float
    weights: Array
    lattice: Fraction | None
    """The step in grid steps of the cells, where the law is exact."""
    largest: Fraction
    """The largest multiplier, in the same."""

    @property
    def points(self) -> Array:
        """In data units."""
        half = self.weights.size // 2
        return self.step * np.arange(-half, half + 1, dtype=np.float64)


def p_value(x: Message, y: Message, tolerance: float) -> float:
    """Return the p-value of ‖x - y‖ ≤ tolerance."""
    first, second = views.view_of(x), views.view_of(y)
    gap = [one.value - other.value for one, other in zip(first.cells, second.cells, strict=True)]
    exact = sum(one * one for one in gap)  # of (scale · resolution)²
    noise = _noise_between(x, y, first)
    value = float(first.factor * exact)
    if x["noise"]["place"]:
        before = first.before
        assert before is not None
        freedom = 2 / float(before.a + before.b + max(before.c, Fraction(0)))
        return max(_stretched(noise, first.count, t, freedom, value) for t in {0.0, tolerance})
    return max(_least_favourable(noise, first.fields["sketch_dim"], first, tolerance, value, exact), 1e-15)


def is_exact(x: Message, y: Message, tolerance: float) -> bool:
    """Return whether no law of the p-value is an approximation."""
    view = views.view_of(x)
    if not tolerance or x["noise"]["place"]:
        return not tolerance
    return longest_within(_noise_between(x, y, view), view.fields["sketch_dim"], view, tolerance) is not None


def _noise_between(x: Message, y: Message, view: views.View) -> Noise:
    resolution = float(view.fields["resolution"])
    grids = {"": math.sqrt(view.factor), "input": resolution}
    grid = grids.get(x["noise"]["place"], resolution / math.sqrt(view.count))
    return noise_of([*as_parts(x), *as_parts(y)], grid)


def _least_favourable(noise: Noise, k: int, view: views.View, tolerance: float, value: float, exact: Fraction) -> float:
    if tolerance == 0:
        if noise.lattice is not None:
            steps = exact / noise.lattice**2
            if steps.denominator == 1 and steps < 1 << 18:
                return _tail_on_lattice(noise.weights, k, int(steps))
        return _tail(noise, [_nothing()], [k], value)
    fields, law = view.fields, view.law
    if (longest := longest_within(noise, k, view, tolerance)) is not None:
        assert noise.lattice is not None
        return max(_tail_of_steps(noise.weights, vector, int(exact / noise.lattice**2)) for vector in longest)
    nothing = _least_favourable(noise, k, view, 0.0, value, exact)
    excess = max(float(k * (law.a + law.b)) - 2, 0.0) / 3
    if law.a + law.b == 0:
        found = [nothing, _tail(noise, [_one(tolerance / math.sqrt(k))], [k], value)]
        few = [(items, _one(tolerance / math.sqrt(items))) for items in ITEMS if items < k]
        found += [_tail(noise, [_nothing(), each], [k - items, items], value) for items, each in few]
        return max(found)
    found = [nothing, _tail(noise, [_normal(tolerance / math.sqrt(k), excess)], [k], value)]
    s = laws.few_entries(fields)
    kurtosis = 3 + float(k * law.c)
    for items in ITEMS:
        if s and 2 * items * s <= k:
            signals = [_walk(hits, tolerance / math.sqrt(items * s)) for hits in range(items + 1)]
            found.append(_tail(noise, signals, [k], value, (items, s, k // s)))
        elif law.c > 0:
            size = tolerance * math.sqrt(kurtosis / (k * items))
            found.append(_tail(noise, [_scattered(items, size, 1 / kurtosis)], [k], value))
    return max(found)


# --- noise --------------------------------------------------------------------------------------------------------


def noise_of(parts: Sequence[Message], grid: float) -> Noise:
    """Return the law of all noises in a cell of the difference."""
    terms = []
    for part in parts:
        steps = part["guarantee"].get("steps") or [{}]
        stated = steps[0].get("noise")
        if stated is None or any("keys" not in step for step in steps[1:]):
            raise UnknownError
        shares = stated.get("shares")
        draws = Fraction(stated["layers"] or 1) if shares is None else Fraction(shares["parties"], shares["honest"])
        draws *= part["count"]
        law = stated["kind"], float(stated["amount"])
        variance = _variance_of(*law) * float(draws / part["count"])
        if draws.denominator > 1 or abs(variance - part["noise"]["k2"]) > 1e-6 * variance:
            raise UnknownError
        terms += [(abs(part["multiplier"]), law)] * int(draws)
    common = functools.reduce(_gcd, [multiplier for multiplier, _ in terms])
    deviation = math.sqrt(sum(float((m / common) ** 2) * _variance_of(*law) for m, law in terms))
    jump = max(1, int(deviation / _COARSE)) if deviation > 4 * _COARSE else 1
    total = np.ones(1)
    for multiplier, law in terms:
        total = np.convolve(total, _coarser(*law, int(multiplier / common), jump))
    return Noise(float(common) * grid * jump, _trimmed(total), common if jump == 1 else None, max(m for m, _ in terms))


@functools.cache  # cases of the kit share them
def _weights(kind: str, amount: float) -> Array:
    """Return the law of a noise on whole steps."""
    reach = math.ceil((40 if kind == "laplace" else 9.5 / math.sqrt(amount)) * amount) + 3
    n = np.abs(np.arange(-reach, reach + 1, dtype=np.float64))
    weights = np.exp(-n / amount) if kind == "laplace" else np.exp(-n * n / (2 * amount))
    return weights / weights.sum()


@functools.cache
def _variance_of(kind: str, amount: float) -> float:
    return _variance(_weights(kind, amount))


@functools.cache
def _coarser(kind: str, amount: float, factor: int, jump: int) -> Array:
    """Return ``factor`` times a law, on a lattice of ``jump`` steps."""
    law = _weights(kind, amount)
    half = law.size // 2
    points = factor * np.arange(-half, half + 1) / jump
    size = math.ceil(points[-1]) + 1
    below = np.floor(points)
    found = np.zeros(2 * size + 2)
    for shift, share in ((0, 1 - (points - below)), (1, points - below)):
        found += np.bincount((below + size).astype(np.int64) + shift, law * share, found.size)
    return found[:-1]


def _variance(law: Array) -> float:
    return float(law @ (np.arange(law.size) - law.size // 2) ** 2.0)


def _trimmed(law: Array) -> Array:
    half = law.size // 2
    beyond = int(np.searchsorted(np.cumsum(law[:half]), 1e-19))
    return law[beyond : law.size - beyond]


def _gcd(a: Fraction, b: Fraction) -> Fraction:
    return Fraction(math.gcd(a.numerator * b.denominator, b.numerator * a.denominator), a.denominator * b.denominator)


# --- differences of whole steps ------------------------------------------------------------------------------------


def longest_within(noise: Noise, k: int, view: views.View, tolerance: float) -> list[tuple[int, ...]] | None:
    """Return the vectors of whole steps within a tolerance of which no entry can be longer; None if not defined.

    Where few cells have too many, return those of more steps each: every vector of steps is shorter than one of them.
    """
    if view.law.a + view.law.b != 0 or noise.lattice is None or noise.largest > 64 * noise.lattice:
        return None
    if _variance(noise.weights) > 64**2:
        return None
    length, coarse = tolerance / noise.step, _variance(noise.weights) <= 16 or not _falls(noise.weights)
    most, apart = 128 if coarse and k <= 3 else 24, 1
    squares = math.floor((1 + 1e-9) * length**2)
    vectors = list(itertools.islice(_longest(squares, k), most + 1))
    if len(vectors) > most and coarse and k > 3:
        return [_alike(squares, number, k) for number in (*ITEMS, k) if number <= k]
    while coarse and len(vectors) > most:
        apart *= 2
        squares = math.floor((1 + 1e-9) * (length / apart + math.sqrt(k)) ** 2)
        vectors = list(itertools.islice(_longest(squares, k), most + 1))
    return [tuple(apart * entry for entry in vector) for vector in vectors] if len(vectors) <= most else None


def _longest(squares: int, k: int) -> Iterator[tuple[int, ...]]:
    """Yield descending vectors of k entries, the last one as large as the others leave room for.

    The entries behind the first one are such a vector too, of what it leaves.
    """
    if k == 1:
        yield (math.isqrt(squares),)
        return
    for first in range(math.isqrt(squares), -1, -1):
        if k * first**2 + 2 * first + 1 <= squares:
            return  # no entry is larger than this one, so there is room for a longer one
        yield from ((first, *rest) for rest in _longest(squares - first**2, k - 1) if rest[0] <= first)


def _alike(squares: int, number: int, k: int) -> tuple[int, ...]:
    """Return a vector with this number of entries that are alike, or one longer; the others as long as is left."""
    entry = math.isqrt(squares // number)
    longer = min((squares - number * entry**2) // (2 * entry + 1), number)
    vector = [entry + 1] * longer + [entry] * (number - longer)
    while len(vector) < k:
        vector.append(min(math.isqrt(squares - sum(one**2 for one in vector)), vector[-1]))
    return tuple(vector)


def _falls(weights: Array) -> bool:
    right = weights[weights.size // 2 :]
    return bool((right[1:] <= right[:-1] * (1 + 1e-9)).all())


def _sizes(weights: Array, entry: int) -> Array:
    """Return the law of |n + v|, or of larger ones: P(|n + z| ≥ r) is the largest over all |z| ≤ v, for each r."""
    half = weights.size // 2
    tails = np.zeros(half + entry + 2)
    for z in [entry] if _falls(weights) else range(entry + 1):
        law = np.bincount(np.abs(np.arange(-half, half + 1) + z), weights, tails.size)
        tails = np.maximum(tails, np.cumsum(law[::-1])[::-1])
    return tails[:-1] - tails[1:]


def _tail_of_steps(weights: Array, vector: tuple[int, ...], steps: int) -> float:
    """Return P(Σe_i² ≥ steps) for whole e_i with the laws of the vector's entries, by adding positive numbers."""
    if steps == 0:
        return 1.0
    below, beyond = np.zeros(steps), 0.0  # the law of sums below, and the probability of the others
    below[0] = 1.0
    low, high = 0, 1  # sums are within
    for entry in vector:
        new, law = np.zeros(steps), _sizes(weights, entry)
        sizes = np.flatnonzero(law).tolist()
        for size in sizes:
            inside = min(max(steps - size * size, low), high)  # sums that stay below
            new[low + size * size : inside + size * size] += law[size] * below[low:inside]
            beyond += float(law[size] * below[inside:high].sum())
        below, low, high = new, low + sizes[0] ** 2, min(high + sizes[-1] ** 2, steps)
        if low >= steps:
            return beyond
    return beyond


# --- signals ------------------------------------------------------------------------------------------------------


def _nothing() -> Signal:
    return np.zeros(1), np.ones(1)


def _one(size: float) -> Signal:
    return np.full(1, size), np.ones(1)


def _normal(deviation: float, excess: float) -> Signal:
    """Return a normal variable; with an excess, of one of two variances."""
    nodes = 8 * (np.arange(_NODES) + 0.5) / _NODES
    chances = np.exp(-(nodes**2) / 2)
    chances /= chances.sum()
    if excess < 1e-9:
        return deviation * nodes, chances
    root = math.sqrt(excess)
    mixed = (
        [(1 - root, 0.5), (1 + root, 0.5)]
        if excess < 1
        else [(0, excess / (1 + excess)), (1 + excess, 1 / (1 + excess))]
    )
    sizes = [deviation * math.sqrt(factor) * nodes for factor, _ in mixed]
    return np.concatenate(sizes), np.concatenate([chance * chances for _, chance in mixed])


def _walk(hits: int, size: float) -> Signal:
    """Return the sum of so many random signs, times a size."""
    chances = np.array([math.comb(hits, up) for up in range(hits + 1)]) / 2**hits
    return size * np.arange(-hits, hits + 1, 2.0), chances


def _scattered(items: int, size: float, chance: float) -> Signal:
    """Return the sum of items that are in a cell with this chance each."""
    walks = [_walk(hits, size) for hits in range(items + 1)]
    hit = [math.comb(items, hits) * chance**hits * (1 - chance) ** (items - hits) for hits in range(items + 1)]
    return np.concatenate([walk[0] for walk in walks]), np.concatenate(
        [p * w[1] for p, w in zip(hit, walks, strict=True)]
    )


# --- sums of squares ----------------------------------------------------------------------------------------------


def _tail_on_lattice(weights: Array, k: int, steps: int) -> float:
    """Return P(Σ n_i² ≥ steps), by adding up positive numbers alone: valid far out."""
    half = weights.size // 2
    folded = np.concatenate([weights[half : half + 1], 2 * weights[half + 1 :]])
    law, beyond = np.zeros(max(steps, 1)), 0.0  # of sums below, and the probability of the others
    law[0] = 1.0
    if steps == 0:
        return 1.0
    upper = np.cumsum(folded[::-1])[::-1]
    for _ in range(k):
        new = np.zeros(steps)
        least = np.ceil(np.sqrt(np.maximum(steps - np.arange(steps), 0))).astype(np.int64)  # n with sum + n² ≥ steps
        beyond += float(law @ np.where(least < folded.size, upper[np.minimum(least, folded.size - 1)], 0.0))
        for n, chance in enumerate(folded[: math.isqrt(steps - 1) + 1]):
            new[n * n :] += chance * law[: steps - n * n]
        law = new
    return beyond


def _squares(noise: Noise, signal: Signal, step: float, size: int) -> Array:
    """Return the law of (η + s)², on a grid; what is beyond it is left out."""
    points = ((noise.points[:, None] + signal[0]) ** 2).ravel() / step
    weights = (noise.weights[:, None] * signal[1]).ravel()
    below = np.floor(points).astype(np.int64)
    kept = below < size - 1
    points, weights, below = points[kept], weights[kept], below[kept]
    found = np.zeros(size)
    for shift, share in ((0, 1 - (points - below)), (1, points - below)):
        found += np.bincount(below + shift, weights * share, size)
    return found


def _step(noise: Noise, signals: Sequence[Signal]) -> float:
    deviations = []
    for sizes, chances in signals:
        points, weights = (noise.points[:, None] + sizes) ** 2, noise.weights[:, None] * chances
        mean = float((points * weights).sum())
        deviations.append(math.sqrt(max(float((points**2 * weights).sum()) - mean**2, 0.0)))
    return max(deviations[0], max(deviations) / 10) / _FINE


def _law_below(
    noise: Noise, signals: Sequence[Signal], counts: Sequence[int], step: float, size: int,
    hits: tuple[int, int, int] | None = None,
) -> Array:  # fmt: skip
    """Return the law of T' on a grid, up to its ``size``."""
    whole = 1 << math.ceil(math.log2(4 * size))
    damping = _DAMPED ** (np.arange(size) / whole)
    transforms = [np.fft.rfft(_squares(noise, one, step, size) * damping, whole) for one in signals]
    if hits is None:
        product = np.prod([transform**count for transform, count in zip(transforms, counts, strict=True)], axis=0)
    else:
        items, blocks, cells = hits
        product = _block(transforms, items, cells) ** blocks * transforms[0] ** (counts[0] - blocks * cells)
    return np.fft.irfft(product, whole)[:size] / damping


def _block(transforms: Sequence[NDArray[np.complex128]], items: int, cells: int) -> NDArray[np.complex128]:
    """Return the mean of the product over the cells of a block, among which items fall at random.

    It is m!·B^-m times the coefficient of x^m in (Σ c_j x^j / j!)^B.
    """
    series = [transform / math.factorial(hits) for hits, transform in enumerate(transforms)]
    series += [np.zeros_like(series[0])] * (items + 1 - len(series))
    found = [np.ones_like(series[0])] + [np.zeros_like(series[0])] * items
    power, left = series, cells
    while left:
        if left & 1:
            found = _times(found, power)
        power, left = _times(power, power), left >> 1
    return found[items] * math.factorial(items) / float(cells) ** items


def _times(a: Sequence[NDArray[np.complex128]], b: Sequence[NDArray[np.complex128]]) -> list[NDArray[np.complex128]]:
    return [sum((a[i] * b[n - i] for i in range(n + 1)), np.zeros_like(a[0])) for n in range(len(a))]


def _tail(
    noise: Noise,
    signals: Sequence[Signal],
    counts: Sequence[int],
    value: float,
    hits: tuple[int, int, int] | None = None,
) -> float:
    """Return P(T' ≥ value)."""
    step = _step(noise, signals)
    size = math.ceil(value / step) + 2
    law = _law_below(noise, signals, counts, step, size, hits)
    shares = np.clip(min(value / step + 0.5, 2 * value / step) - np.arange(size), 0, 1)  # no square is less than 0
    return 1 - float(law @ shares)


def _stretched(noise: Noise, n: int, tolerance: float, freedom: float, value: float) -> float:
    """Return P(L·G ≥ value), L = Σ(η_j + t/√n)² and G of a Gamma law of mean 1."""
    signal = _one(tolerance / math.sqrt(n))
    squares = (noise.points + signal[0]) ** 2
    mean = float(noise.weights @ squares)
    deviation = math.sqrt(float(noise.weights @ squares**2) - mean**2)
    step = deviation / _FINE
    size = math.ceil((n * mean + 40 * math.sqrt(n) * deviation) / step)
    law = _law_below(noise, [signal], [n], step, size)
    lengths = step * np.arange(size)
    return float(
        sum(
            p * (1 - lower_gamma(freedom / 2, freedom / 2 * value / length))
            for p, length in zip(law, lengths, strict=True)
            if length > 0 and p > 1e-14
        )
    )
