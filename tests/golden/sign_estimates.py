"""Hamming distances, angles and cosines of published signs, written from WIRE.md alone, in double precision.

Where entries are other than ±1 and 0, all columns are looked at, one by one: for maps of few dimensions only.
"""

import bisect
import functools
import itertools
import json
import math
import operator
from array import array
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from tests.golden import laws
from tests.golden import local_numbers as numbers
from tests.golden.exact_numbers import Expected, UndefinedError
from tests.golden.views import Message
from tests.oracles import naive_maps

CONSTANT = 2.0**-40  # tolerances, see WIRE.md
CURVE = 2.0**-34
PLACES = [i / 16 for i in range(-96, 97)]
ANGLES = 129


def hamming(x: Message, y: Message) -> int:
    """Return in how many cells two releases differ."""
    return sum((one ^ other).bit_count() for one, other in zip(x["signs"], y["signs"], strict=True))


class _Interval:
    """Wilson's interval of a mean of k products, as angles or cosines."""

    def __init__(
        self, mean: float, k: int, most: float, angle_of: Callable[[float], float], *, is_cosine: bool
    ) -> None:
        self.mean, self.k, self.most = min(max(mean, -most), most), k, most
        self.angle_of, self.is_cosine = angle_of, is_cosine

    def __call__(self, z: float) -> tuple[float, float, float]:
        """Return both ends, and how far readers may be off."""
        share = z * z / self.k
        root = math.sqrt(share * (1 - self.mean**2 + share))
        ends = [(self.mean - sign * root) / (1 + share) for sign in (-1, 1)]
        low, high = (self.angle_of(end) for end in ends)
        off = max(
            abs(self.angle_of(end + s * 2.0**-34 / self.most) - self.angle_of(end)) for end in ends for s in (-1, 1)
        )
        found = (math.cos(high), math.cos(low)) if self.is_cosine else (low, high)
        return (*found, off + 2.0**-40)


def angle(x: Message, y: Message, norms: tuple[float, float] | None = None) -> Expected:
    """Estimate the angle in radians."""
    k, mean = _agreeing(x, y)
    kept = _constant(x) * _constant(y)
    if kept > 0:
        return _constant_angle(mean, k, kept)
    return _curve_angle(mean, k, _curve_of(x, y, norms))


def cosine(x: Message, y: Message, norms: tuple[float, float] | None = None) -> Expected:
    """Estimate the cosine."""
    k, mean = _agreeing(x, y)
    kept = _constant(x) * _constant(y)
    if kept > 0:
        if math.pi / (2 * kept * math.sqrt(k)) > math.pi / 2:
            raise UndefinedError
        theta = _constant_angle(mean, k, kept)
        v = theta.projection_variance + theta.noise_variance
        value = math.exp(v / 2) * math.cos(theta.value)
        variance = math.exp(v) * -math.expm1(-v) * (1 - math.exp(-v) * math.cos(2 * theta.value)) / 2
        share = theta.projection_variance / v if v else 1.0
        found = Expected(value, share * variance, variance - share * variance, -1.0, 1.0, theta.tolerances)
        return found._replace(of_signs=_of_constant(mean, k, kept, is_cosine=True))
    return _curve_cosine(mean, k, _curve_of(x, y, norms))


def _agreeing(x: Message, y: Message) -> tuple[int, float]:
    assert x["release_id"] != y["release_id"], "one release"
    k = x["projection"]["sketch_dim"]
    return k, 1 - 2 * hamming(x, y) / k


def json_of(fields: Message) -> str:
    """Return a projection's JSON."""
    ratios = {
        name: f"{value.numerator}/{value.denominator}" for name, value in fields.items() if isinstance(value, Fraction)
    }
    return json.dumps(fields | ratios, sort_keys=True, separators=(",", ":"))


def _inside(theta: float, k: int) -> float:
    return min(max(theta, math.pi / (2 * k)), math.pi - math.pi / (2 * k))


def _constant(message: Message) -> float:
    if message.get("law", {}).get("shape") == "constant":
        return math.tanh(float(message["law"]["rate"]) / 2)
    return 0.0


