"""Slow, readable twins of every projection: one column at a time, in Python's integers, after WIRE.md.

Nothing here imports the library. `column` takes a projection's JSON and gives a dense list.
"""

import functools
import itertools
import json
import math
from collections.abc import Iterable
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

from tests.oracles import naive

WORDS = 2**64  # equally likely


def column(text: str, index: int) -> list[int]:
    """Return column ``index`` of A."""
    fields = json.loads(text)
    return COLUMNS[fields["kind"]](fields, text, index)


def sketch(text: str, events: Iterable[tuple[int, Any]]) -> list[int]:
    """Return A x̃ of a stream of (index, value), by one loop."""
    fields = json.loads(text)
    cells = [0] * fields["sketch_dim"]
    for index, value in events:
        steps = naive.truncated(value, Fraction(fields["resolution"]))
        cells = [cell + entry * steps for cell, entry in zip(cells, column(text, index), strict=True)]
    return cells


def words(fields: dict[str, Any], label: str, count: int, index: int) -> list[int]:
    """Return the values at ``index`` of the first ``count`` polynomials of a label."""
    t = fields["independence"]
    elements = elements_of(fields["seed"], label, count * t)
    return [naive.polynomial_at(index, elements[i * t : (i + 1) * t]) for i in range(count)]


@functools.lru_cache
def elements_of(seed: int, label: str, count: int) -> list[int]:
    return naive.field_elements(seed, label, count)


def sign_of(word: int) -> int:
    """Return what the top bit of a word says: 1 is minus."""
    return -1 if word >> 63 else 1


# --- sparse signs -------------------------------------------------------------------------------------------


def nonzeros(text: str, index: int) -> list[list[int]]:
    """Return what is not zero in column ``index`` of A as [row, entry]; some maps have 2^24 rows."""
    fields = json.loads(text)
    if COLUMNS[fields["kind"]] is block_column:
        return [[row, sign] for row, sign in sorted(block_nonzeros(fields, index))]
    return [[row, entry] for row, entry in enumerate(column(text, index)) if entry]


def block_column(fields: dict[str, Any], _text: str, index: int) -> list[int]:
    """SJLT by blocks, CountSketch, Rademacher (one row a block)."""
    dense = [0] * fields["sketch_dim"]
    for row, sign in block_nonzeros(fields, index):
        dense[row] = sign
    return dense


def block_nonzeros(fields: dict[str, Any], index: int) -> list[tuple[int, int]]:
    """Return the rows and signs of a column made by blocks."""
    if fields["kind"] == "rademacher":
        fields = fields | {"sparsity": fields["sketch_dim"]}
    twin = naive.Map(
        kind=fields["kind"],
        sketch_dim=fields["sketch_dim"],
        sparsity=fields.get("sparsity", 1),
        seed=fields["seed"],
        independence=fields["independence"],
        resolution=Fraction(fields["resolution"]),
    )
    return list(twin.column(index))


def graph_column(fields: dict[str, Any], _text: str, index: int) -> list[int]:
    k, s = fields["sketch_dim"], fields["sparsity"]
    dense = [0] * k
    for entry, word in enumerate(words(fields, "sjlt-graph", s, index)):
        last = k - s + entry
        row = (word % 2**63) * (last + 1) // 2**63
        dense[last if dense[row] else row] = sign_of(word)
    return dense


# --- permutations -------------------------------------------------------------------------------------------


def mix(word: int) -> int:
    """SplitMix64's finaliser."""
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB % 2**64
    return word ^ (word >> 31)


def permuted(place: int, size: int, seed: int, label: str) -> int:
    """Return the image of ``place`` under the permutation of [0, size)."""
    bits = max(2, (size - 1).bit_length())
    lower_bits = bits // 2
    rounds = max(8, math.ceil(80 / lower_bits))
    keys = elements_of(seed, label, rounds + rounds % 2)
    while True:
        upper, lower = divmod(place, 2**lower_bits)
        for turn, key in enumerate(keys):
            if turn % 2 == 0:
                upper ^= mix(lower ^ key) % 2 ** (bits - lower_bits)
            else:
                lower ^= mix(upper ^ key) % 2**lower_bits
        place = upper * 2**lower_bits + lower
        if place < size:
            return place


def oporp_column(fields: dict[str, Any], _text: str, index: int) -> list[int]:
    d, k = fields["dim"], fields["sketch_dim"]
    place = permuted(index, d, fields["seed"], "oporp/permutation")
    size, larger = divmod(d, k)
    lengths = [size + 1] * larger + [size] * (k - larger) if d < 2**20 else []
    chosen = next((i for i, end in enumerate(itertools.accumulate(lengths)) if place < end), None)
    if chosen is None:  # too many bins to count through
        beyond = place - larger * (size + 1)
        chosen = place // (size + 1) if beyond < 0 else larger + beyond // size
    dense = [0] * k
    dense[chosen] = sign_of(words(fields, "oporp", 1, index)[0])
    return dense


