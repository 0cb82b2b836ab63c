"""The numbers of a local mechanism, written from WIRE.md alone: no library.

Special functions are series and bisections; a few digits more than WIRE.md asks for are enough.
"""

import functools
import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from statistics import NormalDist
from typing import Any, NamedTuple

NORMAL = NormalDist()
TAIL = 2.5e-10
LOG_MILLION = 13.815510557964274
ROOT_PI = 1.7724538509055159
LARGEST_NORMAL = 9.3
SERIES = (
    -1 / 8,
    1 / 128,
    5 / 1024,
    -21 / 32768,
    -399 / 262144,
    869 / 4194304,
    39325 / 33554432,
    -334477 / 2147483648,
)
Fields = dict[str, Any]


class Cap(NamedTuple):
    """p, q₁, g (of a sphere nothing), and τ (of a sphere 1/m)."""

    inside: float
    mass: float
    threshold: float
    scale: float


# --- parameters -----------------------------------------------------------------------------------------------


def sphere_dim(fields: Fields) -> int:
    """Return D."""
    return int(fields["dim"]) + int(fields["ball"])


def is_compressed(fields: Fields) -> bool:
    """Return whether a report holds a word for its values."""
    return fields["kind"] == "comp-priv-unit-g" or bool(fields.get("compressed"))


def completes(fields: Fields) -> bool:
    """Return whether it is Algorithm 6."""
    return bool(fields.get("unbiased")) and (fields["shared"] or fields["rotation"] == "hadamard")


def inner_dim(fields: Fields) -> int:
    """Return of how many coordinates the Gaussian cap is."""
    return fields["sketch_dim"] + completes(fields) if fields["kind"] == "proj-unit" else sphere_dim(fields)


def cap_of(fields: Fields) -> Cap:
    """Return the cap of a kind that has one."""
    epsilon = fields["epsilon"] * (4095 / 4096 if is_compressed(fields) else 1.0)
    return sphere_cap(sphere_dim(fields), epsilon) if fields["kind"] == "priv-unit" else cap(inner_dim(fields), epsilon)


@functools.cache
def cap(size: int, epsilon: float) -> Cap:
    """Return PrivUnitG's cap of least error."""

    def at(b: float) -> tuple[float, float, float, float]:
        p, q, gain = masses(b, epsilon)
        g = -NORMAL.inv_cdf(q)
        return p, q, g, 1 / (NORMAL.pdf(g) * gain)

    def error(b: float) -> float:
        _, _, g, tau = at(b)
        return size * tau**2 + g * tau

    p, q, g, tau = at(least(error, epsilon))
    return Cap(p, q, g, agreed(tau))


@functools.cache
def sphere_cap(size: int, epsilon: float) -> Cap:
    """Return PrivUnit's cap of least error; its scale is 1/m."""
    half = (size - 1) / 2

    def at(b: float) -> tuple[float, float, float]:
        p, q, gain = masses(b, epsilon)
        x = math.exp(bisected(lambda log: incomplete_beta(half, math.exp(log)) >= q, -700.0, math.log(0.5)))
        density = math.exp(math.lgamma(size / 2) - math.lgamma(half)) / ROOT_PI / (size - 1)
        return p, q, 1 / (gain * density * (4 * x * (1 - x)) ** half)

    p, q, scale = at(least(lambda b: at(b)[2], epsilon))
    return Cap(p, q, 0.0, scale)


def masses(b: float, epsilon: float) -> tuple[float, float, float]:
    """Return p, q₁ and p/q₁ - (1-p)/(1-q₁)."""
    q = 1 / (1 + math.exp(epsilon - b))
    p = 1 - (math.ceil(2.0**52 / (1 + math.exp(b))) + 1) / 2.0**52
    return p, q, -math.expm1(-epsilon) * p / q


def least(error: Callable[[float], float], epsilon: float) -> float:
    """Return the b of least error on its grid, by golden section."""
    low, high = 0.0, min(epsilon, 24.0)
    grid, share = 2.0**-10 * min(1.0, 2.0 ** math.floor(math.log2(epsilon))), (math.sqrt(5) - 1) / 2
    most = high
    while high - low > 1e-4 * grid:
        left, right = high - share * (high - low), low + share * (high - low)
        low, high = (low, right) if error(left) < error(right) else (left, high)
    return min(grid * max(1, round(low / grid)), most - grid)


