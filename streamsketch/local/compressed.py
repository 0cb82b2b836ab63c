"""PrivUnitG as a seed: rejection sampling among public candidates."""

import dataclasses
import functools
import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamsketch._jit import kernel
from streamsketch.errors import InvalidInputError
from streamsketch.hashing import Words
from streamsketch.local import randomized_response
from streamsketch.local.mechanism import Mechanism, register
from streamsketch.local.normal import Floats, dot_rows, secret_words
from streamsketch.local.parameters import GaussianCap, gaussian_cap
from streamsketch.local.report import Layout
from streamsketch.local.streams import gaussian_vector, salt
from streamsketch.privacy.sampling import BitSource

MAX_EPSILON = 20.0
"""Beyond it one report takes more than some 10^7 candidates."""

_MARGIN = Fraction(4095, 4096)  # of ε that is used
_PAIRS = 2048  # of secret words read at a time
_LOG_FAILURE = 50 + 64 * math.log(2)  # for every seed: the server chooses it


class Compression:
    """PrivUnitG in R^k with a candidate's seed as its output (Feldman and Talwar 2021; Asi et al. 2023, Appendix H).

    A candidate is a uniform 64-bit seed and the public Gaussian vector g that it means. It is accepted if
    ⟨g, u⟩ ≥ the cap's edge, else with probability e^-ε': so an accepted one is in the cap with probability
    q₁ / (q₁ + (1-q₁)e^-ε') = p. That is PrivUnitG's law, after p/q₁ candidates on average.

    The report is one of 2^64 seeds, and P(seed | u) = a(seed, u)/A(u) with a in [e^-ε', 1] whatever floats do: a
    comparison that rounding decides otherwise is another set, not another probability. A(u), the average of a over all
    seeds, would be the same for every u if there were infinitely many; among 2^64 it deviates by some 10^-9 to 10^-4,
    which ε' = ε(1 - 2^-12) covers; see `uneven` and THEORY.md 7.3.

    Parameters
    ----------
    size
        k.
    epsilon
        ε, at most 20.
    salted
        The salt of the candidates' streams.
    """

    def __init__(self, size: int, epsilon: float, salted: np.uint64) -> None:
        if epsilon > MAX_EPSILON:
            raise InvalidInputError(
                f"a compressed report takes some e^ε candidates: epsilon must be at most {MAX_EPSILON:g}, got "
                f"{epsilon:g}. Send floats instead"
            )
        if uneven(gaussian_cap(size, epsilon), size, epsilon) > epsilon * float(1 - _MARGIN):
            raise InvalidInputError(
                f"at epsilon={epsilon:g} and {size} dimensions 2^64 candidates do not fill all caps evenly enough for "
                f"the guarantee. Use a smaller epsilon or fewer dimensions"
            )
        self.size = size
        self.salted = salted
        self.cap = gaussian_cap(size, epsilon * float(_MARGIN))
        self.accepting = randomized_response.words_at_least(Fraction(epsilon) * _MARGIN)

    def seeds(self, units: Floats, bits: BitSource) -> Words:
        """Return the seed of an accepted candidate for each row of length 1: uint64, (n,)."""
        pairs = min(_PAIRS, math.ceil(2 * self.cap.inside / self.cap.mass))
        scratch, candidate = np.empty(self.size, dtype=np.uint64), np.empty(self.size)
        found = np.empty(units.shape[0], dtype=np.uint64)
        for i, unit in enumerate(units):
            place = -1
            while place < 0:
                words = secret_words(bits, 2 * pairs)
                place = _accepted(
                    unit, words, self.cap.threshold, np.uint64(self.accepting - 1), self.salted, scratch, candidate
                )
            found[i] = words[2 * place]
        return found

    def vectors(self, seeds: Words) -> Floats:
        """Return τ·g of each seed: float64, (n, k)."""
        out = np.empty((seeds.size, self.size))
        scratch = np.empty(self.size, dtype=np.uint64)
        for seed, row in zip(seeds, out, strict=True):
            gaussian_vector(seed, self.salted, scratch, row)
        out *= self.cap.scale
        return out


