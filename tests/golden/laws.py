"""Fields, limits, scales and variances of every kind of projection, as exact fractions, from WIRE.md alone."""

import functools
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

from tests.oracles import naive_maps

WORDS = naive_maps.WORDS
EVERY_KIND = ("kind", "dim", "sketch_dim", "seed", "resolution")
_T = {"independence"}
FIELDS: dict[str, set[str]] = {
    "sjlt-block": _T | {"sparsity"},
    "sjlt-graph": _T | {"sparsity"},
    "count-sketch": _T,
    "rademacher": _T,
    "oporp": _T,
    "very-sparse": _T | {"sparsity"},
    "achlioptas": _T,
    "uniform": _T | {"fraction_bits"},
    "gaussian": _T | {"fraction_bits"},
    "srht": _T,
    "fjlt": _T | {"fraction_bits", "density"},
    "rotation": _T | {"fraction_bits"},
    "identity": set(),
}
"""The fields that each kind has beside those of `EVERY_KIND`."""


class Law(NamedTuple):
    """Var⟨Sx, Sy⟩ = a‖x‖²‖y‖² + b⟨x,y⟩² + cΣx²y²."""

    a: Fraction
    b: Fraction
    c: Fraction


def padded(fields: dict[str, Any]) -> int:
    """Return N, the least power of two that is at least dim."""
    return 1 << (fields["dim"] - 1).bit_length()


def within_limits(fields: dict[str, Any]) -> bool:
    """Return whether k and the other fields keep the limits of their kind."""
    kind, k, d = fields["kind"], fields["sketch_dim"], fields["dim"]
    s = fields.get("sparsity", 1)
    if kind == "sjlt-block":
        return k % s == 0 and (k // s).bit_count() == 1
    if kind == "fjlt":
        return k <= 1 << 16 and k * padded(fields) <= 1 << 35 and fields["density"] * k * padded(fields) <= 1 << 26
    if kind == "rotation":
        return k <= min(d, 1 << 12) and k * d <= 1 << 30
    if kind == "identity":
        return k == d <= 1 << 24 and fields["seed"] == 0
    most = {
        "sjlt-graph": k if s <= min(k, 4096) else 0,
        "count-sketch": k if k.bit_count() == 1 else 0,
        "rademacher": k,
        "oporp": d,
        "srht": min(padded(fields), 1 << 16),
    }
    return k <= most.get(kind, 1 << 16)


def moments(fields: dict[str, Any]) -> tuple[Fraction, Fraction]:
    """Return the exact second and fourth moment of an entry of A, of P for fjlt, in grid steps."""
    kind = fields["kind"]
    if kind in ("very-sparse", "achlioptas"):
        s = fields.get("sparsity", 3)
        share = Fraction(min(2 * ((WORDS + s) // (2 * s)), WORDS), WORDS)
        return share, share
    if kind == "uniform":
        second, fourth = _uniform_moments(2 ** fields["fraction_bits"])
        return second, fourth
    drawn = Fraction(round(fields["density"] * WORDS), WORDS) if kind == "fjlt" else Fraction(1)
    second, fourth = (drawn * moment for moment in _gaussian_moments(fields["fraction_bits"]))
    return second, fourth


@functools.cache
def _uniform_moments(n: int) -> list[Fraction]:
    return _moments(n, [-(-i * WORDS // (2 * n + 1)) for i in range(2 * n + 2)])


@functools.cache
def _gaussian_moments(fraction_bits: int) -> list[Fraction]:
    return _moments(*naive_maps.gaussian_table(fraction_bits))


def _moments(largest: int, thresholds: list[int]) -> list[Fraction]:
    """Return the second and fourth moment of entries from -largest, each from its threshold to the next."""
    counts = [after - before for before, after in pairwise(thresholds)]
    sums = (sum(n**power * count for n, count in enumerate(counts, -largest)) for power in (2, 4))
    return [Fraction(total, WORDS) for total in sums]


def scale_squared(fields: dict[str, Any]) -> Fraction:
    """Return scale² of a projection."""
    kind, k = fields["kind"], fields["sketch_dim"]
    if kind in ("sjlt-block", "sjlt-graph"):
        return Fraction(1, fields["sparsity"])
    if kind in ("count-sketch", "oporp", "identity"):
        return Fraction(1)
    if kind in ("rademacher", "srht"):
        return Fraction(1, k)
    if kind == "rotation":
        return 1 / (k * (4 ** fields["fraction_bits"] + Fraction(1, 12)))
    return 1 / (k * (padded(fields) if kind == "fjlt" else 1) * moments(fields)[0])


def independent(k: int, kurtosis: Fraction) -> Law:
    """Return the law of a map with independent entries."""
    excess = kurtosis - 3
    return Law(Fraction(1, k), Fraction(1, k), excess / k if abs(excess) > Fraction(1, 10**9) else Fraction(0))


def shared_bin(kind: str, d: int, k: int) -> Fraction:
    """Return p of oporp or p' of srht; 0 for identity."""
    if kind == "identity" or d == 1:
        return Fraction(0)
    if kind == "srht":
        size = 1 << (d - 1).bit_length()
        return Fraction(size - k, k * max(1, size - 1))
    n, m = divmod(d, k)
    return Fraction(m * (n + 1) * n + (k - m) * n * (n - 1), d * (d - 1))


def law_of(fields: dict[str, Any]) -> Law:
    """Return a, b, c of a projection."""
    kind, k, d = fields["kind"], fields["sketch_dim"], fields["dim"]
    if kind in ("sjlt-block", "sjlt-graph", "count-sketch", "rademacher"):
        return independent(k, Fraction(1))
    if kind in ("identity", "oporp", "srht"):
        p = shared_bin(kind, d, k)
        return Law(p, p, -2 * p)
    if kind == "rotation":
        r = Fraction(1, 12 * 4 ** fields["fraction_bits"])
        h, e = Fraction(d - k, k * (d + 2) * max(1, d - 1)), (2 * r + r * r) / k
        return Law((d * h + e) / (1 + r) ** 2, ((d - 2) * h + e) / (1 + r) ** 2, -6 * r * r / (5 * k * (1 + r) ** 2))
    second, fourth = moments(fields)
    if kind != "fjlt":
        return independent(k, fourth / second**2)
    e = (fourth / second**2 - 3) / padded(fields)
    return Law((1 + e) / k, (1 + 2 * e) / k, -2 * e / k)


def sparse_law(fields: dict[str, Any]) -> Law:
    """Return a, b, c of an fjlt's P alone."""
    second, fourth = moments(fields)
    return independent(fields["sketch_dim"], fourth / second**2)
