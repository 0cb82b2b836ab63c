"""Maps to k of D dimensions and back, written from WIRE.md alone: no library. One IEEE operation at a time."""

import functools
import json
import math
from fractions import Fraction
from typing import Any

from tests.golden import laws
from tests.golden.mechanisms import Refused
from tests.oracles import naive_maps

INNER_BITS = 8
SEEDS_TRIED = 8


def columns(text: str) -> list[list[int]]:
    """Return all columns of a projection of few dimensions."""
    fields = json.loads(text)
    if fields["kind"] != "rotation":
        return [naive_maps.column(text, index) for index in range(fields["dim"])]
    matrix = rotation(
        fields["dim"], fields["sketch_dim"], fields["seed"], fields["independence"], fields["fraction_bits"]
    )
    return [list(column) for column in zip(*matrix, strict=True)]


@functools.cache
def rotation(dim: int, k: int, seed: int, independence: int, fraction_bits: int) -> list[list[int]]:
    """Return the rows of A of a rotation; refuse a seed that has none."""
    common = {"seed": seed, "independence": independence, "sketch_dim": k, "fraction_bits": INNER_BITS}
    g = list(zip(*(naive_maps.gaussian_column(common, "", j) for j in range(dim)), strict=True))
    m = [[float(sum(a * b for a, b in zip(one, other, strict=True))) for other in g] for one in g]
    least = [m[i][i] * 2.0**-40 for i in range(k)]
    x = [[float(i == j) for j in range(k)] for i in range(k)]
    for i in range(k):
        if m[i][i] <= least[i]:
            raise Refused("no such rotation: the seed is invalid")
        root = math.sqrt(m[i][i])
        v = [m[a][i] / root for a in range(k)]
        for a in range(i + 1, k):
            for b in range(i + 1, k):
                m[a][b] -= v[a] * v[b]
        for b in range(k):
            x[i][b] /= v[i]
        for a in range(i + 1, k):
            for b in range(i + 1):
                x[a][b] -= v[a] * x[i][b]
    size = math.sqrt(dim) * 2.0**fraction_bits
    x = [[entry * size for entry in row] for row in x]
    widest = max(abs(entry) for row in x for entry in row)
    h = min(24, 51 - math.floor(math.log2(widest * k * naive_maps.gaussian_table(INNER_BITS)[0])))
    whole = [[round(entry * 2.0**h) for entry in row] for row in x]
    # ⌊B·G·2^-h + ½⌋
    return [
        [(2 * sum(b * g[i][j] for i, b in enumerate(row)) + (1 << h) >> h + 1) for j in range(dim)] for row in whole
    ]


@functools.cache
def matrix(kind: str, dim: int, k: int, seed: int) -> list[list[float]]:
    """Return W of a report's seed, k rows of D: a rotation or a Gaussian map, at its scale."""
    for shift in range(SEEDS_TRIED):
        fields: dict[str, Any] = {"kind": kind, "dim": dim, "sketch_dim": k, "independence": 8, "fraction_bits": 12}
        fields |= {"seed": (seed + shift) % 2**64, "resolution": "1/1"}
        try:
            found = columns(json.dumps(fields))
        except Refused:
            continue
        scale = root(laws.scale_squared(fields))
        return [[column[row] * scale for column in found] for row in range(k)]
    raise Refused("all eight seeds are invalid")


def root(square: Fraction) -> float:
    """Return the square root of a ratio, rounded once."""
    return math.sqrt(square.numerator / square.denominator)


def transformed(cells: list[float]) -> list[float]:
    """Return H x."""
    if len(cells) == 1:
        return cells
    half = len(cells) // 2
    low, high = cells[:half], cells[half:]
    sums = [a + b for a, b in zip(low, high, strict=True)]
    differences = [a - b for a, b in zip(low, high, strict=True)]
    return transformed(sums) + transformed(differences)
