"""ε-LDP of every mechanism, by its exact law or by enumeration; and each check catches a broken variant.

Sampled laws are tested at 6 standard errors or p > 1e-7, with fixed bits.
"""

import itertools
import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from streamsketch.errors import InvalidInputError
from streamsketch.local import SQKR, CompPrivUnitG, GaussianMechanism, PrivHS, PrivUnit, PrivUnitG, ProjUnit, RePrivHS
from streamsketch.local import randomized_response as response
from streamsketch.local.compressed import shares, spent
from streamsketch.local.parameters import GaussianCap, gaussian_cap, sphere_cap
from streamsketch.local.random_words import uniforms
from tests.local.directions import bits, directions, repeated
from tests.noise import salted_rng
from tests.oracles import naive_local

pytestmark = pytest.mark.rejects(1e-6)


ALL = 2**64
epsilons = st.floats(2.0**-10, 40)


def allows(ratio: Fraction, epsilon: float) -> bool:
    """Return whether a ratio of probabilities is at most e^ε, exactly."""
    with mpmath.workdps(80):
        return bool(mpmath.mpf(ratio.numerator) / ratio.denominator <= mpmath.exp(mpmath.mpf(epsilon)))


# --- randomised response: exact probabilities of every output -------------------------------------------------


def flip_ratio(words: int) -> Fraction:
    """Return P(kept) / P(flipped)."""
    return Fraction(ALL - words, words)


def answer_ratio(words: int, choices: int) -> Fraction:
    """Return P(an answer | it is true) / P(the answer | another is)."""
    lie = Fraction(ALL - words, ALL) / choices
    return (Fraction(words, ALL) + lie) / lie


@given(epsilons)
def test_flipped_bits_are_private_and_no_word_more_than_they_must(epsilon: float) -> None:
    words = PrivHS(dim=4, epsilon=epsilon).flipping
    assert allows(flip_ratio(words), epsilon)
    assert not allows(flip_ratio(words - 1), epsilon)  # the check catches one word too few


@given(epsilons)
def test_answers_are_private_and_no_word_more_than_they_must(epsilon: float) -> None:
    mechanism = SQKR(dim=64, epsilon=epsilon)
    choices = 2**mechanism.bits_told
    assert allows(answer_ratio(mechanism.telling, choices), epsilon)
    assert not allows(answer_ratio(mechanism.telling + 1, choices), epsilon)


@given(epsilons, st.integers(1, 20))
def test_repetitions_share_epsilon(epsilon: float, repetitions: int) -> None:
    mechanism = RePrivHS(dim=4, epsilon=epsilon, repetitions=repetitions)
    assert allows(flip_ratio(mechanism.flipping) ** repetitions, epsilon)
    with_one_more = flip_ratio(mechanism.flipping) ** (repetitions + 1)
    assert not allows(with_one_more, epsilon)


def outputs_of(mechanism: Any, vector: np.ndarray, tapes: Iterable[list[int]]) -> list[list[int]]:
    """Return the bits reported with each tape of secret words."""
    return [mechanism.randomize(vector, bits=naive_local.Words(tape)).values.tolist() for tape in tapes]


def test_priv_hs_flips_for_exactly_those_words() -> None:
    """All outputs of one seed, for v and for -v: the words at the edges decide, and only they."""
    mechanism, vector = PrivHS(dim=8, epsilon=1.5), directions(8)["gaussian"]
    edges = [0, mechanism.flipping - 1, mechanism.flipping, ALL - 1]
    kept = outputs_of(mechanism, vector, [[99, ALL - 1]])[0][0]
    for sign, side in ((1, kept), (-1, 1 - kept)):
        found = outputs_of(mechanism, sign * vector, [[99, word] for word in edges])
        assert found == [[1 - side], [1 - side], [side], [side]]


def test_re_priv_hs_flips_each_bit_by_its_own_word() -> None:
    mechanism, vector = RePrivHS(dim=8, epsilon=6.0), directions(8)["gaussian"]
    flip, keep = mechanism.flipping - 1, mechanism.flipping
    kept = outputs_of(mechanism, vector, [[99, keep, keep, keep]])[0]
    for pattern in np.ndindex(2, 2, 2):
        tape = [99] + [flip if bit else keep for bit in pattern]
        assert outputs_of(mechanism, vector, [tape])[0] == [side ^ bit for side, bit in zip(kept, pattern, strict=True)]


