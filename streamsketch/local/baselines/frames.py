"""The frames of SQKR: the vectors selected by a report's seed, and the coefficients of v in them."""

import functools
import math
from abc import ABC, abstractmethod

import numpy as np

from streamsketch.core.jit import kernel, read_only
from streamsketch.core.numbers import Floats, Ints
from streamsketch.kernels.hashing import Words
from streamsketch.local import random_words
from streamsketch.local.baselines.kashin import LEVEL, KashinFrame, frame_size
from streamsketch.local.mechanism import whole_steps
from streamsketch.local.portable_floats import ROOT_PI, gamma_ratio
from streamsketch.local.random_words import gaussian_vector, salt, stream_of, word
from streamsketch.local.report import Values
from streamsketch.privacy.exact_coins import Bytes


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


class Frame(ABC):
    """Public unit vectors u and coefficients t of v in [-1, 1] with v = B · E t·u over random seeds.

    Parameters
    ----------
    dim
        Length of the vectors (d).
    kind, seed
        The kind and the seed of the mechanism.
    """

    state_dim: int
    """Number of cells that the server keeps."""
    scale: float
    """B, for which B · E t·u equals v."""

    def __init__(self, dim: int, kind: str, seed: int) -> None:
        self.dim = dim
        self.kind = kind
        self.seed = seed

    @abstractmethod
    def cross_terms(self, count: int) -> float:
        """Return what products of two of ``count`` coefficients add to the mean squared length of a report at A = 1."""

    @abstractmethod
    def coefficients(self, units: Floats, seeds: Words, count: int) -> Floats:
        """Return t for the ``count`` vectors of each seed, in [-1, 1] up to rounding: (n, count)."""

    @abstractmethod
    def lift(self, values: Values, seeds: Words, size: float) -> Floats:
        """Return the sum of ±``size`` · u, + for 1, in the server's representation: (n, state_dim)."""

    def mean_of(self, total: Floats) -> Floats:
        """Return the mean vector for the mean of `lift`: (dim,)."""
        return total


class GaussianFrame(Frame):
    """Uniform directions g/‖g‖, one for each of 2^64 words: t = sign⟨g, v⟩ and B = √π Γ((d+1)/2)/Γ(d/2), for every v.

    The level K of these coefficients is the least of all frames; it tends to √(π/2) as d grows.
    """

    def __init__(self, dim: int, kind: str, seed: int) -> None:
        super().__init__(dim, kind, seed)
        self.state_dim = dim
        self.scale = direction_scale(dim)

    def cross_terms(self, count: int) -> float:
        """Return 1 - 1/count, as directions are independent; see `Frame.cross_terms`."""
        return 1 - 1 / count

    def coefficients(self, units: Floats, seeds: Words, count: int) -> Floats:
        """Return ±1; see `Frame.coefficients`. O(d · count) for each seed."""
        bits = np.empty((seeds.size, count), dtype=np.uint8)
        sides(units, seeds, *direction_salts(self.seed, self.kind), bits)
        return np.where(bits, 1.0, -1.0)

    def lift(self, values: Values, seeds: Words, size: float) -> Floats:
        """See `Frame.lift`. O(d · count) for each seed."""
        out = np.zeros((seeds.size, self.dim))
        add_directions(seeds, *direction_salts(self.seed, self.kind), read_only(values), out)
        out *= size
        return out


class HadamardFrame(Frame):
    """The D vectors of a `KashinFrame` at length 1, drawn without replacement: B = K√d, t_j = a_j √D/K.

    The server keeps D cells, where u has one nonzero entry, √(D/d).
    """

    def __init__(self, dim: int, kind: str, seed: int) -> None:
        super().__init__(dim, kind, seed)
        self.state_dim = frame_size(dim)
        self.scale = LEVEL * math.sqrt(dim)

    @functools.cached_property
    def kashin(self) -> KashinFrame:
        """The frame."""
        return KashinFrame(self.dim, self.seed)

    @functools.cached_property
    def _salt(self) -> np.uint64:
        return random_words.salt(self.seed, f"{self.kind}/rows")

    def cross_terms(self, count: int) -> float:
        """See `Frame.cross_terms`; exact to within 1, as coefficient vectors are taken to have length 1."""
        return (1 - 1 / count) * (self.state_dim - self.dim) / (self.state_dim - 1)

    def _rows(self, seeds: Words, count: int) -> Ints:
        return random_words.rows_of(random_words.streams_of(read_only(seeds), self._salt), self.state_dim, count)

    def coefficients(self, units: Floats, seeds: Words, count: int) -> Floats:
        """See `Frame.coefficients`. 64 relaxation steps, of two transforms of order D each."""
        spread = self.kashin.spread(units)
        return np.asarray(np.take_along_axis(spread, self._rows(seeds, count), axis=1) / self.kashin.limit)

    def _cells(self, values: Values, size: float) -> Floats:
        return (2.0 * values - 1) * (size * math.sqrt(self.state_dim / self.dim))

    def lift(self, values: Values, seeds: Words, size: float) -> Floats:
        """See `Frame.lift`."""
        out = np.zeros((seeds.size, self.state_dim))
        np.put_along_axis(out, self._rows(seeds, values.shape[1]), self._cells(values, size), axis=1)
        return out

    def scatter(self, signs: tuple[Values, Words, float], total: Ints, step: float, limit: float) -> None:
        """Add `lift` of (values, seeds, size) in steps to ``total``, in O(count) each; see `Mechanism.add_steps`."""
        values, seeds, size = signs
        steps = whole_steps(self._cells(values, size), step, limit)
        starts = random_words.streams_of(read_only(seeds), self._salt)
        random_words.scatter(steps, starts, np.zeros(self.state_dim, dtype=np.uint8), total)

    def mean_of(self, total: Floats) -> Floats:
        """Return U times the mean coefficients."""
        return np.asarray(self.kashin.synthesise(total[np.newaxis])[0])
