"""Joint estimates of all pairs, from WIRE.md alone: in lists of doubles, every matrix written out.

The step of the model is a sum over scales and cells, and eigenvalues are found by Jacobi's rotations: nothing is shared
with the library but the text. Each pair's own estimate is that of ``estimates.py``.
"""

import functools
import itertools
import math
import operator
import statistics
from collections.abc import Callable
from fractions import Fraction
from statistics import NormalDist
from typing import NamedTuple, TypeAlias

from tests.golden import estimates, interval_ends, views
from tests.golden.exact_numbers import Expected
from tests.golden.reader import cells_of
from tests.golden.views import Message

Matrix = list[list[float]]
Rows: TypeAlias = tuple[tuple[float, ...], ...]
"""The cells of all streams, cell by cell."""

WITHIN = 1e-7
"""How far off cosines may be, and other values and standard errors over their size."""
EDGE = 1e-6
"""How far apart the log-likelihoods of two choices are in a case of the kit."""

STRENGTHS = {"common": (300, 100, 30, 0), "lag": (300, 100, 30)}
_USUAL = 1.959964


class AmbiguousError(Exception):
    """Readers may choose either of two fits."""


class Joint(NamedTuple):
    """Joint estimates of n releases."""

    target: str
    strength: int
    weight: float
    value: Matrix
    projection_variance: Matrix
    noise_variance: Matrix
    low: Matrix
    high: Matrix
    """Ends of 95 % intervals; infinite where there are none."""


# --- matrices -----------------------------------------------------------------------------------------------------


def square(n: int, entry: Callable[[int, int], float]) -> Matrix:
    """Return a matrix by its entries."""
    return [[entry(i, j) for j in range(n)] for i in range(n)]


def axes_of(matrix: Matrix) -> tuple[list[float], Matrix]:
    """Return eigenvalues, and eigenvectors as columns, by Jacobi's rotations."""
    n = len(matrix)
    a = [row[:] for row in matrix]
    vectors = square(n, lambda i, j: float(i == j))
    rows, columns = (*a, *vectors), range(n)
    for _ in range(30):
        size = math.fsum(a[i][i] ** 2 for i in columns)
        if math.fsum(a[i][j] ** 2 for i in columns for j in range(i)) <= 1e-34 * size:
            break
        for p in columns:
            first = a[p]
            for q in range(p + 1, n):
                if first[q] == 0:
                    continue
                second = a[q]
                theta = (second[q] - first[p]) / (2 * first[q])
                t = math.copysign(1, theta) / (abs(theta) + math.sqrt(theta * theta + 1))
                c = 1 / math.sqrt(t * t + 1)
                s = t * c
                for row in rows:
                    x, y = row[p], row[q]
                    row[p], row[q] = c * x - s * y, s * x + c * y
                for i in columns:
                    x, y = first[i], second[i]
                    first[i], second[i] = c * x - s * y, s * x + c * y
    return [a[i][i] for i in range(n)], vectors


def rebuilt(values: list[float], vectors: Matrix) -> Matrix:
    """Return V diag(values) Vᵀ."""
    n = len(values)
    return square(n, lambda i, j: sum(vectors[i][a] * values[a] * vectors[j][a] for a in range(n)))


def times(first: Matrix, second: Matrix) -> Matrix:
    """Return the product of two matrices."""
    n = len(first)
    return square(n, lambda i, j: sum(first[i][a] * second[a][j] for a in range(n)))


def to_trace(matrix: Matrix) -> Matrix:
    """Return a multiple of trace n."""
    n = len(matrix)
    trace = sum(matrix[a][a] for a in range(n))
    return square(n, lambda i, j: matrix[i][j] * n / trace)