def test_sqkr_tells_the_truth_for_exactly_those_words() -> None:
    """Three bits: words at the edges choose between the quantised bits and the uniform ones, all eight of them."""
    mechanism, vector = SQKR(dim=8, epsilon=3.0, rotation="hadamard"), directions(8)["gaussian"]
    zeros, ones = [0, 0, 0], [ALL - 1] * 3  # a coefficient inside (-K, K) is rounded up by 0, down by 2^64 - 1
    for last, honest in ((0, True), (mechanism.telling - 1, True), (mechanism.telling, False), (ALL - 1, False)):
        for pattern in np.ndindex(2, 2, 2):
            uniform = [bit << 63 for bit in pattern]
            for rounding, truth in ((zeros, [1, 1, 1]), (ones, [0, 0, 0])):
                found = outputs_of(mechanism, vector, [[99, *rounding, *uniform, last]])[0]
                assert found == (truth if honest else list(pattern))


def test_the_seed_of_bits_is_drawn_without_regard_to_the_vector() -> None:
    for mechanism in (PrivHS(dim=8, epsilon=1.5), SQKR(dim=8, epsilon=3.0), ProjUnit(dim=8, epsilon=3.0, sketch_dim=2)):
        words = [12345, *range(1, 20)]
        found = {mechanism.randomize(vector, bits=naive_local.Words(words)).seed for vector in directions(8).values()}
        assert found == {12345}


# --- PrivUnit and PrivUnitG: the density ratio ------------------------------------------------------------------


def density_ratio(inside: float, mass: float) -> float:
    """Return the largest ratio of densities at one output: in the cap of v, outside that of v'."""
    return inside / mass * (1 - mass) / (1 - inside)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 16.0])
@pytest.mark.parametrize("family", [PrivUnit, PrivUnitG])
def test_the_density_ratio_is_e_to_the_epsilon(family: type[Any], epsilon: float) -> None:
    cap = family(dim=100, epsilon=epsilon).cap
    assert density_ratio(cap.inside, cap.mass) == pytest.approx(math.exp(epsilon), rel=1e-8)
    assert density_ratio(cap.inside + (1 - cap.inside) * 0.01, cap.mass) > math.exp(epsilon) * 1.005


@pytest.mark.parametrize("epsilon", [2.0**-10, 1.0, 16.0, 64.0, 256.0])
@pytest.mark.parametrize("family", [PrivUnit, PrivUnitG])
@pytest.mark.parametrize("dim", [2, 3, 1000])
def test_coins_put_no_more_in_the_cap_than_epsilon_allows(family: type[Any], dim: int, epsilon: float) -> None:
    """By the number of words: a p within 2^-53 of 1 would never leave the cap, whatever ε is."""
    cap = family(dim=dim, epsilon=epsilon).cap
    words = Fraction(cap.inside) * 2**52  # uniforms are (i + ½)/2^52
    assert words.denominator == 1
    edges = uniforms(np.array([int(words) - 1 << 12, int(words) << 12], dtype=np.uint64)) < cap.inside
    assert edges.tolist() == [True, False]
    spent = exactly_spent(cap.inside, cap.mass)
    assert spent <= epsilon
    assert spent >= epsilon - 2e-5  # at most 24 of it are spent on p, one of 2^16 words outside


@pytest.mark.parametrize("cap", [sphere_cap, gaussian_cap])
@pytest.mark.parametrize("dim", [2, 1000, 1 << 22])
def test_rounding_spends_no_more_than_epsilon(cap: Callable[[int, float], Any], dim: int) -> None:
    """Of the law in real numbers, at the p and q₁ that the sampler has: not by a last digit."""
    for epsilon in [2.0**power for power in range(-10, 9)] + [2.0**-10 * 1.37**step for step in range(39)]:
        found = cap(dim, epsilon)
        assert exactly_spent(found.inside, found.mass) <= epsilon


def exactly_spent(probability: float, share: float) -> Any:
    inside, mass = Fraction(probability), Fraction(share)
    with mpmath.workdps(50):
        ratio = inside / (1 - inside) * (1 - mass) / mass
        return mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator)