def _constant_angle(mean: float, k: int, kept: float) -> Expected:
    value = math.pi / 2 * (1 - mean / kept)
    inside = _inside(value, k)
    variance = (math.pi**2 / 4 / kept**2 - (math.pi / 2 - inside) ** 2) / k
    plain = min(inside * (math.pi - inside) / k, variance)
    found = Expected(value, plain, variance - plain, 0.0, math.pi, (CONSTANT * (1 + 1 / kept**2),) * 3)
    return found._replace(of_signs=_of_constant(mean, k, kept, is_cosine=False))


def _of_constant(mean: float, k: int, kept: float, *, is_cosine: bool) -> _Interval:
    def angle_of(at: float) -> float:
        return min(max(math.pi / 2 * (1 - at / kept), 0.0), math.pi)

    return _Interval(mean, k, kept, angle_of, is_cosine=is_cosine)


# --- laws that depend on the cells --------------------------------------------------------------------------------


class Curve(NamedTuple):
    """C(θ), falling, at angles from 0 to π."""

    angles: list[float]
    means: list[float]

    def angle(self, mean: float) -> float:
        """Return the angle with this C, by straight lines."""
        rising = self.means[::-1]
        if mean <= rising[0]:
            return math.pi
        if mean >= rising[-1]:
            return 0.0
        at = bisect.bisect_right(rising, mean)
        low, high = self.angles[-at], self.angles[-1 - at]
        return low + (high - low) * (mean - rising[at - 1]) / (rising[at] - rising[at - 1])

    def cosine(self, mean: float, reach: float) -> float:
        """Return the cosine with this C, beyond ±1 along a chord."""
        most = self.means[0]
        beyond = abs(mean) - most
        if beyond <= 0:
            return math.cos(self.angle(mean))
        reach = min(reach, 2 * most)
        return math.copysign(1 + beyond * (1 - math.cos(self.angle(most - reach))) / reach, mean)


def _deviation(mean: float, k: int) -> float:
    return math.sqrt((1 - min(abs(mean), 1 - 1 / k) ** 2) / k)


def _curve_angle(mean: float, k: int, curve: Curve) -> Expected:
    most = curve.means[0]
    mean = min(max(mean, -most), most)
    value, error = curve.angle(mean), _deviation(mean, k)
    inside = _inside(value, k)
    squares = (value - curve.angle(mean - error)) ** 2 + (value - curve.angle(mean + error)) ** 2
    plain = inside * (math.pi - inside) / k
    variance = min(max(squares / 2, plain), math.pi**2 / 4)
    plain = min(plain, variance)
    of_signs = _Interval(mean, k, most, curve.angle, is_cosine=False)
    return Expected(value, plain, variance - plain, 0.0, math.pi, (CURVE / most,) * 3, of_signs=of_signs)


def _curve_cosine(mean: float, k: int, curve: Curve) -> Expected:
    most = curve.means[0]
    if curve.cosine(_deviation(0.0, k), _deviation(most, k)) > math.pi / 2:
        raise UndefinedError
    reach, error = _deviation(most, k), _deviation(min(max(mean, -most), most), k)
    here, below, above = (curve.cosine(at, reach) for at in (mean, mean - error, mean + error))
    value = 2 * here - (below + above) / 2
    inside = _inside(math.acos(min(max(value, -1.0), 1.0)), k)
    plain = math.sin(inside) ** 2 * inside * (math.pi - inside) / k
    variance = max((here - below) ** 2, (above - here) ** 2, plain)
    of_signs = _Interval(mean, k, most, curve.angle, is_cosine=True)
    return Expected(value, plain, variance - plain, -1.0, 1.0, (CURVE / most,) * 3, of_signs=of_signs)


def _curve_of(x: Message, y: Message, norms: tuple[float, float] | None) -> Curve:
    assert norms is not None, "norms are needed"
    return _curve(*(_jumps(message, norm) for message, norm in zip((x, y), norms, strict=True)))


def _jumps(message: Message, norm: float) -> tuple[tuple[float, ...], ...]:
    """Return the steps of a release's gains around each place, for each group of rows."""
    fields = message["projection"]
    unit = math.sqrt(laws.scale_squared(fields)) * float(fields["resolution"])
    deviation = norm / (unit * math.sqrt(fields["sketch_dim"]))
    return tuple(
        tuple(
            _gain(message, place + 1 / 32, deviation, step) - _gain(message, place - 1 / 32, deviation, step)
            for place in PLACES
        )
        for step in _steps(message)
    )


