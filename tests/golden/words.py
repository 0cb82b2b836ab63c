"""Public randomness of local reports, and normal numbers from words, written from WIRE.md alone: no library.

One IEEE operation at a time, so that every machine has the same bits.
"""

import math

from tests.oracles import naive
from tests.oracles.naive_maps import mix

MIDDLE, FAR = 1.6, 5.0
# AS 241, PPND16: numerators and denominators, leading coefficient first
CENTRAL_NEAR = (
    (
        2.5090809287301226727e3,
        3.3430575583588128105e4,
        6.7265770927008700853e4,
        4.5921953931549871457e4,
        1.3731693765509461125e4,
        1.9715909503065514427e3,
        1.3314166789178437745e2,
        3.3871328727963666080e0,
    ),
    (
        5.2264952788528545610e3,
        2.8729085735721942674e4,
        3.9307895800092710610e4,
        2.1213794301586595867e4,
        5.3941960214247511077e3,
        6.8718700749205790830e2,
        4.2313330701600911252e1,
        1.0,
    ),
)
TAIL = (
    (
        7.74545014278341407640e-4,
        2.27238449892691845833e-2,
        2.41780725177450611770e-1,
        1.27045825245236838258e0,
        3.64784832476320460504e0,
        5.76949722146069140550e0,
        4.63033784615654529590e0,
        1.42343711074968357734e0,
    ),
    (
        1.05075007164441684324e-9,
        5.47593808499534494600e-4,
        1.51986665636164571966e-2,
        1.48103976427480074590e-1,
        6.89767334985100004550e-1,
        1.67638483018380384940e0,
        2.05319162663775882187e0,
        1.0,
    ),
)
FAR_TAIL = (
    (
        2.01033439929228813265e-7,
        2.71155556874348757815e-5,
        1.24266094738807843860e-3,
        2.65321895265761232930e-2,
        2.96560571828504891230e-1,
        1.78482653991729133580e0,
        5.46378491116411436990e0,
        6.65790464350110377720e0,
    ),
    (
        2.04426310338993978564e-15,
        1.42151175831644588870e-7,
        1.84631831751005468180e-5,
        7.86869131145613259100e-4,
        1.48753612908506148525e-2,
        1.36929880922735805310e-1,
        5.99832206555887937690e-1,
        1.0,
    ),
)


def salt(seed: int, label: str) -> int:
    """Return the salt of a label, with the mechanism's seed."""
    return naive.field_elements(seed, label, 1)[0]


def stream(seed: int, salted: int) -> int:
    """Return where a seed's stream starts."""
    return mix(seed ^ mix(salted))


def word(start: int, index: int) -> int:
    """Return a word of a stream."""
    return mix((start + (index + 1) * 0x9E3779B97F4A7C15) % 2**64)


def sign(start: int, index: int) -> int:
    """Return a sign of a stream."""
    return -1 if word(start, index // 64) >> index % 64 & 1 else 1


def rows(start: int, size: int, count: int) -> list[int]:
    """Return distinct rows of [0, size)."""
    chosen: list[int] = []
    for i, last in enumerate(range(size - count, size)):
        drawn = (word(start, i) >> 24) * (last + 1) >> 40
        chosen.append(last if drawn in chosen else drawn)
    return chosen


def vector(seed: int, salted: int, size: int) -> list[float]:
    """Return a seed's vector of normal numbers."""
    start = stream(seed, salted)
    return [normal(mix(word(start, j) ^ mix(start))) for j in range(size)]


def normal(drawn: int) -> float:
    """Return the normal number of a word."""
    p = (float(drawn >> 1) + 0.5) * 2.0**-64
    q = 0.5 - p
    if q <= 0.425:
        upper, lower = CENTRAL_NEAR
        r = 0.180625 - q * q
        size = q * horner(upper, r) / horner(lower, r)
    else:
        r = math.sqrt(-log(p))
        (upper, lower), shift = (TAIL, MIDDLE) if r <= FAR else (FAR_TAIL, FAR)
        size = horner(upper, r - shift) / horner(lower, r - shift)
    return -size if drawn % 2 else size


def horner(coefficients: tuple[float, ...], at: float) -> float:
    """Return the value of a polynomial."""
    total = coefficients[0]
    for coefficient in coefficients[1:]:
        total = total * at + coefficient
    return total


def log(p: float) -> float:
    """Return ln p by eleven terms of its series."""
    m, e = math.frexp(p)
    if m < 0.7071067811865476:
        m, e = 2 * m, e - 1
    s = (m - 1) / (m + 1)
    total = 0.0
    for odd in range(21, 0, -2):
        total = total * (s * s) + 1.0 / odd
    return e * 0.6931471805599453 + 2.0 * s * total