def heights_pvalue(mechanism: PrivUnitG, sampled_with: GaussianCap, vector: np.ndarray) -> float:
    """Return how likely ⟨V, v⟩ of reports made with a cap is under the mechanism's law, by Kolmogorov and Smirnov."""
    object.__setattr__(mechanism, "cap", sampled_with)
    values = mechanism.randomize_many(repeated(vector, 20000), bits=bits("heights")).values.astype(np.float64)
    object.__delattr__(mechanism, "cap")
    cap = mechanism.cap
    heights = values @ vector / sampled_with.scale

    def law(height: np.ndarray) -> np.ndarray:
        below = np.minimum(stats.norm.cdf(height), 1 - cap.mass) * (1 - cap.inside) / (1 - cap.mass)
        return below + np.maximum(0, cap.mass - stats.norm.sf(height)) * cap.inside / cap.mass

    return float(stats.kstest(heights, law).pvalue)


@pytest.mark.parametrize("epsilon", [1.0, 4.0, 10.0])
def test_heights_of_priv_unit_g_have_that_law(epsilon: float) -> None:
    mechanism, vector = PrivUnitG(dim=16, epsilon=epsilon), directions(16)["sparse"]
    cap = mechanism.cap
    assert heights_pvalue(mechanism, cap, vector) > 1e-7
    broken = cap._replace(inside=cap.inside + 0.6 * (1 - cap.inside))  # spends more than ε
    assert heights_pvalue(mechanism, broken, vector) < 1e-7
    shifted = cap._replace(mass=cap.mass * 0.8)  # a smaller cap than was paid for
    assert heights_pvalue(mechanism, shifted, vector) < 1e-7


def test_across_the_vector_priv_unit_g_is_gaussian_whatever_the_vector() -> None:
    for vector in directions(16).values():
        mechanism = PrivUnitG(dim=16, epsilon=4.0)
        values = mechanism.randomize_many(repeated(vector, 4000), bits=bits("across")).values / mechanism.cap.scale
        basis = np.linalg.svd(vector[np.newaxis])[2][1:]  # the rows across v
        assert stats.kstest((values @ basis.T).ravel(), "norm").pvalue > 1e-7


def test_heights_of_priv_unit_have_the_caps_law() -> None:
    mechanism, vector = PrivUnit(dim=8, epsilon=4.0), directions(8)["ones"]
    values = mechanism.randomize_many(repeated(vector, 20000), bits=bits("caps")).values.astype(np.float64)
    assert np.linalg.norm(values, axis=1) * mechanism.cap.mean == pytest.approx(np.ones(20000), rel=1e-5)
    heights, cap = values @ vector * mechanism.cap.mean, mechanism.cap
    inside = heights >= cap.threshold
    assert abs(inside.mean() - cap.inside) < 6 * math.sqrt(cap.inside * (1 - cap.inside) / 20000)
    free = stats.beta(3.5, 3.5, loc=-1, scale=2)  # the height of a uniform point of the sphere of R^8
    assert stats.kstest(free.sf(heights[inside]) / cap.mass, "uniform").pvalue > 1e-7
    assert stats.kstest(free.cdf(heights[~inside]) / (1 - cap.mass), "uniform").pvalue > 1e-7


# --- the compressed form: the law of the choice -----------------------------------------------------------------