def identity_column(fields: dict[str, Any], _text: str, index: int) -> list[int]:
    return [int(row == index) for row in range(fields["dim"])]


# --- independent entries --------------------------------------------------------------------------------------


def very_sparse_column(fields: dict[str, Any], _text: str, index: int) -> list[int]:
    s = 3 if fields["kind"] == "achlioptas" else fields["sparsity"]
    half = (WORDS + s) // (2 * s)

    def entry(word: int) -> int:
        if word < half:
            return 1
        return -1 if word >= WORDS - half else 0

    return [entry(word) for word in words(fields, fields["kind"], fields["sketch_dim"], index)]


def uniform_column(fields: dict[str, Any], _text: str, index: int) -> list[int]:
    n = 2 ** fields["fraction_bits"]
    drawn = words(fields, "uniform", fields["sketch_dim"], index)
    return [word * (2 * n + 1) // WORDS - n for word in drawn]


@functools.lru_cache
def gaussian_table(fraction_bits: int) -> tuple[int, list[int]]:
    """Return the largest entry and the thresholds, from weights to ninety digits."""
    with localcontext() as context:
        context.prec = 100
        least = Decimal(2) ** -(62 + fraction_bits)
        weights, ratio = [Decimal(1)], (-1 / Decimal(2 * 4**fraction_bits)).exp()
        square = ratio * ratio
        while weights[-1] >= least:  # (n+1)² = n² + 2n + 1
            weights.append(weights[-1] * ratio)
            ratio *= square
        largest = len(weights) - 1
        both_sides = weights[:0:-1] + weights
        total, below, thresholds = sum(both_sides), Decimal(0), [0]
        for weight in both_sides:
            below += weight
            thresholds.append(int((WORDS * below / total).to_integral_value(rounding="ROUND_HALF_UP")))
        return largest, thresholds


def gaussian_entry(word: int, fraction_bits: int) -> int:
    largest, thresholds = gaussian_table(fraction_bits)
    low, high = 0, len(thresholds) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if thresholds[middle] <= word else (low, middle)
    return low - largest


def gaussian_column(fields: dict[str, Any], _text: str, index: int) -> list[int]:
    drawn = words(fields, "gaussian", fields["sketch_dim"], index)
    return [gaussian_entry(word, fields["fraction_bits"]) for word in drawn]


# --- Hadamard -------------------------------------------------------------------------------------------------


def padded(dim: int) -> int:
    return 1 << (dim - 1).bit_length()


def hadamard_sign(row: int, index: int) -> int:
    return -1 if (row & index).bit_count() % 2 else 1


def hadamard(vector: list[int]) -> list[int]:
    """Return H x by the definition."""
    places = range(len(vector))
    return [sum(hadamard_sign(f, j) * vector[j] for j in places) for f in places]


def srht_column(fields: dict[str, Any], _text: str, index: int) -> list[int]:
    sign = sign_of(words(fields, "srht", 1, index)[0])
    size = padded(fields["dim"])
    rows = [permuted(i, size, fields["seed"], "srht/rows") for i in range(fields["sketch_dim"])]
    return [sign * hadamard_sign(row, index) for row in rows]


@functools.lru_cache
def fjlt_matrix(text: str) -> list[list[tuple[int, int]]]:
    """Return P as (place, entry) of each row."""
    fields = json.loads(text)
    k, size = fields["sketch_dim"], padded(fields["dim"])
    drawn = int(Fraction(fields["density"]) * WORDS)
    rows: list[list[tuple[int, int]]] = [[] for _ in range(k)]
    for place in range(size):
        chances = words(fields, "fjlt/places", k, place)
        entries = words(fields, "fjlt/entries", k, place)
        for row in range(k):
            if chances[row] < drawn:
                rows[row].append((place, gaussian_entry(entries[row], fields["fraction_bits"])))
    return rows


def fjlt_column(fields: dict[str, Any], text: str, index: int) -> list[int]:
    sign = sign_of(words(fields, "fjlt", 1, index)[0])
    return [sign * sum(entry * hadamard_sign(f, index) for f, entry in row) for row in fjlt_matrix(text)]


COLUMNS = {
    "sjlt-block": block_column,
    "count-sketch": block_column,
    "rademacher": block_column,
    "sjlt-graph": graph_column,
    "oporp": oporp_column,
    "identity": identity_column,
    "very-sparse": very_sparse_column,
    "achlioptas": very_sparse_column,
    "uniform": uniform_column,
    "gaussian": gaussian_column,
    "srht": srht_column,
    "fjlt": fjlt_column,
}
