"""Public uniform directions derived from seeds, and the sides on which a vector lies."""

import numpy as np

from streamsketch.core import Ints, kernel
from streamsketch.kernels import Words
from streamsketch.local.agreed import ROOT_PI, gamma_ratio
from streamsketch.local.normal import Floats
from streamsketch.local.random_words import gaussian_vector, salt, stream_of, word
from streamsketch.privacy import Bytes


def direction_scale(dim: int) -> float:
    """Return B = √π Γ((d+1)/2)/Γ(d/2), for which E sign⟨g, v⟩ g/‖g‖ = v/B for every unit vector v."""
    return ROOT_PI * gamma_ratio(dim / 2)


def direction_salts(seed: int, kind: str) -> tuple[np.uint64, np.uint64]:
    """Return two salts for a mechanism's reports: for the directions of a seed, and for the entries of a direction."""
    return salt(seed, f"{kind}/directions"), salt(seed, f"{kind}/entries")


@kernel
def sides(units: Floats, seeds: Words, salted: np.uint64, entries: np.uint64, out: Bytes) -> None:
    """Write 1 if ⟨g, v⟩ ≥ 0, else 0, for each direction of each seed."""
    scratch, direction = np.empty(units.shape[1], dtype=np.uint64), np.empty(units.shape[1])
    for i in range(seeds.size):
        start = stream_of(seeds[i], salted)
        for r in range(out.shape[1]):
            gaussian_vector(word(start, r), entries, scratch, direction)
            along = 0.0
            for j in range(direction.size):
                along += direction[j] * units[i, j]
            out[i, r] = along >= 0.0


@kernel
def add_directions(seeds: Words, salted: np.uint64, entries: np.uint64, signs: Ints, out: Floats) -> None:
    """Add g/‖g‖ of each direction to its seed's row, negated where ``signs`` is 0."""
    scratch, direction = np.empty(out.shape[1], dtype=np.uint64), np.empty(out.shape[1])
    for i in range(seeds.size):
        start = stream_of(seeds[i], salted)
        for r in range(signs.shape[1]):
            gaussian_vector(word(start, r), entries, scratch, direction)
            square = 0.0
            for j in range(direction.size):
                square += direction[j] * direction[j]
            factor = (1.0 if signs[i, r] else -1.0) / np.sqrt(square)
            for j in range(direction.size):
                out[i, j] += factor * direction[j]