def chosen_law(mechanism: CompPrivUnitG, vector: np.ndarray, pool: list[int]) -> dict[int, Fraction]:
    """Return P(seed) where candidates are uniform in ``pool``, by running every tape of candidates with both coins."""
    compression = mechanism.compression
    coins = {0: Fraction(compression.insiders, ALL), ALL - 1: Fraction(ALL - compression.insiders, ALL)}
    law = dict.fromkeys(pool, Fraction(0))
    for candidates in itertools.product(pool, repeat=compression.trials):
        for coin, probability in coins.items():
            tape = naive_local.Words([coin, *candidates])
            found = int(mechanism.randomize(vector, bits=tape).values[0])
            law[found] += probability / len(pool) ** compression.trials
    return law


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0])
@pytest.mark.parametrize("insiders", [1, 2, 3])
def test_a_choice_among_candidates_has_the_law_that_is_accounted_for(epsilon: float, insiders: int) -> None:
    """Exactly: κ Σ (1-Q)^i + (1-κ) Q^(n-1) over the pool's size in the cap, and its mirror image outside."""
    mechanism, vector = CompPrivUnitG(dim=8, epsilon=epsilon, seed=3), directions(8)["gaussian"]
    seeds = np.arange(40, dtype=np.uint64)
    heights = mechanism.compression.vectors(seeds) @ vector / mechanism.cap.scale
    in_cap = [int(seed) for seed in seeds[heights >= mechanism.cap.threshold]][:insiders]
    outside = [int(seed) for seed in seeds[heights < mechanism.cap.threshold]][: 4 - insiders]
    share, n = Fraction(insiders, 4), mechanism.compression.trials
    kappa = Fraction(mechanism.compression.insiders, ALL)
    dense = kappa * sum((1 - share) ** i for i in range(n)) + (1 - kappa) * share ** (n - 1)
    thin = (1 - kappa) * sum(share**i for i in range(n)) + kappa * (1 - share) ** (n - 1)
    expected = dict.fromkeys(in_cap, dense / 4) | dict.fromkeys(outside, thin / 4)
    assert chosen_law(mechanism, vector, in_cap + outside) == expected


def exact_densities(q: Any, trials: int, kappa: Any) -> tuple[Any, Any]:
    inside = kappa * (1 - (1 - q) ** trials) + (1 - kappa) * q**trials
    return inside / q, (1 - inside) / (1 - q)


@pytest.mark.parametrize("epsilon", [2.0**-10, 0.1, 1.0, 4.0, 10.0, 16.0])
@pytest.mark.parametrize("dim", [2, 64, 1000])
def test_the_choice_spends_no_more_than_epsilon(epsilon: float, dim: int) -> None:
    """Of caps that hold any share of the seeds within the bounds, in many digits; and nearly all of it is used."""
    compression = CompPrivUnitG(dim=dim, epsilon=epsilon).compression
    cap, n = compression.cap, compression.trials
    bounds = shares(cap.mass, dim)
    stated = spent(cap.mass, bounds, n, compression.insiders / ALL)
    with mpmath.workdps(60):
        kappa = mpmath.mpf(compression.insiders) / ALL
        for q in np.linspace(*bounds, 5):
            for other in np.linspace(*bounds, 5):
                here, there = exact_densities(mpmath.mpf(q), n, kappa), exact_densities(mpmath.mpf(other), n, kappa)
                assert mpmath.log(max(here) / min(there)) <= stated * (1 + 1e-12)
        at_mass = exact_densities(mpmath.mpf(cap.mass), n, kappa)
        assert abs(at_mass[0] * cap.mass / cap.inside - 1) < 1e-12  # p, as PrivUnitG has it
        assert mpmath.log(at_mass[0] / at_mass[1]) > epsilon * (1 - 2.0**-11)
    assert stated <= epsilon
    assert spent(cap.mass, bounds, n, min(1.0, 1.001 * compression.insiders / ALL)) > stated


@pytest.mark.parametrize("epsilon", [1.0, 4.0, 8.0])
def test_reported_candidates_are_in_the_cap_with_probability_p(epsilon: float) -> None:
    mechanism = CompPrivUnitG(dim=10, epsilon=epsilon, seed=3)
    cap, people = mechanism.cap, 600
    for vector in directions(10).values():
        reports = mechanism.randomize_many(repeated(vector, people), bits=bits(epsilon))
        heights = mechanism.contributions(reports.seeds, reports.values) @ vector / cap.scale
        share = (heights >= cap.threshold).mean()
        assert abs(share - cap.inside) < 6 * math.sqrt(cap.inside * (1 - cap.inside) / people)
        inside = stats.norm.sf(heights[heights >= cap.threshold]) / cap.mass
        assert stats.kstest(inside, "uniform").pvalue > 1e-7