def uneven(cap: GaussianCap, size: int, epsilon: float) -> float:
    """Return a bound on |ln A(u) - ln A(u')| for all u, u' and all 2^64 seeds at once, but with probability e^-50.

    Relative deviations of frequencies (Vapnik; Anthony and Shawe-Taylor 1993): of m = 2^64 candidates caps, of VC
    dimension d + 1, hold q_m with (q₁ - q_m)/√q₁ and (q_m - q₁)/√q_m at most η = 2√((ln(8/β) + ln S(2m))/m) but with
    probability β, ln S(2m) ≤ (d+1) ln(2em/(d+1)) (Sauer). The caps depend on the candidates, so a union bound over
    the S(m) of them would prove nothing. And A p/q₁ = 1 + p(1 - e^-ε)(q_m/q₁ - 1).
    """
    candidates, dimension = 2.0**64, size + 1
    growth = dimension * (1 + math.log(2 * candidates / dimension))
    deviation = 2 * math.sqrt((math.log(8) + _LOG_FAILURE + growth) / candidates / cap.mass)
    weight = cap.inside * -math.expm1(-epsilon)
    if weight * deviation >= 1:
        return math.inf
    above = deviation * math.sqrt(1 + deviation**2 / 4) + deviation**2 / 2  # q_m/q₁ - 1, solved for q_m
    return math.log1p(weight * above) - math.log1p(-weight * deviation)


@dataclasses.dataclass(frozen=True, kw_only=True)
class CompPrivUnitG(Mechanism):
    """PrivUnitG whose report is 64 bits: the seed of a Gaussian vector that rejection sampling accepted.

    Its error is PrivUnitG's at ε(1 - 2^-12). Randomising costs O(dim · p/q₁), which grows like e^ε: some 1600 Gaussian
    vectors at ε = 10. The guarantee rests on no float, but on SplitMix64's vectors filling caps as Gaussians do; see
    `streamsketch.local.compressed.Compression`. Source: Feldman and Talwar 2021; Asi et al. 2023, Appendix H.

    Parameters
    ----------
    dim, ball
        As in `Mechanism`.
    epsilon
        As in `Mechanism`, and at most 20.
    seed
        Public, 0 to 2^64 - 1: which candidates the seeds mean.

    Raises
    ------
    InvalidInputError
        For a field out of range.

    Examples
    --------
    >>> mechanism = CompPrivUnitG(dim=64, epsilon=4.0)
    >>> round(mechanism.expected_squared_error(1), 1), mechanism.layout.bits
    (27.9, 64)
    """

    seed: int = 0

    kind = "comp-priv-unit-g"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_int("seed", 0, (1 << 64) - 1)
        _ = self.compression  # refuses what it cannot serve

    @functools.cached_property
    def compression(self) -> Compression:
        """The rejection sampler."""
        return Compression(self.sphere_dim, self.epsilon, salt(self.seed, f"{self.kind}/candidates"))

    @property
    def cap(self) -> GaussianCap:
        """p, q₁ and what follows from them, at ε(1 - 2^-12)."""
        return self.compression.cap

    @property
    def layout(self) -> Layout:
        """One seed."""
        return Layout(1, "uint64", seeded=False)

    @property
    def squared_error(self) -> float:
        """d·τ² + g·τ - 1, exactly (THEORY.md 7)."""
        return self.cap.squared_norm(self.sphere_dim) - 1

    def fill(self, units: Floats, bits: BitSource, seeds: Words, values: NDArray[Any]) -> None:
        """Write reports; see `Mechanism.fill`."""
        del seeds  # it has none: the candidate's seed is the private value
        lengths = np.sqrt(dot_rows(units, units))
        values[:, 0] = self.compression.seeds(units / lengths[:, np.newaxis], bits)

    def contributions(self, seeds: Words, values: NDArray[Any]) -> Floats:
        """Return the vectors that the seeds mean; see `Mechanism.contributions`."""
        del seeds
        return self.compression.vectors(values[:, 0])


@kernel
def _accepted(
    unit: Floats,
    words: Words,
    threshold: float,
    last_coin: np.uint64,
    salted: np.uint64,
    scratch: Words,
    candidate: Floats,
) -> int:
    """Return the first accepted pair (seed, coin) of ``words``, or -1."""
    for pair in range(words.size // 2):
        if words[2 * pair + 1] <= last_coin:
            return pair
        gaussian_vector(words[2 * pair], salted, scratch, candidate)
        along = 0.0
        for j in range(unit.size):
            along += candidate[j] * unit[j]
        if along >= threshold:
            return pair
    return -1


register(CompPrivUnitG)
