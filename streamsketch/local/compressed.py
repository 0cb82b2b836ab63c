"""PrivUnitG compressed to a seed, which selects one of the public candidates."""

import dataclasses
import functools
import math

import numpy as np

from streamsketch.core.jit import kernel, read_only
from streamsketch.core.numbers import Floats
from streamsketch.errors import InvalidInputError
from streamsketch.kernels.hashing import Words
from streamsketch.local import randomized_response
from streamsketch.local.mechanism import Mechanism, register
from streamsketch.local.parameters import GaussianCap, gaussian_cap
from streamsketch.local.random_words import (
    LARGEST_NORMAL,
    dot_rows,
    gaussian_vector,
    gaussian_vectors,
    salt,
    secret_words,
)
from streamsketch.local.report import Layout, Values
from streamsketch.privacy.exact_coins import Bytes
from streamsketch.privacy.samplers import BitSource

MAX_EPSILON = 20.0
"""Beyond it one report takes more than about 10^8 candidates."""

_MARGIN = 4095 / 4096  # share of ε that is used
_CANDIDATES = 4096  # drawn at a time
_LOG_FAILURE = 50 + 64 * math.log(2)  # a union bound over seeds: the server chooses the seed


class Compression:
    """PrivUnitG in R^k whose output is the seed of one of a fixed number of candidates.

    A candidate is a uniform 64-bit seed with its public Gaussian vector g; it is in the cap if ⟨g, u⟩ is at least the
    threshold. Every report draws `trials` candidates and one coin, and computes all inner products. If some candidates
    are inside the cap and some outside, the coin selects which kind to report, inside with probability κ; otherwise
    there is only one kind. The last candidate of that kind is reported. κ makes the probability of a report in the cap
    exactly PrivUnitG's p, and `trials` is the least number for which such a κ exists, about ln(1/(1-p))/q₁. Feldman and
    Talwar 2021 and Asi et al. 2023, Appendix H, draw candidates until one is accepted; their number reveals something
    about u to those who also see the report.

    The report is one of 2^64 seeds. Given the number of candidates inside, the last of a kind is uniform among all
    seeds of that kind, so P(seed | u) is P(inside | u)/(2^64 Q) in the cap and P(outside | u)/(2^64 (1-Q)) elsewhere,
    with Q the share of all seeds in u's cap as computed in floating point. With infinitely many seeds Q would be q₁
    for every u; with 2^64 it deviates by about 10^-9 to 10^-4, which ε' = ε(1 - 2^-12) covers, or the mechanism is
    refused; see `shares`, `spent` and Theory 7.3.

    Parameters
    ----------
    size
        k.
    epsilon
        ε, at most 20.
    salted
        The salt of the candidates' streams.

    Raises
    ------
    InvalidInputError
        If ε is above 20, or the caps' shares of the seeds deviate too much for the guarantee.
    """

    def __init__(self, size: int, epsilon: float, salted: np.uint64) -> None:
        if epsilon > MAX_EPSILON:
            raise InvalidInputError(
                f"epsilon must be at most {MAX_EPSILON:g}, because a compressed report takes about e^ε candidates; "
                f"got {epsilon:g}. Use an uncompressed mechanism, such as PrivUnitG"
            )
        self.size = size
        self.salted = salted
        self.cap = gaussian_cap(size, epsilon * _MARGIN)
        self.trials = max(2, math.ceil(math.log1p(-self.cap.inside) / math.log1p(-self.cap.mass)))
        mixed = -math.expm1(self.trials * math.log1p(-self.cap.mass)) - self.cap.mass**self.trials
        kappa = (self.cap.inside - self.cap.mass**self.trials) / mixed
        self.insiders = min(1 << 64, math.floor(kappa * 2.0**64))
        """κ, as a number of 64-bit words."""
        if not spent(self.cap.mass, shares(self.cap.mass, size), self.trials, self.insiders / 2.0**64) <= epsilon:
            raise InvalidInputError(
                f"at epsilon={epsilon:g} and {size} dimensions, 2^64 seeds do not cover all caps evenly enough for "
                f"the guarantee. Use a smaller epsilon or fewer dimensions"
            )

    def seeds(self, units: Floats, bits: BitSource) -> Words:
        """Return the reported seed for each row of length 1: uint64, (n,).

        Each row takes one word for its coin and `trials` words for candidates, whatever its values.
        """
        seeds = np.empty(units.shape[0], dtype=np.uint64)
        rows = max(1, _CANDIDATES // self.trials)
        for start in range(0, units.shape[0], rows):
            part = units[start : start + rows]
            seeds[start : start + rows] = self._choose(part, bits)
        return seeds

    def _choose(self, units: Floats, bits: BitSource) -> Words:
        people = units.shape[0]
        inside = randomized_response.below(secret_words(bits, people), self.insiders).astype(np.uint8)
        last, seen = np.zeros((people, 2), dtype=np.uint64), np.zeros((people, 2), dtype=np.uint8)
        for start in range(0, self.trials, _CANDIDATES):
            drawn = min(_CANDIDATES, self.trials - start)
            seeds = secret_words(bits, people * drawn).reshape(people, drawn)
            along = np.empty((people, drawn))
            candidates_along(units, seeds, self.salted, along)
            keep_last(seeds, along, self.cap.threshold, last, seen)
        kind = (seen[:, 1] & (inside | (seen[:, 0] ^ 1))).astype(np.int64)
        return np.take_along_axis(last, kind[:, np.newaxis], axis=1)[:, 0]

    @property
    def longest(self) -> float:
        """A bound on the length of `vectors`, for any seed."""
        return self.cap.scale * LARGEST_NORMAL * math.sqrt(self.size)

    def vectors(self, seeds: Words) -> Floats:
        """Return τ·g of each seed: float64, (n, k)."""
        out = gaussian_vectors(read_only(seeds), self.salted, self.size)
        out *= self.cap.scale
        return out


def shares(mass: float, size: int) -> tuple[float, float]:
    """Return bounds on Q, the share of the 2^64 seeds in a cap of that mass, for all caps with probability 1 - e^-50.

    By the relative deviation of frequencies (Vapnik; Anthony and Shawe-Taylor 1993), for m = 2^64 candidates and caps
    of VC dimension d + 1, both (q₁ - Q)/√q₁ and (Q - q₁)/√Q are at most η = 2√((ln(8/β) + ln S(2m))/m) except with
    probability β, where ln S(2m) ≤ (d+1) ln(2em/(d+1)) (Sauer). β includes a union bound over the 2^64 public seeds,
    since the server chooses the seed. The caps depend on the candidates, so a union bound over S(m) caps is no proof.
    """
    candidates, dimension = 2.0**64, size + 1
    growth = dimension * (1 + math.log(2 * candidates / dimension))
    deviation = 2 * math.sqrt((math.log(8) + _LOG_FAILURE + growth) / candidates / mass)
    above = deviation * math.sqrt(1 + deviation**2 / 4) + deviation**2 / 2  # Q/q₁ - 1, solved for Q
    return mass * (1 - deviation), mass * (1 + above)


def spent(mass: float, bounds: tuple[float, float], trials: int, kappa: float) -> float:
    """Return a bound on ln P(s | u) - ln P(s | u') for all seeds, u and u', if both caps' shares are within ``bounds``.

    With n trials, 2^64 P(s | u) is κ Σ (1-Q)^i + (1-κ) Q^(n-1) in the cap and (1-κ) Σ Q^i + κ (1-Q)^(n-1) elsewhere,
    with sums over i < n. Both are convex in Q: they are at most the larger of their values at the bounds, and at least
    the smaller value there of a tangent between the bounds.
    """
    low, high = bounds
    if not 0 < low <= mass <= high < 1:
        return math.inf
    values: list[float] = []
    tangents: list[float] = []
    for weight, center, ends in ((kappa, mass, bounds), (1 - kappa, 1 - mass, (1 - low, 1 - high))):
        at_center, slope = _density(center, trials, weight)
        values += [_density(end, trials, weight)[0] for end in ends]
        tangents += [at_center + slope * (end - center) for end in ends]
    return math.log(max(values) / min(tangents)) if min(tangents) > 0 else math.inf


def _density(share: float, trials: int, weight: float) -> tuple[float, float]:
    """Return w (1 - (1-x)^n)/x + (1-w) x^(n-1) and its derivative."""
    rest = math.exp((trials - 1) * math.log1p(-share))  # (1-x)^(n-1)
    some = -math.expm1(trials * math.log1p(-share)) / share
    all_inside = share ** (trials - 1)
    slope = weight * (trials * rest - some) / share + (1 - weight) * (trials - 1) * all_inside / share
    return weight * some + (1 - weight) * all_inside, slope


@dataclasses.dataclass(frozen=True, kw_only=True)
class CompPrivUnitG(Mechanism):
    """PrivUnitG with reports of 64 bits: the seed of a Gaussian vector.

    Its error is that of PrivUnitG at ε(1 - 2^-12). Randomising computes the same number of Gaussian vectors for every
    input, about ln(1/(1-p))/q₁, which grows like e^ε: about 4600 at ε = 10. A report is one of 2^64 seeds, so the
    guarantee does not depend on the last bits of floats; it assumes that caps contain SplitMix64's vectors as often as
    Gaussian ones; see `streamsketch.local.compressed.Compression`. Source: Feldman and Talwar 2021; Asi et al. 2023,
    Appendix H.

    Parameters
    ----------
    dim, ball
        As in `Mechanism`.
    epsilon
        As in `Mechanism`, and at most 20.
    seed
        Public, 0 to 2^64 - 1: selects the candidates' vectors.

    Raises
    ------
    InvalidInputError
        If a field is out of range.

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
        _ = self.compression  # raises if the parameters are out of range

    @functools.cached_property
    def compression(self) -> Compression:
        """The choice among candidates."""
        return Compression(self.sphere_dim, self.epsilon, salt(self.seed, f"{self.kind}/candidates"))

    @property
    def cap(self) -> GaussianCap:
        """The cap's parameters at ε(1 - 2^-12)."""
        return self.compression.cap

    @property
    def layout(self) -> Layout:
        """One seed."""
        return Layout(1, "uint64", seeded=False)

    @property
    def squared_error(self) -> float:
        """d·τ² + g·τ - 1, exactly (Theory 7)."""
        return self.cap.squared_norm(self.sphere_dim) - 1

    @property
    def longest_contribution(self) -> float:
        """√d times the largest scaled Gaussian, for any seed; see `Mechanism.longest_contribution`."""
        return self.compression.longest

    def fill(self, units: Floats, bits: BitSource, seeds: Words, values: Values) -> None:
        """Write reports; see `Mechanism.fill`."""
        del seeds  # unused: the candidate's seed is the private value
        lengths = np.sqrt(dot_rows(units, units))
        values[:, 0] = self.compression.seeds(units / lengths[:, np.newaxis], bits)

    def contributions(self, seeds: Words, values: Values) -> Floats:
        """Return the vectors of the reported seeds; see `Mechanism.contributions`."""
        del seeds
        return self.compression.vectors(values[:, 0])


@kernel
def candidates_along(units: Floats, seeds: Words, salted: np.uint64, out: Floats) -> None:
    """Write ⟨g, u⟩ for every candidate g of each row u of ``units``: (n, m)."""
    scratch, candidate = np.empty(units.shape[1], dtype=np.uint64), np.empty(units.shape[1])
    for i in range(seeds.shape[0]):
        for trial in range(seeds.shape[1]):
            gaussian_vector(seeds[i, trial], salted, scratch, candidate)
            along = 0.0
            for j in range(candidate.size):
                along += candidate[j] * units[i, j]
            out[i, trial] = along


@kernel
def keep_last(seeds: Words, along: Floats, threshold: float, last: Words, seen: Bytes) -> None:
    """Write the last seed below the threshold and the last at or above it for each row, (n, 2), and which exist."""
    for i in range(seeds.shape[0]):
        for trial in range(seeds.shape[1]):
            kind = np.int64(along[i, trial] >= threshold)
            last[i, kind] = seeds[i, trial]
            seen[i, kind] = 1


register(CompPrivUnitG)