def test_the_margin_covers_uneven_candidates_or_the_mechanism_is_refused() -> None:
    for dim, epsilon in ((64, 20.0), (1 << 15, 16.0), (1 << 24, 4.0), (1 << 24, 10.0)):
        compression = CompPrivUnitG(dim=dim, epsilon=epsilon).compression
        mass = compression.cap.mass
        assert spent(mass, shares(mass, dim), compression.trials, compression.insiders / ALL) <= epsilon
    for dim, epsilon in ((1 << 20, 16.0), (1 << 15, 20.0)):
        with pytest.raises(InvalidInputError, match="evenly enough"):
            CompPrivUnitG(dim=dim, epsilon=epsilon)
    mass = gaussian_cap(1 << 24, 40.0).mass
    assert spent(mass, shares(mass, 1 << 24), 1 << 60, 0.999) == math.inf


@pytest.mark.parametrize(("dim", "epsilon"), [(2, 2.0**-10), (2, 20.0), (1000, 10.0), (1 << 20, 16.0)])
def test_shares_are_those_of_relative_deviations(dim: int, epsilon: float) -> None:
    """The fullest and the emptiest cap that 4·S(2m)·e^(-mη²/4) ≤ e^-50/2^65 leaves, in many digits."""
    cap = gaussian_cap(dim, epsilon)
    with mpmath.workdps(60):
        m, q = mpmath.mpf(2) ** 64, mpmath.mpf(cap.mass)
        subsets = (2 * mpmath.e * m / (dim + 1)) ** (dim + 1)
        eta = mpmath.sqrt(4 / m * mpmath.log(4 * subsets * mpmath.mpf(2) ** 65 * mpmath.e**50))
        emptiest = q - eta * mpmath.sqrt(q)
        fullest = ((eta + mpmath.sqrt(eta**2 + 4 * q)) / 2) ** 2
        for found, exact in zip(shares(cap.mass, dim), (emptiest, fullest), strict=True):
            assert abs((found - q) / (exact - q) - 1) < 1e-5


# --- the Gaussian mechanism ---------------------------------------------------------------------------------------


@given(st.integers(2, 40), st.integers(0, 2**32 - 1), st.floats(0.1, 8))
def test_rounded_vectors_are_no_further_apart_than_the_noise_is_calibrated_to(
    dim: int, seed: int, epsilon: float
) -> None:
    mechanism = GaussianMechanism(dim=dim, epsilon=epsilon, delta=1e-6)
    one = salted_rng(seed).normal(size=dim)
    one /= np.linalg.norm(one)
    steps = 2.0**mechanism.fraction_bits
    distance = np.linalg.norm(np.rint(one * steps) - np.rint(-one * steps))
    needed = gaussian_sigma(epsilon) * distance
    assert float(mechanism.noise.sigma_squared) >= needed**2
    assert float(mechanism.noise.sigma_squared) < 1.01 * needed**2 + 8


def gaussian_sigma(epsilon: float) -> float:
    """Return the least σ that makes N(0, σ²) (ε, 10^-6)-DP at distance 1, by bisection (Balle and Wang 2018)."""
    low, high = 1e-3, 1e3
    for _ in range(100):
        middle = (low + high) / 2
        delta = stats.norm.cdf(1 / (2 * middle) - epsilon * middle)
        delta -= math.exp(epsilon) * stats.norm.cdf(-1 / (2 * middle) - epsilon * middle)
        low, high = (middle, high) if delta > 1e-6 else (low, middle)
    return high


# --- what floats do -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "build",
    [
        lambda: PrivHS(dim=6, epsilon=2.0),
        lambda: SQKR(dim=6, epsilon=2.0),
        lambda: SQKR(dim=6, epsilon=2.0, rotation="hadamard"),
        lambda: CompPrivUnitG(dim=6, epsilon=2.0),
        lambda: ProjUnit(dim=6, epsilon=2.0, sketch_dim=3, compressed=True),
        lambda: GaussianMechanism(dim=6, epsilon=2.0, delta=1e-6),
    ],
)
def test_reports_free_of_floats_are_whole_numbers(build: Callable[[], Any]) -> None:
    assert build().layout.stored.kind in "iu"


def test_probabilities_are_those_of_the_words() -> None:
    drawn = np.array([0, 5, 6, 2**64 - 1], dtype=np.uint64)
    assert response.below(drawn, 6).tolist() == [True, True, False, False]
    assert response.below(drawn, 2**64).all()
    assert response.share(2**62) == 0.25
