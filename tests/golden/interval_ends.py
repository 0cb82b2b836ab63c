"""The ends of intervals, written from WIRE.md alone, in decimals of 50 digits."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from statistics import NormalDist
from typing import Any, NamedTuple

from tests.golden.exact_numbers import Expected, decimal


class Ends(NamedTuple):
    """An interval, its ends infinite where there are none."""

    low: Decimal
    high: Decimal
    within: Decimal
    """How far off readers may be; infinite where they may take either branch."""


def reach_of_noise(messages: list[dict[str, Any]], factors: list[Fraction], squared: Fraction = Fraction(1)) -> Any:
    """Return how far the noises of releases, times each of some factors and a root, reach; None if that is unknown."""
    from tests.golden import kit_releases, sameness  # noqa: PLC0415 - which import this module

    parts = [
        part | {"multiplier": part["multiplier"] * factor}
        for message in messages
        for factor in factors
        for part in kit_releases.as_parts(message)
    ]
    try:
        noise = sameness.noise_of(parts, math.sqrt(squared))
    except sameness.UnknownError:
        return None

    def reach(miss: float) -> tuple[Decimal, Decimal]:
        half = noise.weights.size // 2
        beyond = 0.0
        place = half  # the least number of steps that noise is beyond with a probability of at most miss
        while place > 0 and beyond + 2 * noise.weights[half - place] <= miss:
            beyond += 2 * noise.weights[half - place]
            place -= 1
        edge = min(abs(beyond - miss), abs(beyond + 2 * noise.weights[half - place] - miss))
        step = Decimal(noise.step)
        slack = step * Decimal("1e-9") * max(place, 1)
        if noise.lattice is None or edge < 1e-7 * miss:  # on a grid of its own, or by a step either way
            spread = math.sqrt(float(noise.weights @ noise.points**2))
            slack = max(Decimal(spread) / 15, step)
        return step * max(Decimal(place), Decimal("0.5")), slack

    return reach


def widened(ends: Ends, estimate: Expected, miss: float) -> Ends:
    """Return an interval that is as wide as coarse noise needs."""
    variance = decimal(estimate.projection_variance) + decimal(estimate.noise_variance)
    if (estimate.grain is None and estimate.reach is None) or not variance:
        return ends
    with localcontext() as context:
        context.prec = 50
        near = decimal(estimate.tolerances[0])
        if estimate.reach is not None:
            width, slack = estimate.reach(miss)
        else:
            width = estimate.grain.width(miss)
            slack = width * (Decimal(2) ** -28 + near * estimate.grain.scale)
        lowest, highest = (
            sign * Decimal("Infinity") if end is None else decimal(end)
            for sign, end in ((-1, estimate.lowest), (1, estimate.highest))
        )
        inside = min(max(decimal(estimate.value), lowest), highest)
        low, high = max(inside - width, lowest), min(inside + width, highest)
        slack += near + Decimal(2) ** -44 * (abs(inside) + width)
        if estimate.alone:
            return Ends(low, high, slack)
        return Ends(min(low, ends.low), max(high, ends.high), max(slack, ends.within))


def interval(estimate: Expected, confidence: float, method: str) -> Ends:
    """Return all t with (value - t)² ≤ g²·S(t), and their tolerance."""
    with localcontext() as context:
        context.prec = 50
        if method == "normal":
            reach = reach_of(Decimal(NormalDist().inv_cdf((1 + confidence) / 2)), estimate)
        else:
            reach = 1 / (1 - Decimal(confidence)).sqrt()
    if estimate.of_signs is not None:
        return Ends(*map(Decimal, estimate.of_signs(float(reach))))
    ends = interval_at(estimate, reach)
    return widened(ends, estimate, 1 - confidence) if method == "normal" else ends


def reach_of(z: Decimal, estimate: Expected) -> Decimal:
    """Return g of a normal quantile."""
    return z + (z**3 - 3 * z) * min(decimal(estimate.kurtosis), Decimal(6)) / 24


def interval_at(estimate: Expected, reach: Decimal, digits: int = 44) -> Ends:
    """Return the interval for g, and its tolerance with 2^-``digits``."""
    with localcontext() as context:
        context.prec = 50
        rounding = Decimal(2) ** -digits
        lowest, highest = (
            sign * Decimal("Infinity") if end is None else decimal(end)
            for sign, end in ((-1, estimate.lowest), (1, estimate.highest))
        )
        value, slope, r = map(decimal, (estimate.value, estimate.slope, estimate.curvature))
        variance = decimal(estimate.projection_variance) + decimal(estimate.noise_variance)
        p = value = min(max(value, lowest), highest)
        a, b, c = 1 - reach**2 * r, reach**2 * slope / 2, -(reach**2) * variance
        below, above = _roots(a, b, c, exact=variance == 0)
        near = decimal(estimate.tolerances[0])
        of_variance = decimal(estimate.tolerances[1]) + decimal(estimate.tolerances[2])
        within = near if abs(a) > Decimal(2) ** -40 else Decimal("Infinity")
        under = max(b * b - a * c, Decimal(0))
        for f in (below, above):
            if not f.is_finite():
                continue
            off = value - p - f
            spread = (2 * abs(off) + reach**2 * (abs(slope) + 4 * abs(r * f))) * near
            spread += reach**2 * of_variance
            spread += rounding * (off**2 + reach**2 * (variance + abs(slope * f) + abs(r) * f * f))
            ways = [spread / under.sqrt()] if under > 0 else []
            ways += [3 * (spread / a).sqrt()] if a > 0 else []
            within = max(within, near + rounding * (abs(value) + abs(p + f)) + min(ways, default=Decimal(0)))
        return Ends(*(min(max(p + end, lowest), highest) for end in (below, above)), within)


def _roots(a: Decimal, b: Decimal, c: Decimal, *, exact: bool) -> tuple[Decimal, Decimal]:
    """Return the ends of a·f² - 2b·f + c ≤ 0, of the piece that WIRE.md names."""
    nothing, endless, under = Decimal(0), Decimal("Infinity"), b * b - a * c
    if exact or (a > 0 and under < 0):
        return nothing, nothing
    if a > 0:
        return (b - under.sqrt()) / a, (b + under.sqrt()) / a
    if under < 0 or (b <= 0 and under == 0):
        return -endless, endless
    larger, smaller = ((b - s * under.sqrt()) / a if a else c / (2 * b) for s in (1, -1))
    return (larger, endless) if b > 0 or c > 0 else (-endless, smaller)
