"""Sums over the entries of noisy histograms, written from WIRE.md alone, entry by entry."""

import math
from collections.abc import Callable, Iterable, Sequence

Function = Callable[[int], float]
Draw = tuple[float, int]
"""The scale of one Laplace noise in an entry, and its step in steps of the entries."""


def size(x: int) -> float:
    return float(abs(x))


def itself(x: int) -> float:
    return float(x)


def is_not_zero(x: int) -> float:
    return float(x != 0)


def is_positive(x: int) -> float:
    return float(x > 0)


def size_log(x: int) -> float:
    return abs(x) * math.log(abs(x)) if x else 0.0


def positive_log(x: int) -> float:
    return size_log(x) if x > 0 else 0.0


def weights(draws: Iterable[Draw]) -> dict[int, float]:
    found = {0: 1.0}
    for scale, step in draws:
        q = math.exp(-1 / scale) / (1 - math.exp(-1 / scale)) ** 2
        more: dict[int, float] = {}
        for at, weight in found.items():
            for place, factor in ((at - step, -q), (at, 1 + 2 * q), (at + step, -q)):
                more[place] = more.get(place, 0.0) + weight * factor
        found = more
    return found


def law(draws: Sequence[Draw]) -> dict[int, float]:
    found = {0: 1.0}
    for scale, step in draws:
        reach = math.ceil(30 * scale)
        one = {step * n: math.tanh(0.5 / scale) * math.exp(-abs(n) / scale) for n in range(-reach, reach + 1)}
        more: dict[int, float] = {}
        for at, weight in found.items():
            for place, chance in one.items():
                more[at + place] = more.get(at + place, 0.0) + weight * chance
        found = more
    return found


def sums(entries: Sequence[int], draws: Sequence[Draw], first: Function, second: Function) -> tuple[float, ...]:
    """Return S_f, S_h, V_ff, V_fh and V_hh."""
    found = weights(draws)

    def estimate(function: Function, v: int) -> float:
        return sum(weight * function(v + at) for at, weight in found.items())

    def covariance(f: Function, h: Function, v: int) -> float:
        product = (estimate(f, v) - f(v)) * (estimate(h, v) - h(v))
        return product - sum(w * (f(v + at) - f(v)) * (h(v + at) - h(v)) for at, w in found.items())

    chances = law(draws)
    deviation = math.sqrt(sum(n * n * chance for n, chance in chances.items()))
    at_zero = sum(chances.get(v, 0.0) for v in entries) * chances[0] / sum(p * p for p in chances.values())
    reach = min(math.ceil(deviation / 5), 16) if deviation >= 2 and at_zero < 30 else -1
    spreads = []
    for f, h in ((first, first), (first, second), (second, second)):
        far = sum(covariance(f, h, v) for v in entries if abs(v) > reach)
        spreads.append(far + at_zero * sum(covariance(f, h, v) for v in range(-reach, reach + 1)))
    return sum(estimate(first, v) for v in entries), sum(estimate(second, v) for v in entries), *spreads


def entropy(total: float, logs: float, spread: float, mixed: float, log_spread: float) -> tuple[float, float]:
    slope = (1 + logs / total) / total
    value = math.log(total) - logs / total + spread / (2 * total**2) + logs * spread / total**3 - mixed / total**2
    return value, slope**2 * spread - 2 * slope * mixed / total + log_spread / total**2
