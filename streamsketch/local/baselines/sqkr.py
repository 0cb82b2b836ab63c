"""SQKR: subsampled, quantised coefficients with randomised response."""

import dataclasses
import functools
import math
from fractions import Fraction

import numpy as np

from streamsketch.core.numbers import Floats, Ints
from streamsketch.errors import InvalidInputError
from streamsketch.kernels.hashing import Words
from streamsketch.local import randomized_response
from streamsketch.local.baselines.frames import Frame, GaussianFrame, HadamardFrame
from streamsketch.local.mechanism import MAX_DIM, Mechanism, register
from streamsketch.local.random_words import dot_rows, secret_words, uniforms
from streamsketch.local.report import Layout, Values
from streamsketch.privacy.samplers import BitSource

ROTATIONS = ("gaussian", "hadamard")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SQKR(Mechanism):
    """SQKR: k = max(⌊ε⌋, 1) of a vector's coefficients in a public frame, one bit each, by 2^k-ary randomised response.

    Source: Chen, Kairouz and Özgür 2020 (Section 4). The coefficients are selected by the report's public seed,
    independently of v. Each is rounded to ±K/√D at random without bias. The k bits are reported truthfully with
    probability (e^ε - 1)/(e^ε - 1 + 2^k), and otherwise replaced by uniform bits. The report is ε-LDP for any two
    inputs by that last step alone, which is decided by integers.

    - ``rotation="gaussian"``: a frame of 2^64 uniform directions, where all coefficients of v are ±K/√D with the signs
      of ⟨g, v⟩. It is unbiased for every vector in every dimension, as far as SplitMix64's vectors are Gaussian, and
      has the least K. It takes O(dim · k) for the person and the server.
    - ``rotation="hadamard"``: as published, Kashin coefficients in a frame of 4 to 8 times dim signed columns of a
      Hadamard matrix (`KashinFrame`), at K = 1.75 with about twice the error. The server adds a report in O(k), and
      transforms once. It is unbiased for every vector up to sphere_dim = 32. Beyond, some vectors are biased: any such
      frame has four coordinates along which (±½, ±½, ±½, ±½) shrinks by an eighth.

    Parameters
    ----------
    dim
        As in `Mechanism`; for ``"hadamard"`` at most 2^22.
    epsilon, ball
        As in `Mechanism`.
    rotation
        ``"gaussian"`` or ``"hadamard"``.
    seed
        Public, 0 to 2^64 - 1: selects the frame, and the coefficients of the reports' seeds.

    Raises
    ------
    InvalidInputError
        If a field is out of range.

    Examples
    --------
    >>> mechanism = SQKR(dim=1 << 15, epsilon=10.0)
    >>> mechanism.bits_told, round(mechanism.expected_squared_error(1)), mechanism.layout.bits
    (10, 5637, 74)
    """

    rotation: str = "gaussian"
    seed: int = 0

    kind = "sqkr"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_choice("rotation", ROTATIONS)
        self._set_int("seed", 0, (1 << 64) - 1)
        if self.rotation == "hadamard" and 4 * self.sphere_dim > MAX_DIM:
            raise InvalidInputError(
                f"dim must be at most {MAX_DIM // 4 - self.ball} for a Hadamard frame, which has 4 to 8 times as many "
                f"coefficients as coordinates; got {self.dim}"
            )

    @property
    def bits_told(self) -> int:
        """The number of coefficients, and of bits, in a report (k): max(⌊ε⌋, 1), and at most 4 · sphere_dim."""
        return min(max(int(self.epsilon), 1), 4 * self.sphere_dim)

    @functools.cached_property
    def frame(self) -> Frame:
        """The public frame."""
        family = HadamardFrame if self.rotation == "hadamard" else GaussianFrame
        return family(self.sphere_dim, self.kind, self.seed)

    @functools.cached_property
    def telling(self) -> int:
        """The number of the 2^64 words for which the report is truthful."""
        return randomized_response.telling_words(Fraction(self.epsilon), 1 << self.bits_told)

    @property
    def amplification(self) -> float:
        """A, the inverse of the probability of a truthful report."""
        return 1 / randomized_response.share(self.telling)

    @property
    def layout(self) -> Layout:
        """A seed and k bits."""
        return Layout(self.bits_told, "bits", seeded=True)

    @property
    def state_dim(self) -> int:
        """The d coordinates, or D coefficients of a Hadamard frame."""
        return self.frame.state_dim

    @property
    def _size(self) -> float:
        return self.amplification * self.frame.scale / self.bits_told

    @property
    def cell_size(self) -> float:
        """See `Mechanism.cell_size`; in a Hadamard frame a report adds ±A·K·√D/k to each of k coefficients."""
        if self.rotation == "hadamard":
            return self._size * math.sqrt(self.state_dim / self.sphere_dim)
        return super().cell_size

    @property
    def longest_contribution(self) -> float:
        """See `Mechanism.longest_contribution`."""
        if self.rotation == "hadamard":
            return self.cell_size * math.sqrt(self.bits_told)
        return self._size * self.bits_told

    @property
    def squared_error(self) -> float:
        """A²B²/k + A(1 - 1/k) - 1 with B = √π Γ((d+1)/2)/Γ(d/2), exactly.

        In a Hadamard frame it is A²K²d/k + A(1 - 1/k)(D-d)/(D-1) - 1 to within A.
        """
        a, k = self.amplification, self.bits_told
        return (a * self.frame.scale) ** 2 / k + a * self.frame.cross_terms(k) - 1

    def fill(self, units: Floats, bits: BitSource, seeds: Words, values: Values) -> None:
        """Write reports; see `Mechanism.fill`."""
        people, k = values.shape
        seeds[:] = secret_words(bits, people)
        coefficients = self.frame.coefficients(units / np.sqrt(dot_rows(units, units))[:, np.newaxis], seeds, k)
        drawn = secret_words(bits, people * (2 * k + 1)).reshape(people, 2 * k + 1)
        truth = uniforms(drawn[:, :k]) < (1 + coefficients) / 2
        honest = randomized_response.below(drawn[:, 2 * k :], self.telling)
        values[...] = np.where(honest, truth, drawn[:, k : 2 * k] >> np.uint64(63))

    def contributions(self, seeds: Words, values: Values) -> Floats:
        """Return the contributions in the frame; see `Mechanism.contributions`."""
        return self.frame.lift(values, seeds, self._size)

    def add_steps(self, seeds: Words, values: Values, total: Ints, step: float, limit: float) -> None:
        """Add reports, in O(k) each for a Hadamard frame; see `Mechanism.add_steps`."""
        if isinstance(self.frame, HadamardFrame):
            self.frame.scatter((values, seeds, self._size), total, step, limit)
        else:
            super().add_steps(seeds, values, total, step, limit)

    def mean_of(self, total: Floats) -> Floats:
        """Return the mean vector; see `Mechanism.mean_of`."""
        return self.frame.mean_of(total)


register(SQKR)
