"""SQKR: subsampled and quantised Kashin coefficients, by randomised response."""

import dataclasses
import functools
import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamsketch.encoding import Ints
from streamsketch.errors import InvalidInputError
from streamsketch.hashing import Words
from streamsketch.local import randomized_response, streams
from streamsketch.local.kashin import LEVEL, KashinFrame, frame_size
from streamsketch.local.mechanism import MAX_DIM, Mechanism, register, whole_steps
from streamsketch.local.normal import Floats, dot_rows, secret_words, uniforms
from streamsketch.local.report import Layout
from streamsketch.privacy.sampling import BitSource


@dataclasses.dataclass(frozen=True, kw_only=True)
class SQKR(Mechanism):
    """SQKR: k = max(⌊ε⌋, 1) of a vector's Kashin coefficients, one bit each, through 2^k-ary randomised response.

    Chen, Kairouz and Özgür 2020 (Section 4). Which coefficients follows from the report's public seed, drawn without
    regard to v; each is rounded to ±K/√D at random without bias; the k bits are told truthfully with probability
    (e^ε - 1)/(e^ε - 1 + 2^k), else uniform ones. ε-LDP for any two inputs by that last step alone, decided by integers.
    Unbiased for every vector whose coefficients `KashinFrame` brings below K/√D: all of them up to
    sphere_dim = 32, beyond all but a few of a seed's own.

    Parameters
    ----------
    dim
        As in `Mechanism`, at most 2^22.
    epsilon, ball
        As in `Mechanism`.
    seed
        Public, 0 to 2^64 - 1: of the frame, and of what the reports' seeds mean.

    Raises
    ------
    InvalidInputError
        For a field out of range.

    Examples
    --------
    >>> mechanism = SQKR(dim=1 << 10, epsilon=10.0)
    >>> mechanism.bits_told, mechanism.layout.bits
    (10, 74)
    """

    seed: int = 0

    kind = "sqkr"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_int("seed", 0, (1 << 64) - 1)
        if 4 * self.sphere_dim > MAX_DIM:
            raise InvalidInputError(
                f"SQKR's frame has 4 to 8 times as many coefficients as coordinates: dim must be at most "
                f"{MAX_DIM // 4 - self.ball}, got {self.dim}"
            )

    @property
    def bits_told(self) -> int:
        """How many coefficients a report tells of (k): max(⌊ε⌋, 1)."""
        return min(max(int(self.epsilon), 1), 4 * self.sphere_dim)

    @functools.cached_property
    def frame(self) -> KashinFrame:
        """The public frame."""
        return KashinFrame(self.sphere_dim, self.seed)

    @functools.cached_property
    def telling(self) -> int:
        """How many of the 2^64 words tell the truth."""
        return randomized_response.telling_words(Fraction(self.epsilon), 1 << self.bits_told)

    @property
    def amplification(self) -> float:
        """A: 1 over the probability of the truth."""
        return 1 / randomized_response.share(self.telling)

    @property
    def layout(self) -> Layout:
        """A seed and k bits."""
        return Layout(self.bits_told, "bits", seeded=True)

    @property
    def state_dim(self) -> int:
        """D coefficients."""
        return frame_size(self.sphere_dim)

    @property
    def cell_size(self) -> float:
        """What a report adds to, or takes from, each of its k coefficients: A·K·√D/k."""
        return self.amplification * LEVEL * math.sqrt(self.state_dim) / self.bits_told

    @property
    def squared_error(self) -> float:
        """A²K²d/k + A(1 - 1/k)(D-d)/(D-1) - 1, to within A: the coefficients are taken to have length 1."""
        a, k, d, size = self.amplification, self.bits_told, self.sphere_dim, self.state_dim
        return (a * LEVEL) ** 2 * d / k + a * (1 - 1 / k) * (size - d) / (size - 1) - 1

    @functools.cached_property
    def _salt(self) -> np.uint64:
        return streams.salt(self.seed, f"{self.kind}/rows")

    def fill(self, units: Floats, bits: BitSource, seeds: Words, values: NDArray[Any]) -> None:
        """Write reports; see `Mechanism.fill`."""
        people, k = values.shape
        seeds[:] = secret_words(bits, people)
        coefficients = self.frame.spread(units / np.sqrt(dot_rows(units, units))[:, np.newaxis])
        told = np.take_along_axis(coefficients, self._rows(seeds), axis=1) / self.frame.limit
        drawn = secret_words(bits, people * (2 * k + 1)).reshape(people, 2 * k + 1)
        truth = uniforms(drawn[:, :k]) < (1 + told) / 2
        honest = randomized_response.below(drawn[:, 2 * k :], self.telling)
        values[...] = np.where(honest, truth, drawn[:, k : 2 * k] >> np.uint64(63))

    def _rows(self, seeds: Words) -> Ints:
        rows = np.empty((seeds.size, self.bits_told), dtype=np.int64)
        taken = np.zeros(self.state_dim, dtype=np.uint8)
        for start, row in zip(streams.streams_of(seeds, self._salt), rows, strict=True):
            streams.sample_rows(start, self.state_dim, taken, row)
        return rows

    def _signed(self, values: NDArray[Any]) -> Floats:
        return (2.0 * values - 1) * self.cell_size

    def contributions(self, seeds: Words, values: NDArray[Any]) -> Floats:
        """Return the coefficients that reports stand for; see `Mechanism.contributions`."""
        out = np.zeros((seeds.size, self.state_dim))
        np.put_along_axis(out, self._rows(seeds), self._signed(values), axis=1)
        return out

    def add_steps(self, seeds: Words, values: NDArray[Any], total: Ints, step: float, limit: float) -> None:
        """Add reports in O(k) each; see `Mechanism.add_steps`."""
        steps = whole_steps(self._signed(values), step, limit)
        starts = streams.streams_of(seeds, self._salt)
        streams.scatter(steps, starts, np.zeros(self.state_dim, dtype=np.uint8), total)

    def mean_of(self, total: Floats) -> Floats:
        """Return the vector of the mean coefficients; see `Mechanism.mean_of`."""
        return np.asarray(self.frame.synthesise(total[np.newaxis])[0])


register(SQKR)