def clip(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


def cosines_of(matrix: Matrix) -> Matrix:
    """Return the cosines of a matrix of inner products."""
    n = len(matrix)
    lengths = [math.sqrt(max(matrix[a][a], 1e-6)) for a in range(n)]
    return square(n, lambda i, j: 1.0 if i == j else clip(matrix[i][j] / (lengths[i] * lengths[j]), -1, 1))


# --- the model ----------------------------------------------------------------------------------------------------


class Fit(NamedTuple):
    shape: Matrix
    scales: list[float]
    chances: list[float]


def start_of(rows: Rows) -> Fit:
    k, n = len(rows), len(rows[0])
    values, vectors = axes_of(square(n, lambda a, b: sum(r[a] * r[b] for r in rows) / k - (a == b)))
    least = 2e-3 * max(*values, 0.01)
    most = max(1.5 * max(sum(x * x for x in r) / n for r in rows), 1.0)
    scales = [0.0] + [3e-3 * (most / 3e-3) ** (j / 15) for j in range(16)]
    return Fit(to_trace(rebuilt([max(value, least) for value in values], vectors)), scales, [1 / 17] * 17)


class Axes(NamedTuple):
    """What all cells have in common in the axes of S."""

    values: list[float]
    vectors: Matrix
    spreads: Matrix
    """The variances tλ + 1, of each scale."""
    logs: list[float]
    """ln p less half the sum of their logarithms, of each scale."""


def axes_of_fit(fit: Fit) -> Axes:
    values, vectors = axes_of(fit.shape)
    values = [max(value, 1e-6) for value in values]
    spreads = [[t * value + 1 for value in values] for t in fit.scales]
    halves = [sum(math.log(one) for one in row) / 2 for row in spreads]
    return Axes(
        values, vectors, spreads, [math.log(p + 1e-300) - half for p, half in zip(fit.chances, halves, strict=True)]
    )


def densities(row: list[float], axes: Axes) -> list[float]:
    """Return the log of p times the density of a cell in the axes of S, of each scale."""
    squares = [y * y for y in row]
    return [
        log - sum(map(operator.truediv, squares, spread)) / 2
        for log, spread in zip(axes.logs, axes.spreads, strict=True)
    ]


def shares_of(row: list[float], axes: Axes) -> list[float]:
    logs = densities(row, axes)
    most = max(logs)
    sizes = [math.exp(one - most) for one in logs]
    total = sum(sizes)
    return [one / total for one in sizes]


def turned(rows: Rows, vectors: Matrix) -> Matrix:
    columns = [*zip(*vectors, strict=True)]
    return [[sum(map(operator.mul, r, column)) for column in columns] for r in rows]


def step(rows: Rows, fit: Fit, target: str, strength: float) -> Fit:
    k, n = len(rows), len(rows[0])
    axes = axes_of_fit(fit)
    values, vectors = axes.values, axes.vectors
    of_rows = turned(rows, vectors)
    shares = [shares_of(row, axes) for row in of_rows]
    numbers = [sum(q[j] for q in shares) for j in range(17)]
    moments = [[0.0] * n for _ in range(n)]
    kept = [[t * (value / (t * value + 1)) ** 2 for t in fit.scales] for value in values]  # 0 of the first scale
    for row, q in zip(of_rows, shares, strict=True):
        w = [math.sqrt(sum(map(operator.mul, q, kept[a]))) * row[a] for a in range(n)]
        for a in range(n):
            for b in range(n):
                moments[a][b] += w[a] * w[b]
    for a in range(n):
        moments[a][a] += sum(numbers[j] * values[a] / (fit.scales[j] * values[a] + 1) for j in range(1, 17))
    weight = sum(numbers[1:])
    half = times(vectors, moments)
    moved = square(n, lambda i, j: sum(map(operator.mul, half[i], vectors[j])) / max(weight, 1e-300))
    if strength:
        wanted = target_of(cosines_of(moved), target)
        d = [math.sqrt(moved[a][a]) for a in range(n)]
        moved = square(
            n, lambda i, j: (weight * moved[i][j] + strength * d[i] * d[j] * wanted[i][j]) / (weight + strength)
        )
    moved, old = to_trace(moved), rebuilt(values, vectors)
    longer = square(n, lambda i, j: old[i][j] + 1.8 * (moved[i][j] - old[i][j]))
    return Fit(
        square(n, lambda i, j: (longer[i][j] + longer[j][i]) / 2), fit.scales, [number / k for number in numbers]
    )


def target_of(cosines: Matrix, target: str) -> Matrix:
    n = len(cosines)
    if target == "common":
        common = sum(cosines[i][j] for i in range(n) for j in range(i)) / (n * (n - 1) / 2)
        return square(n, lambda i, j: 1.0 if i == j else common)
    means = [sum(cosines[i][i + lag] for i in range(n - lag)) / (n - lag) for lag in range(n)]
    return square(n, lambda i, j: 1.0 if i == j else means[abs(i - j)])


def likelihood(rows: Rows, fit: Fit) -> float:
    axes = axes_of_fit(fit)
    total = 0.0
    for row in turned(rows, axes.vectors):
        logs = densities(row, axes)
        most = max(logs)
        total += most + math.log(sum(math.exp(one - most) for one in logs))
    return total


@functools.cache  # cases of the kit that differ in the measure, or in the order, have paths in common
def path(rows: Rows, target: str, strengths: tuple[float, ...]) -> list[Fit]:
    fit, fits = start_of(rows), []
    for place, strength in enumerate(strengths):
        for _ in range(12 if place else 24):
            fit = step(rows, fit, target, strength)
        fits.append(fit)
    return fits


def chosen(rows: Rows, *, in_time: bool) -> tuple[str, int, Matrix, tuple[Matrix, Matrix]]:
    """Return target, strength, the model's cosines from all cells, and those from each fold."""
    folds = rows[::2], rows[1::2]
    scored: list[tuple[float, str, int, Fit, Fit]] = []
    for target, strengths in STRENGTHS.items():
        if target == "lag" and not (in_time and len(rows[0]) >= 4):
            continue
        first, second = (path(fold, target, tuple(strength / 2 for strength in strengths)) for fold in folds)
        for strength, one, other in zip(strengths, first, second, strict=True):
            scored.append((likelihood(folds[1], one) + likelihood(folds[0], other), target, strength, one, other))
    scored.sort(key=lambda entry: -entry[0])
    if scored[0][0] - scored[1][0] < EDGE:
        raise AmbiguousError
    _, target, strength, one, other = scored[0]
    strengths = STRENGTHS[target]
    *_, whole = path(rows, target, tuple(float(nu) for nu in strengths[: strengths.index(strength) + 1]))
    return target, strength, cosines_of(whole.shape), (cosines_of(one.shape), cosines_of(other.shape))


# --- combination --------------------------------------------------------------------------------------------------


class Stream(NamedTuple):
    cells: list[float]
    """In data units."""
    k2: float
    k4: float
    norm: float
    floor: float
    """2·√(k·(K4 + 2·K2²)), the norm that a stream is hidden up to."""


def stream_of(message: Message) -> Stream:
    view = views.view_of(message)
    unit = math.copysign(math.sqrt(view.factor), message["multiplier"]) * abs(float(message["multiplier"]))
    k2, k4 = float(view.k2.value), float(view.k4.value)
    norm = float(estimates.plain_norm(view).value)
    cells = [unit * cell for cell in cells_of(message)]
    return Stream(cells, k2, k4, norm, 2 * math.sqrt(max(len(cells) * (k4 + 2 * k2**2), 0.0)))


def joint(messages: list[Message], by: str, *, in_time: bool) -> Joint:
    """Estimate all pairs together, by cosine, squared_distance or inner_product."""
    streams = [stream_of(message) for message in messages]
    n, k = len(streams), len(streams[0].cells)
    sizes = []
    for stream in streams:
        noise = max(stream.k2, 1e-4 * sum(cell * cell for cell in stream.cells) / k)
        sizes.append(1 / math.sqrt(noise if noise > 0 else 1.0))
    rows = tuple(tuple(size * stream.cells[i] for size, stream in zip(sizes, streams, strict=True)) for i in range(k))
    target, strength, whole, halves = chosen(rows, in_time=in_time)
    known = [stream.norm > stream.floor for stream in streams]
    both = [[known[i] and known[j] for j in range(n)] for i in range(n)]
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    own: dict[tuple[int, int], Expected] = {
        (i, j): estimates.cosine(messages[i], messages[j]) for i, j in pairs if both[i][j]
    }
    of_map, of_noise, value = {}, {}, {}
    law = views.view_of(messages[0]).law
    alpha = float(law.a + max(law.c, Fraction(0)) / 2)
    mean, mean_square = (sum(whole[i][j] ** power for i, j in pairs) / len(pairs) for power in (1, 2))
    likeness = (1 - 1 / len(pairs)) * (mean**2 / max(mean_square, 1e-12)) ** 2
    laws: dict[tuple[int, int], tuple[float, float]] = {}
    for i, j in pairs:
        if not both[i][j]:
            value[i, j] = likeness * whole[i][j]
            continue
        value[i, j] = clip(float(own[i, j].value), -1, 1)
        level, growth = laws[i, j] = law_of(streams[i], streams[j])
        of_map[i, j] = alpha * (1 - value[i, j] ** 2) ** 2
        of_noise[i, j] = max(level + growth * value[i, j] ** 2, 0.0)
    bias, common = model_error(streams, (whole, halves), value, of_map, of_noise)
    weights, mixed, variance = {}, square(n, lambda i, j: float(i == j)), {}
    for i, j in pairs:
        if not both[i][j]:
            weights[i, j] = 1.0
            mixed[i][j] = mixed[j][i] = clip(value[i, j], -1, 1)
            continue
        noise = of_noise[i, j]
        weight = weight_of(value[i, j], noise, bias, common) if n > 2 else 0.0
        r = clip(float(own[i, j].value), -1 - math.sqrt(noise), 1 + math.sqrt(noise))
        ends = interval_ends.interval(own[i, j], 0.95, "normal")
        moved = clip(r + weight * (whole[i][j] - r), -1, 1)
        mixed[i][j] = mixed[j][i] = clip(moved, float(ends.low), float(ends.high))
        weights[i, j] = weight
        variance[i, j] = of_map[i, j] + (1 - weight * (1 - common)) ** 2 * noise + weight**2 * bias
    noisy = any(stream.k2 > 0 for stream in streams)
    weight = sum(weights.values()) / len(pairs) if noisy else 0.0
    cosines = nearest(mixed, [not one for one in known])
    before = {pair: of_map[pair] + of_noise[pair] for pair in of_map}
    made = _all_pairs(messages, streams, by, cosines, own, (before, variance), (alpha, laws))
    if by != "cosine":
        made = fitting(made, [max(stream.norm, 0.0) for stream in streams], [1 / size for size in sizes], by)
    made = [[(value, a, b, min(low, value), max(high, value)) for value, a, b, low, high in row] for row in made]
    parts = ([[one[part] for one in row] for row in made] for part in range(5))
    return Joint(target, strength, weight, *parts)


def weight_of(cosine: float, noise: float, bias: float, common: float) -> float:
    """Return w of a pair."""
    if noise <= 0 or common >= 1:
        return 0.0
    best = min((1 - common) * noise / ((1 - common) ** 2 * noise + bias), 1)
    limit = max(1 - 2 * bias / (math.pi * (1 - common) ** 2 * noise), 0)
    likelihood = math.exp(-((1 - abs(cosine)) ** 2) / (2 * noise))
    return (1 - likelihood) * best + likelihood * min(best, limit)


def norm_variance(stream: Stream) -> float:
    """Return the noise's variance of a squared norm."""
    return max(4 * stream.k2 * stream.norm + len(stream.cells) * (stream.k4 + 2 * stream.k2**2), 0.0)


def law_of(x: Stream, y: Stream) -> tuple[float, float]:
    """Return A and B of the noise's variance A + ρ²B of a cosine."""
    k = len(x.cells)
    s, t = (one.k2 / one.norm for one in (x, y))
    first, second = (norm_variance(one) / one.norm**2 for one in (x, y))
    return s + t + k * s * t, (first + second) / 4 - 2 * (s + t)


def model_error(
    streams: list[Stream],
    fits: tuple[Matrix, tuple[Matrix, Matrix]],
    value: dict[tuple[int, int], float],
    of_map: dict[tuple[int, int], float],
    of_noise: dict[tuple[int, int], float],
) -> tuple[float, float]:
    """Return b² and g."""
    whole, halves = fits
    k = len(streams[0].cells)
    held = [[stream.cells[fold::2] for stream in streams] for fold in (0, 1)]
    share = [k / len(cells[0]) for cells in held]
    norms = [
        [
            share[fold] * sum(c * c for c in cells) - k * stream.k2
            for cells, stream in zip(held[fold], streams, strict=True)
        ]
        for fold in (0, 1)
    ]
    sure = [
        all(norms[fold][a] > 1.5 * math.sqrt(2) * stream.floor for fold in (0, 1)) for a, stream in enumerate(streams)
    ]
    some = [(i, j) for i, j in of_map if sure[i] and sure[j]]
    if not some:
        return (sum(of_map[pair] + of_noise[pair] for pair in of_map) / len(of_map) if of_map else 0.0), 0.0
    map_part, noise_part = (sum(part[pair] for pair in some) / len(some) for part in (of_map, of_noise))
    if noise_part == 0:
        return 0.0, 0.0
    beta = delta = 0.0
    for i, j in some:
        first, second = (
            clip(
                share[fold]
                * sum(x * y for x, y in zip(held[fold][i], held[fold][j], strict=True))
                / math.sqrt(norms[fold][i] * norms[fold][j]),
                -1,
                1,
            )
            for fold in (0, 1)
        )
        model = halves[0][i][j], halves[1][i][j]
        beta += ((model[0] - second) ** 2 + (model[1] - first) ** 2 - (first - second) ** 2) / 2 / len(some)
        delta += (whole[i][j] - value[i, j]) ** 2 / len(some)
    both = map_part + noise_part
    g = clip((both + beta - delta) / 2 - map_part, 0.0, noise_part) / noise_part
    number = min(3 * len(streams), len(some))
    plain = (number * max(beta - map_part, 0.0) + 12 * both) / (number + 12)
    return max(plain - g * g * noise_part, 0.0, delta - (1 - g) ** 2 * noise_part), g


def nearest(cosines: Matrix, hidden: list[bool]) -> Matrix:
    n = len(cosines)
    kept = [not one for one in hidden] if any(hidden) and not all(hidden) else [False] * n
    places = [a for a in range(n) if kept[a]]
    if places:
        part = nearest([[cosines[i][j] for j in places] for i in places], [False] * len(places))
        cosines = [row[:] for row in cosines]
        for a, i in enumerate(places):
            for b, j in enumerate(places):
                cosines[i][j] = part[a][b]
    if is_positive(cosines):
        return cosines
    projected, correction = cosines, [[0.0] * n for _ in range(n)]
    for _ in range(24):
        moved = square(n, lambda i, j, p=projected, c=correction: p[i][j] - c[i][j])  # type: ignore[misc]
        positive = cut(moved)
        correction = square(n, lambda i, j, p=positive, m=moved: p[i][j] - m[i][j])  # type: ignore[misc]
        projected = square(
            n,
            lambda i, j, p=positive: cosines[i][j] if i == j or (kept[i] and kept[j]) else p[i][j],  # type: ignore[misc]
        )
    return cosines_of(cut(projected))


def cut(matrix: Matrix) -> Matrix:
    values, vectors = axes_of(matrix)
    return rebuilt([max(value, 0.0) for value in values], vectors)


Parts: TypeAlias = tuple[float, float, float, float, float]
"""Value, both variances, and the ends of an interval."""


def fitting(made: list[list[Parts]], norms: list[float], noises: list[float], by: str) -> list[list[Parts]]:
    """Return the estimates with values that vectors can have."""
    places, loudest = range(len(made)), max(noises)
    units = [max(noise, loudest / 10) for noise in noises]
    values = square(len(made), lambda i, j: made[i][j][0] if i != j else norms[i] * (by == "inner_product"))
    scaled = square(len(made), lambda i, j: values[i][j] / (units[i] * units[j]))
    found = nearest_products(scaled) if by == "inner_product" else nearest_distances(scaled, units)
    if found is None:
        return made
    return [[(found[i][j] * units[i] * units[j], *made[i][j][1:]) for j in places] for i in places]


def nearest_products(scaled: Matrix) -> Matrix | None:
    """Return the nearest positive semidefinite matrix, None if it is one."""
    return None if is_positive(scaled) else cut(scaled)


def nearest_distances(scaled: Matrix, units: list[float]) -> Matrix | None:
    """Return squared distances of points near these, over the units of both, None if they are of points."""
    n, length = len(scaled), sum(1 / unit**2 for unit in units)
    centre = square(n, lambda i, j: float(i == j) - 1 / (units[i] * units[j] * length))

    def beyond(matrix: Matrix) -> Matrix:
        return times(times(centre, matrix), centre)

    def project(matrix: Matrix) -> Matrix:
        taken = cut(beyond(matrix))
        return square(n, lambda i, j: matrix[i][j] - taken[i][j])

    if is_positive([[-entry for entry in row] for row in beyond(scaled)]):
        return None
    projected, correction = scaled, [[0.0] * n for _ in range(n)]
    for _ in range(24):
        moved = square(n, lambda i, j, p=projected, c=correction: p[i][j] - c[i][j])  # type: ignore[misc]
        inside = project(moved)
        correction = square(n, lambda i, j, p=inside, m=moved: p[i][j] - m[i][j])  # type: ignore[misc]
        projected = square(n, lambda i, j, p=inside: 0.0 if i == j else p[i][j])  # type: ignore[misc]
    last = project(projected)

    def distance(i: int, j: int) -> float:
        own = (last[i][i] * units[i] ** 2 + last[j][j] * units[j] ** 2) / 2
        return max(last[i][j] - own / (units[i] * units[j]), 0.0) if i != j else 0.0

    return square(n, distance)


def is_positive(matrix: Matrix) -> bool:
    return min(axes_of(matrix)[0]) >= -1e-12 * sum(row[i] for i, row in enumerate(matrix))


def _all_pairs(
    messages: list[Message],
    streams: list[Stream],
    by: str,
    cosines: Matrix,
    own: dict[tuple[int, int], Expected],
    variances: tuple[dict[tuple[int, int], float], dict[tuple[int, int], float]],
    laws: tuple[float, dict[tuple[int, int], tuple[float, float]]],
) -> list[list[Parts]]:
    """Return the parts of all estimates; streams that are unlike the others keep their pairs' own."""
    places, (before, after) = range(len(messages)), variances
    estimate = {"squared_distance": estimates.squared_distance, "inner_product": estimates.inner_product}
    singles = {}
    for pair in itertools.combinations(places, 2):
        single = own.get(pair) if by == "cosine" else estimate[by](*(messages[a] for a in pair))
        singles[pair] = single, _ends(by, single, laws[0], laws[1].get(pair))

    def made(unlike: set[int]) -> list[list[Parts]]:
        followed = {pair: of for pair, of in before.items() if by == "cosine" or not unlike & set(pair)}
        found = [[(0.0,) * 5 for _ in places] for _ in places]
        for (i, j), single in singles.items():
            parts = (own, (followed, after), laws[0])
            found[i][j] = found[j][i] = _pair(streams, by, (i, j), cosines[i][j], single, *parts)
        return found

    joint, alone, unlike = made(set()), made(set(places)), set()
    for i in places:
        pairs = [(joint[i][j][0] - alone[i][j][0], alone[i][j][2]) for j in places if j != i]
        if by != "cosine" and statistics.median(gap**2 / noise if noise else 0.0 for gap, noise in pairs) > 1:
            unlike.add(i)
    return made(unlike)


def _ends(by: str, alone: Expected | None, alpha: float, law: tuple[float, float] | None) -> tuple[float, float]:
    """Return the ends of a pair's own 95 % interval."""
    if alone is None:
        return -1.0, 1.0
    found = interval_ends.interval(alone, 0.95, "normal")
    ends = float(found.low), float(found.high)
    if by != "cosine" or law is None:
        return ends
    return within(ends, clip(float(alone.value), -1, 1), alpha, law)


def _pair(
    streams: list[Stream],
    by: str,
    pair: tuple[int, int],
    cosine: float,
    single: tuple[Expected | None, tuple[float, float]],
    own: dict[tuple[int, int], Expected],
    variances: tuple[dict[tuple[int, int], float], dict[tuple[int, int], float]],
    alpha: float,
) -> Parts:
    """Return value, both variances, and the ends of the pair's own 95 % interval."""
    (before, after), (alone, ends) = variances, single
    x, y = (max(streams[a].norm, 0.0) for a in pair)
    if alone is None or by == "cosine":
        value, variance = cosine, after.get(pair, 1 / _USUAL**2)
    else:
        distance = by == "squared_distance"
        factor, lowest = (2 if distance else 1) * math.sqrt(x * y), 0.0 if distance else -math.inf
        value, variance = max(float(alone.value), lowest), _variance(alone)
        if pair in before:
            ratios = [cosine * math.sqrt(b / a) for a, b in ((x, y), (y, x))]
            slopes = [1 - ratio if distance else ratio / 2 for ratio in ratios]
            noise = factor**2 * (after[pair] - alpha * (1 - clip(float(own[pair].value), -1, 1) ** 2) ** 2)
            noise += sum(slope**2 * norm_variance(streams[a]) for slope, a in zip(slopes, pair, strict=True))
            if noise < float(alone.noise_variance):
                value = max(x + y - factor * cosine, 0.0) if distance else factor * cosine
                less = factor**2 * (before[pair] - after[pair])
                variance = max(variance - less, min(factor**2 * after[pair], variance))
    whole = _variance(alone)
    share = float(alone.projection_variance) / whole if alone is not None and whole else 0.0
    return value, share * variance, (1 - share) * variance, *ends


def _variance(alone: Expected | None) -> float:
    return 0.0 if alone is None else float(alone.projection_variance) + float(alone.noise_variance)


def within(ends: tuple[float, float], cosine: float, alpha: float, law: tuple[float, float]) -> tuple[float, float]:
    """Return an interval without the cosines that the own one contradicts."""
    z = NormalDist().inv_cdf(0.975)
    if 2 * z * math.sqrt(alpha) >= 1:
        return ends
    z *= 1.05

    def holds(c: float) -> bool:
        return abs(cosine - c) <= z * math.sqrt(alpha * (1 - c * c) ** 2 + max(law[0] + law[1] * c * c, 0.0))

    found: list[float] = []
    for end in (-1.0, 1.0):
        inner, outer = cosine, end
        for _ in range(40):
            middle = (inner + outer) / 2
            inner, outer = (middle, outer) if holds(middle) else (inner, middle)
        found.append(end if holds(end) else outer)
    return max(ends[0], found[0]), min(ends[1], found[1])
