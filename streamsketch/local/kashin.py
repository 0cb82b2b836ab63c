"""Kashin representations: a unit vector as many small coefficients, exactly."""

import math

import numpy as np

from streamsketch.local import streams
from streamsketch.local.normal import Floats
from streamsketch.projections.hadamard import hadamard_transform

LEVEL = 1.75
"""K: coefficients are at most K/√D. At redundancy 4 or more some ten steps reach it; at 1.4 they no longer do."""

_INNER = 0.98  # of the level that is clipped to: the steps then end after finitely many
_RELAXATION = 1.9
_MOST_STEPS = 64


class KashinFrame:
    """A public tight frame of R^dim with D vectors, D the least power of two ≥ 4·dim, and coefficients below K/√D.

    v = U a with U = E·Σ·H/√D: H the Hadamard matrix of order D, E random coordinates of the D, Σ random signs. UUᵀ = I,
    so a = Uᵀv is one representation; all others differ by the kernel of U. Alternate projections on the box and on the
    representations find one in both (relaxed; Lyubarskii and Vershynin 2010 for their existence and for such steps).
    The redundancy is what makes room: with D < 2·dim the box is out of reach, and clipping would bias the mean.

    Parameters
    ----------
    dim
        1 to 2^22.
    seed
        Public. Choose it independently of the vectors: in the direction of a frame vector the steps are slowest.
    """

    def __init__(self, dim: int, seed: int) -> None:
        self.dim = dim
        self.size = 1 << (4 * dim - 1).bit_length()
        self.places = np.empty(dim, dtype=np.int64)
        start = np.uint64(streams.stream_of(np.uint64(0), streams.salt(seed, "kashin/places")))
        streams.sample_rows(start, self.size, np.zeros(self.size, dtype=np.uint8), self.places)
        self.signs = np.empty(dim)
        start = np.uint64(streams.stream_of(np.uint64(0), streams.salt(seed, "kashin/signs")))
        streams.signed_copy(start, np.ones(dim), self.signs)

    @property
    def limit(self) -> float:
        """K/√D."""
        return LEVEL / math.sqrt(self.size)

    def analyse(self, vectors: Floats) -> Floats:
        """Return Uᵀv of each row: (n, D)."""
        out = np.zeros((vectors.shape[0], self.size))
        out[:, self.places] = vectors * (self.signs / math.sqrt(self.size))
        hadamard_transform(out)
        return out

    def synthesise(self, coefficients: Floats) -> Floats:
        """Return U a of each row: (n, dim)."""
        cells = np.array(coefficients, order="C")
        hadamard_transform(cells)
        return np.asarray(cells[:, self.places] * (self.signs / math.sqrt(self.size)))

    def spread(self, vectors: Floats) -> Floats:
        """Return coefficients a of unit vectors: U a = v exactly, and |a_j| ≤ K/√D unless 64 steps do not get there."""
        coefficients = self.analyse(vectors)
        inner = _INNER * self.limit
        for _ in range(_MOST_STEPS):
            beyond = np.flatnonzero(np.abs(coefficients).max(axis=1, initial=0) > self.limit)
            if not beyond.size:
                break
            given = coefficients[beyond]
            moved = given + _RELAXATION * (np.clip(given, -inner, inner) - given)
            coefficients[beyond] = moved + self.analyse(vectors[beyond] - self.synthesise(moved))
        return coefficients
