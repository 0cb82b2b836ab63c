"""Slow, readable twins of the local mechanisms: dense matrices, Python's integers, one report at a time.

Written from WIRE.md and the papers. Nothing here imports the library.
"""

import itertools
import math
from statistics import NormalDist

import numpy as np

from tests.oracles import naive
from tests.oracles.naive_maps import hadamard_sign, mix, padded

NORMAL = NormalDist()


class Words:
    """A secret source that gives written-down words, and counts them."""

    def __init__(self, words: list[int]) -> None:
        self.words = words
        self.used = 0

    def read(self, size: int) -> bytes:
        count = size // 8
        drawn = self.words[self.used : self.used + count]
        assert len(drawn) == count, "the tape is too short"
        self.used += count
        return b"".join(word.to_bytes(8, "little") for word in drawn)


# --- public randomness ----------------------------------------------------------------------------------------


def salt(seed: int, label: str) -> int:
    return naive.field_elements(seed, label, 1)[0]


def start(report_seed: int, salted: int) -> int:
    return mix(report_seed ^ mix(salted))


def word(begin: int, index: int) -> int:
    return mix((begin + (index + 1) * 0x9E3779B97F4A7C15) % 2**64)


def seed_of(begin: int, salted: int) -> int:
    """Return the seed whose stream starts there: SplitMix64's finaliser undone."""
    word_before = begin
    for shift, factor in ((31, 0x94D049BB133111EB), (27, 0xBF58476D1CE4E5B9), (30, 1)):
        undone = word_before
        for _ in range(3):
            undone = word_before ^ (undone >> shift)
        word_before = undone * pow(factor, -1, 2**64) % 2**64
    return word_before ^ mix(salted)


def gaussian(drawn: int) -> float:
    """Return the quantile that a word means, of its sign's half of the normal law."""
    magnitude = -NORMAL.inv_cdf(((drawn >> 1) + 0.5) / 2**64)
    return -magnitude if drawn % 2 else magnitude


def uniform(drawn: int) -> float:
    return ((drawn >> 12) + 0.5) / 2**52


def sign(begin: int, index: int) -> int:
    return -1 if word(begin, index // 64) >> index % 64 & 1 else 1


def rows(begin: int, size: int, count: int) -> list[int]:
    """Return distinct rows: for each last row the draw in [0, last], or the last itself if the draw is taken."""
    chosen: list[int] = []
    for i, last in enumerate(range(size - count, size)):
        drawn = (word(begin, i) >> 24) * (last + 1) >> 40
        chosen.append(last if drawn in chosen else drawn)
    return chosen


def hadamard_map(dim: int, k: int, seed: int, report_seed: int, *, shared: bool) -> np.ndarray:
    """Return W = √(N/k) S H D / √N as a dense matrix, cut to dim columns."""
    signs = start(0 if shared else report_seed, salt(seed, "proj-unit/signs"))
    chosen = rows(start(report_seed, salt(seed, "proj-unit/rows")), padded(dim), k)
    matrix = [[hadamard_sign(row, j) * sign(signs, j) for j in range(dim)] for row in chosen]
    return np.array(matrix) / math.sqrt(k)


def vector(seed: int, salted: int, size: int) -> np.ndarray:
    """Return the Gaussian vector that a seed means."""
    begin = start(seed, salted)
    return np.array([gaussian(mix(word(begin, j) ^ mix(begin))) for j in range(size)])


def hs_directions(kind: str, seed: int, report_seed: int, count: int, size: int) -> list[np.ndarray]:
    """Return the unit directions of a PrivHS report."""
    begin = start(report_seed, salt(seed, f"{kind}/directions"))
    drawn = [vector(word(begin, r), salt(seed, f"{kind}/entries"), size) for r in range(count)]
    return [one / np.linalg.norm(one) for one in drawn]


def kashin_vectors(seed: int, dim: int) -> np.ndarray:
    """Return the frame's vectors as rows: (D, dim)."""
    places: list[int] = []
    size = padded(4 * dim)
    if dim > 32:
        places = rows(start(0, salt(seed, "kashin/places")), size, dim)
    while len(places) < dim:
        place = places[-1] + 1 if places else 0
        while any(a ^ b ^ c == place for a, b, c in itertools.combinations(places, 3)):
            place += 1
        places.append(place)
    size = max(size, padded(max(places) + 1))
    signs = start(0, salt(seed, "kashin/signs"))
    matrix = [[hadamard_sign(f, places[j]) * sign(signs, j) for j in range(dim)] for f in range(size)]
    return np.array(matrix) / math.sqrt(size)


# --- mechanisms -------------------------------------------------------------------------------------------------


def priv_unit_g(v: np.ndarray, inside: float, q: float, words: list[int]) -> np.ndarray:
    """Return Algorithm 8 of Asi et al. 2023 on words: a coin, a place in the cap, then a Gaussian a coordinate."""
    d = v.size
    sigma, z = 1 / math.sqrt(d), NORMAL.inv_cdf(q)
    if uniform(words[0]) < inside:
        alpha = -NORMAL.inv_cdf((1 - q) * uniform(words[1])) * sigma
    else:
        alpha = NORMAL.inv_cdf(q * uniform(words[1])) * sigma
    noise = np.array([gaussian(drawn) for drawn in words[2:]]) * sigma
    across = noise - (noise @ v) * v
    m = sigma * NORMAL.pdf(z) * (inside / (1 - q) - (1 - inside) / q)
    return (alpha * v + across) / m