@functools.cache
def gaussian_sigma(epsilon: float, delta: float) -> float:
    """Return σ_BW, the least σ for (ε, δ) at distance 1."""

    def beyond(log: float) -> bool:
        sigma = math.exp(log)
        near, far = 1 / (2 * sigma) - epsilon * sigma, -1 / (2 * sigma) - epsilon * sigma
        return normal(near) - math.exp(epsilon) * normal(far) <= delta

    return math.exp(bisected(beyond, -14.0, 21.0))


def gaussian_variance(epsilon: float, delta: float, squared: int) -> Fraction:
    """Return the variance of Gaussian noise for cells that are moved by the root of ``squared``."""
    exact = Fraction(gaussian_sigma(epsilon, delta) * (1 + 1e-7)) ** 2 * squared + 3
    parts = 256 if exact < 1 << 16 else 1
    return Fraction(math.ceil(exact * parts), parts)


def normal(x: float) -> float:
    """Return Φ(x)."""
    return math.erfc(-x / math.sqrt(2)) / 2


def flipping_words(epsilon: Fraction) -> int:
    """Return ⌈2⁶⁴/(e^ε + 1)⌉."""
    with localcontext() as context:
        context.prec = 150
        return int((2**64 / (exp(epsilon) + 1)).to_integral_value(ROUND_CEILING))


def telling_words(epsilon: Fraction, bits: int) -> int:
    """Return ⌊2⁶⁴(e^ε - 1)/(e^ε - 1 + 2^bits)⌋."""
    with localcontext() as context:
        context.prec = 150
        odds = exp(epsilon) - 1
        return int((2**64 * odds / (odds + 2**bits)).to_integral_value(ROUND_FLOOR))


def exp(epsilon: Fraction) -> Decimal:
    """Return e^ε."""
    return (Decimal(epsilon.numerator) / epsilon.denominator).exp()


def agreed(value: float) -> float:
    """Return a number rounded to 32 significant bits."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(round(math.ldexp(mantissa, 32)), exponent - 32)


def gamma_ratio(x: float) -> float:
    """Return Γ(x + ½)/Γ(x), with the same bits everywhere."""
    factor = 1.0
    while x < 24:
        factor *= x / (x + 0.5)
        x += 1.0
    series = 0.0
    for coefficient in reversed(SERIES):
        series = (series + coefficient) / x
    return factor * math.sqrt(x) * (1.0 + series)


# --- special functions ------------------------------------------------------------------------------------------


def bisected(beyond: Callable[[float], bool], low: float, high: float) -> float:
    """Return the place from which on something is true."""
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if beyond(middle) else (middle, high)
    return high


def incomplete_beta(a: float, x: float) -> float:
    """Return I_x(a, a) for x ≤ ½: a series of positive terms."""
    term = total = 1.0
    n = 0
    while term > 1e-17 * total:
        term *= (2 * a + n) / (a + 1 + n) * x
        total += term
        n += 1
    return math.exp(math.lgamma(2 * a) - math.lgamma(a) - math.lgamma(a + 1) + a * math.log(x * (1 - x))) * total


@functools.cache
def chi_squared(degrees: int, tail: float, *, upper: bool) -> float:
    """Return the quantile of χ² with this much below or above it."""
    if degrees == 0:
        return 0.0
    half = degrees / 2
    most = half + 10 * math.sqrt(50 * half) + 500
    if upper:
        return 2 * bisected(lambda x: upper_gamma(half, x) <= tail, half, most)
    return 2 * bisected(lambda x: lower_gamma(half, x) >= tail, 0.0, half)


def lower_gamma(a: float, x: float) -> float:
    """Return P(a, x) by its series."""
    term = total = 1.0
    n = 1
    while term > 1e-17 * total:
        term *= x / (a + n)
        total += term
        n += 1
    return math.exp(a * math.log(x) - x - math.lgamma(a + 1)) * total if x > 0 else 0.0


def upper_gamma(a: float, x: float) -> float:
    """Return Q(a, x) for x > a by its continued fraction, from the back."""
    tail = 0.0
    for n in range(200, 0, -1):
        tail = n * (n - a) / (x + 2 * n + 1 - a - tail)
    return math.exp(a * math.log(x) - x - math.lgamma(a)) / (x + 1 - a - tail)
