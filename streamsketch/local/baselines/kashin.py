"""Kashin representations: a unit vector as many small coefficients, without error."""

import functools
import itertools
import math

import numpy as np

from streamsketch.core.jit import kernel
from streamsketch.core.numbers import Floats, Ints
from streamsketch.local import random_words
from streamsketch.projections.hadamard import hadamard_transform, transform_cells

LEVEL = 1.75
"""K: coefficients are at most K/√D. At redundancy 4 or more about ten steps suffice; at 1.4 none do."""

INDEPENDENT_DIM = 32
"""Up to this dim no four places are dependent, so that every vector has coefficients of level K (Theory 7.4)."""

_INNER = 0.98  # of K: clipping to a smaller box brings coefficients below K in finitely many steps
_RELAXATION = 1.9
_MOST_STEPS = 64


class KashinFrame:
    """A public tight frame of R^dim with D = `frame_size` vectors, and coefficients below K/√D.

    v = U a with U = E·Σ·H/√D, where H is the Hadamard matrix of order D, E selects dim of the D coordinates, and Σ has
    random signs. UUᵀ = I, so a = Uᵀv is one representation; all others differ by the kernel of U. Relaxed alternating
    projections onto the box and onto the representations find one in both (Lyubarskii and Vershynin 2010 prove
    existence and use such steps). They need redundancy: with D < 2·dim the box is too small, and clipping would bias
    the mean.

    If E has four places whose XOR is 0, some vector (±½, ±½, ±½, ±½) on them needs K = 2, above 1.75. Up to dim = 32 E
    is `independent_places`, which has no such four, so K serves every vector. Beyond, E is random: a vector chosen
    independently of the seed is of this kind with probability about 1/D.

    Parameters
    ----------
    dim
        1 to 2^22.
    seed
        Public. Choose it independently of the vectors.
    """

    def __init__(self, dim: int, seed: int) -> None:
        self.dim = dim
        self.size = frame_size(dim)
        if dim <= INDEPENDENT_DIM:
            self.places = np.array(independent_places()[:dim])
        else:
            self.places = np.empty(dim, dtype=np.int64)
            start = np.uint64(random_words.stream_of(np.uint64(0), random_words.salt(seed, "kashin/places")))
            random_words.sample_rows(start, self.size, np.zeros(self.size, dtype=np.uint8), self.places)
        self.signs = np.empty(dim)
        start = np.uint64(random_words.stream_of(np.uint64(0), random_words.salt(seed, "kashin/signs")))
        random_words.copy_signed(start, np.ones(dim), self.signs)

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
        """Return coefficients a of unit vectors: U a = v exactly, and |a_j| ≤ K/√D unless 64 steps are too few.

        Every vector takes 64 steps, and those that it does not need have no effect: the number of steps needed would
        reveal something about the vector.
        """
        coefficients = self.analyse(vectors)
        _relax(vectors, self.places, self.signs / math.sqrt(self.size), self.limit, coefficients)
        return coefficients


@kernel
def _relax(vectors: Floats, places: Ints, scaled_signs: Floats, limit: float, coefficients: Floats) -> None:
    """Bring each row of ``coefficients`` within ``limit``, keeping U a equal to its row of ``vectors``."""
    inner = _INNER * limit
    size = coefficients.shape[1]
    kept = np.empty((2, size))  # the second row is the result; steps that a vector no longer needs write to the first
    moved, cells = np.empty(size), np.empty(size)
    for i in range(coefficients.shape[0]):
        for j in range(size):  # a slice assignment takes long to compile
            kept[1, j] = coefficients[i, j]
        for _ in range(_MOST_STEPS):
            largest = 0.0
            for j in range(size):
                coefficient = kept[1, j]
                moved[j] = coefficient + _RELAXATION * (min(max(coefficient, -inner), inner) - coefficient)
                largest = max(largest, abs(coefficient))
            for j in range(size):
                cells[j] = moved[j]
            transform_cells(cells, size)
            for j in range(places.size):
                kept[0, j] = (vectors[i, j] - cells[places[j]] * scaled_signs[j]) * scaled_signs[j]
            cells[:] = 0.0
            for j in range(places.size):
                cells[places[j]] = kept[0, j]
            transform_cells(cells, size)
            target = kept[np.int64(largest > limit)]
            for j in range(size):
                target[j] = moved[j] + cells[j]
        for j in range(size):
            coefficients[i, j] = kept[1, j]


def frame_size(dim: int) -> int:
    """Return D: the least power of two that is at least 4·dim and, up to `INDEPENDENT_DIM`, above every place."""
    last = independent_places()[dim - 1] if dim <= INDEPENDENT_DIM else 0
    return 1 << max((4 * dim - 1).bit_length(), last.bit_length())


@functools.cache
def independent_places() -> tuple[int, ...]:
    """Return the first 32 places: each is the least above the last that is not the XOR of three before it.

    So the columns of H at these places are four-wise independent: for x = √D·Uᵀw with a unit vector w, E x⁴ = 3 - 2Σw⁴
    < 3 over the D cells, and E|x| ≥ (E x²)^(3/2)/(E x⁴)^½ > 1/√3. The least K that serves every vector is
    1/min E|x| < √3; see Theory 7.4.
    """
    places: list[int] = []
    dependent: set[int] = set()
    for _ in range(INDEPENDENT_DIM):
        place = next(number for number in itertools.count(places[-1] + 1 if places else 0) if number not in dependent)
        dependent.update(first ^ second ^ place for first, second in itertools.combinations(places, 2))
        places.append(place)
    return tuple(places)