def _steps(message: Message) -> list[float]:
    """Return the mean step of each group of rows: one where entries are ±1 and 0."""
    fields, neighbours = message["projection"], message["guarantee"]["neighbours"]
    bound = neighbours["bound"] / fields["resolution"]
    moved = math.floor(bound) if neighbours["kind"] == "l1" else math.ceil(bound)
    if laws.KINDS[fields["kind"]].largest is None:
        return [float(max(1, moved))]
    columns = [naive_maps.column(json_of(fields), index) for index in range(fields["dim"])]
    steps = sorted(max(1, moved * max(map(abs, row))) for row in zip(*columns, strict=True))
    if steps[0] == steps[-1]:
        return [float(steps[0])]
    groups = min(8, len(steps))
    size, larger = divmod(len(steps), groups)
    ends = [0, *itertools.accumulate([size + 1] * larger + [size] * (groups - larger))]
    return [sum(steps[start:end]) / (end - start) for start, end in itertools.pairwise(ends)]


def _gain(message: Message, place: float, deviation: float, step: float) -> float:
    """Return the mean of the published sign of a cell at ``place`` standard deviations."""
    sign, size = math.copysign(1.0, place), abs(place) * deviation
    if "law" in message:
        shape, rate = message["law"]["shape"], float(message["law"]["rate"])
        level = {"constant": 1.0, "linear": size, "levels": math.ceil(size / step)}[shape]
        return sign * math.tanh(rate / 2 * level)
    near = step / deviation
    if abs(place) > near:
        return sign
    count = max(1.0, message["projection"]["sketch_dim"] * math.erf(near / math.sqrt(2)))
    epsilon, delta = message["guarantee"]["epsilon"], message["guarantee"]["delta"]
    if message["method"] == "iDP-SignOPORP-G":
        count = 1.0
    if message["method"].endswith("-G"):
        return math.erf(place * deviation / math.sqrt(2 * _variance(math.ceil(count * step * step), epsilon, delta)))
    return sign * math.tanh((epsilon if message["method"] == "iDP-SignOPORP" else epsilon / count) / 2)


@functools.lru_cache
def _variance(reach: int, epsilon: float, delta: float) -> float:
    """Return the variance of Gaussian noise for cells moved by √reach in ℓ2."""
    return float(numbers.gaussian_variance(epsilon, delta, reach))


@functools.lru_cache
def _curve(x: tuple[tuple[float, ...], ...], y: tuple[tuple[float, ...], ...]) -> Curve:
    groups = max(len(x), len(y))
    pairs = [(x[min(i, len(x) - 1)], y[min(i, len(y) - 1)]) for i in range(groups)]
    phis = [i * (math.pi / 2) / (ANGLES - 1) for i in range(ANGLES)]
    rates = [sum(_rate(*pair, phi) for pair in pairs) / groups for phi in phis]
    h = math.pi / 2 / (ANGLES - 1)
    rises = [0.0]
    for i in range(ANGLES - 1):
        if i % 2 == 0:
            piece = 5 * rates[i] + 8 * rates[i + 1] - rates[i + 2]
        else:
            piece = -rates[i - 1] + 8 * rates[i] + 5 * rates[i + 1]
        rises.append(rises[-1] + h * piece / 12)
    phi = [i * h for i in range(ANGLES)]
    return Curve(
        [math.pi / 2 - p for p in reversed(phi)] + [math.pi / 2 + p for p in phi[1:]],
        list(reversed(rises)) + [-rise for rise in rises[1:]],
    )


def _rate(x: tuple[float, ...], y: tuple[float, ...], phi: float) -> float:
    """Return dC/dφ by a double sum over the jumps."""
    total = 0.0
    for place, row in enumerate(_density(phi)):  # gains are odd: -a adds what a does
        jump = x[len(PLACES) // 2 + place]
        if jump:
            total += (2 if place else 1) * jump * sum(map(operator.mul, y, row))
    return total / (2 * math.pi)


@functools.cache
def _density(phi: float) -> "list[array[float]]":
    """Return exp(…) for each a ≥ 0 and all b, 0 where it is below 10^-300: 150 kB."""
    twice, last = 2 * max(math.cos(phi), 1e-9) ** 2, 1 + math.sin(phi)
    return [
        array(
            "d",
            [math.exp(-((a - b) ** 2) / twice - a * b / last) if (a - b) ** 2 < 760 * twice else 0.0 for b in PLACES],
        )
        for a in PLACES[len(PLACES) // 2 :]
    ]
