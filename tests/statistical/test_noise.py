"""Goodness of fit of the samplers to the exact laws, beside OpenDP's samplers, and of broken samplers.

Secrets are fixed, so each test but OpenDP's gives the same result for ever; had the secret been drawn anew, a sound
sampler would fail one of them once in 10^6 times. OpenDP's randomness cannot be seeded: there it is 10^9.
"""

import functools
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import opendp.prelude as dp
import pytest
from numpy.typing import NDArray
from scipy import stats

from streamsketch.privacy import samplers as sampling
from streamsketch.privacy.gaussian import DiscreteGaussian
from streamsketch.privacy.laplace import DiscreteLaplace
from streamsketch.privacy.noise import Noise, NoiseMoments
from streamsketch.privacy.samplers import Table
from tests.audit.record import judged
from tests.noise import salted_bits, salted_rng
from tests.oracles import naive_noise

pytestmark = pytest.mark.rejects(1e-6)


SECRET = b"goodness of fit needs no secrecy"
SAMPLES = 700_000
FALSE_REJECTS = 1e-6

LAPLACE = [DiscreteLaplace(Fraction(scale)) for scale in ("1/3", "1", "4", "40", "100000")]
GAUSSIAN = [DiscreteGaussian(Fraction(variance)) for variance in ("3", "25/2", "107", "1000000")]
NOISES: list[Noise] = [*LAPLACE, *GAUSSIAN]

Ints = NDArray[np.int64]

dp.enable_features("contrib")


@functools.cache
def drawn(noise: Noise) -> Ints:
    return noise.sample(SAMPLES, salted_bits(str(noise).encode(), SECRET))


@functools.cache
def law(noise: Noise) -> tuple[Ints, NDArray[np.float64]]:
    """Return the support, from a place where the tail is below 1e-15, and the mass of each of its points."""
    if isinstance(noise, DiscreteGaussian):
        return naive_noise.gaussian_masses(noise.sigma_squared)
    scale = float(noise.scale)
    support = np.arange(-int(40 * scale) - 3, int(40 * scale) + 4)
    return support, np.exp(-np.abs(support) / scale) * np.tanh(1 / (2 * scale))


@functools.cache
def bins_of(noise: Noise) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Return the bin of each integer of a law's support, and the bins' probabilities."""
    _, masses = law(noise)
    below = np.minimum(np.cumsum(masses), 1.0) - masses
    bins = np.cumsum(np.diff(np.floor(below * 500), prepend=0) > 0, dtype=np.int32)
    return bins, np.bincount(bins, masses)


def fit(samples: Ints, noise: Noise) -> float:
    """Return the p-value of a χ² test of samples against a noise's exact law.

    The bins are single integers where those are likely, and runs of integers of probability 1/500 elsewhere.
    """
    support, _ = law(noise)
    bins, chances = bins_of(noise)
    expected = chances * samples.size
    places = np.clip(samples - support[0], 0, support.size - 1)
    observed = np.bincount(bins[places], minlength=expected.size)
    if expected[-1] < samples.size / 1000:  # what was left for the last bin
        expected = np.append(expected[:-2], expected[-2:].sum())
        observed = np.append(observed[:-2], observed[-2:].sum())
    return float(stats.chisquare(observed, expected * (samples.size / expected.sum())).pvalue)


# --- sound samplers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_samples_fit_the_exact_law(noise: Noise) -> None:
    p_value = fit(drawn(noise), noise)
    judged(p_value - FALSE_REJECTS, SAMPLES)
    assert p_value > FALSE_REJECTS


@pytest.mark.parametrize("noise", [LAPLACE[-1], GAUSSIAN[-1]], ids=str)
def test_wide_noise_fits_the_exact_distribution_function_and_favours_no_residue(noise: Noise) -> None:
    samples = drawn(noise)
    support, masses = law(noise)
    below = np.cumsum(np.bincount(samples - support[0], minlength=support.size)) / SAMPLES
    distance = np.abs(below - np.cumsum(masses)).max()
    assert stats.kstwobign.sf(distance * SAMPLES**0.5) > FALSE_REJECTS / 2  # conservative for a discrete law
    residues = np.bincount(samples % 256, minlength=256)
    assert stats.chisquare(residues).pvalue > FALSE_REJECTS / 2


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_tails_are_as_heavy_as_they_should_be(noise: Noise) -> None:
    """One-sided counts beyond points that about 1000, 100 and 10 of the samples should pass."""
    samples = drawn(noise)
    support, masses = law(noise)
    beyond = np.cumsum(masses[::-1])[::-1]
    for wanted in (1000, 100, 10):
        point = int(np.searchsorted(-beyond, -wanted / SAMPLES))
        for side in (samples, -samples):
            count = int((side >= support[point]).sum())
            tail = stats.binom(SAMPLES, beyond[point])
            assert min(tail.cdf(count), tail.sf(count - 1)) > FALSE_REJECTS / 12


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_signs_are_fair_whatever_the_magnitude(noise: Noise) -> None:
    samples = drawn(noise)
    sizes = np.abs(samples[samples != 0])
    middle = np.median(sizes)
    for part in (samples[np.abs(samples) > middle], samples[(samples != 0) & (np.abs(samples) <= middle)]):
        assert stats.binomtest(int((part > 0).sum()), part.size).pvalue > FALSE_REJECTS / 2


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_neighbouring_samples_are_independent(noise: Noise) -> None:
    samples = drawn(noise)
    edges = np.unique(np.quantile(samples, [0.1, 0.3, 0.5, 0.7, 0.9]))
    bins = np.digitize(samples, edges)
    count = int(bins.max()) + 1
    for lag in (1, 2):
        pairs = bins[: -lag : lag + 1] * count + bins[lag :: lag + 1]  # pairs that share no sample
        observed = np.bincount(pairs, minlength=count**2).reshape(count, count)
        observed = observed[observed.sum(axis=1) > 0][:, observed.sum(axis=0) > 0]
        assert stats.chi2_contingency(observed).pvalue > FALSE_REJECTS / 2


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_sample_moments_are_the_cumulants(noise: Noise) -> None:
    samples = drawn(noise).astype(np.float64)
    cumulants = noise.cumulants
    fourth = cumulants.k4 + 3 * cumulants.k2**2
    assert abs(samples.mean()) < 5 * (cumulants.k2 / SAMPLES) ** 0.5
    squares = samples * samples
    assert abs(squares.mean() - cumulants.k2) < 5 * ((fourth - cumulants.k2**2) / SAMPLES) ** 0.5
    fourths = squares * squares
    assert abs(fourths.mean() - fourth) < 5 * fourths.std() / SAMPLES**0.5


# --- the cumulants are the laws' ------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["1/8", "1/3", "1", "7/5", "4", "40"])
def test_laplace_cumulants_are_the_sums_over_the_exact_law(scale: str) -> None:
    exact = Fraction(scale)
    second, fourth = naive_noise.moments(lambda n: naive_noise.laplace_pmf(exact, n), int(80 * max(exact, 1)))
    cumulants = DiscreteLaplace(exact).cumulants
    assert cumulants.k2 == pytest.approx(float(second), rel=1e-12)
    assert cumulants.k4 == pytest.approx(float(fourth), rel=1e-12)


def test_wide_laplace_cumulants_tend_to_the_continuous_ones() -> None:
    cumulants = DiscreteLaplace(Fraction(10**6)).cumulants
    assert cumulants.k2 == pytest.approx(2e12, rel=1e-11)
    assert cumulants.k4 == pytest.approx(12e24, rel=1e-11)


@pytest.mark.parametrize("variance", ["1/2", "3", "1023/256", "4", "25/2", "107"])
def test_gaussian_cumulants_are_the_sums_over_the_exact_law(variance: str) -> None:
    exact = Fraction(variance)
    second, fourth = naive_noise.moments(
        lambda n: naive_noise.gaussian_pmf(exact, n), int(20 * float(exact) ** 0.5) + 20
    )
    cumulants = DiscreteGaussian(exact).cumulants
    assert cumulants.k2 == pytest.approx(float(second), rel=1e-13)
    assert cumulants.k4 == pytest.approx(float(fourth), rel=1e-9, abs=float(second) ** 2 * 1e-14)


def test_the_exact_laws_sum_to_one() -> None:
    for total in (
        mpmath.fsum(naive_noise.laplace_pmf(Fraction(7, 5), n) for n in range(-300, 301)),
        mpmath.fsum(naive_noise.gaussian_pmf(Fraction(25, 2), n) for n in range(-90, 91)),
    ):
        assert abs(total - 1) < mpmath.mpf(10) ** -50
    for noise in NOISES:
        assert law(noise)[1].sum() == pytest.approx(1, abs=1e-11)


def test_cumulants_of_independent_noises_add_and_scale() -> None:
    total = NoiseMoments(2.0, 12.0) + NoiseMoments(3.0, -1.0)
    assert total == NoiseMoments(5.0, 11.0)
    assert total.scaled(-2) == NoiseMoments(20.0, 176.0)
    assert NoiseMoments() == NoiseMoments(0.0, 0.0)


# --- beside OpenDP --------------------------------------------------------------------------------------------

BESIDE = 20_000  # samples of each: a variance off by a quarter is seen, which is tested


def two_sample(one: Ints, other: Ints) -> float:
    """Return the p-value of a χ² test of homogeneity, on bins of about 200 pooled samples or single integers."""
    pooled = np.sort(np.concatenate([one, other]))
    edges = np.unique(pooled[200:-200:200])
    counts = [np.bincount(np.digitize(samples, edges), minlength=edges.size + 1) for samples in (one, other)]
    table = np.array(counts)
    return float(stats.chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue)


@pytest.mark.parametrize("scale", [1.0, 40.0])
def test_laplace_samples_are_distributed_as_opendps(scale: float) -> None:
    measurement = dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int), scale=scale)
    theirs = np.array(measurement([0] * BESIDE))
    ours = DiscreteLaplace(Fraction(scale)).sample(BESIDE, salted_bits(b"beside OpenDP", SECRET))
    assert two_sample(ours, theirs) > 1e-9  # OpenDP's are new ones at each run
    assert two_sample(ours * 2, theirs) < 1e-12  # the test sees a wrong scale


@pytest.mark.parametrize("sigma", [2.0, 31.5])
def test_gaussian_samples_are_distributed_as_opendps(sigma: float) -> None:
    measurement = dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float), scale=sigma)
    theirs = np.array(measurement([0] * BESIDE))
    ours = DiscreteGaussian(Fraction(sigma) ** 2).sample(BESIDE, salted_bits(b"beside OpenDP", SECRET))
    assert two_sample(ours, theirs) > 1e-9
    narrower = DiscreteGaussian(Fraction(sigma) ** 2 * Fraction(3, 4)).sample(BESIDE, salted_bits(b"narrower", SECRET))
    assert two_sample(narrower, theirs) < 1e-12


# --- the same tests see broken samplers -----------------------------------------------------------------------


def table_of(noise: Noise) -> Table:
    if isinstance(noise, DiscreteGaussian):
        return sampling.gaussian_table(noise.sigma_squared)
    return sampling.laplace_table(noise.amount)


@pytest.mark.parametrize("noise", LAPLACE[1:], ids=str)
def test_a_sampler_that_stops_at_the_first_word_is_caught_by_its_tail(noise: Noise) -> None:
    """So is one that begins anew from fresh bytes where a buffer of two bytes ends."""
    table, bits = table_of(noise), salted_bits(b"first words", SECRET)
    short = Table(table.shape)
    short.words = short.words._replace(rest=0)
    samples = sampling.draw(short.fill, SAMPLES, bits, short.bytes_for)
    end = (int(table.words.first.max()) + 1) << table.shape.shift  # of what first words draw
    tail = stats.binom(SAMPLES, 2 * naive_noise.laplace_tail(noise.amount, np.array([end]))[0])
    assert tail.cdf((np.abs(samples) >= end).sum()) < 1e-6
    assert tail.cdf((np.abs(drawn(noise)) >= end).sum()) > 1e-2


@pytest.mark.parametrize("noise", LAPLACE[3:], ids=str)
def test_a_sampler_without_coins_within_its_blocks_is_caught(noise: Noise) -> None:
    table, bits = table_of(noise), salted_bits(b"no coins", SECRET)
    shift = table.shape.shift
    assert shift > 0
    blocks = drawn(noise) >> shift
    low = np.frombuffer(bits.read(8 * SAMPLES), dtype=np.uint64).astype(np.int64) & ((1 << shift) - 1)
    assert fit((blocks << shift) + low, noise) < FALSE_REJECTS


@pytest.mark.parametrize("noise", [*LAPLACE[1:3], GAUSSIAN[0]], ids=str)
def test_a_sampler_that_keeps_minus_zero_is_caught(noise: Noise) -> None:
    samples = drawn(noise)
    assert fit(np.where(samples < 0, samples + 1, samples), noise) < 1e-12


Rounded = Callable[[np.random.Generator], NDArray[np.float64]]


@pytest.mark.parametrize(
    ("noise", "continuous"),
    [
        (LAPLACE[2], lambda generator: generator.laplace(scale=4, size=SAMPLES)),
        (GAUSSIAN[0], lambda generator: generator.normal(scale=3**0.5, size=SAMPLES)),
    ],
    ids=["Laplace", "Gaussian"],
)
def test_rounded_continuous_noise_is_caught(noise: Noise, continuous: Rounded) -> None:
    rounded = np.rint(continuous(salted_rng(7))).astype(np.int64)
    assert fit(rounded, noise) < 1e-12


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_noise_two_percent_too_narrow_is_caught(noise: Noise) -> None:
    narrow: Noise
    if isinstance(noise, DiscreteLaplace):
        narrow = DiscreteLaplace(noise.scale * Fraction(98, 100))
    else:
        narrow = DiscreteGaussian(Fraction(round(noise.sigma_squared * 256 * Fraction(96, 100)), 256))
    samples = narrow.sample(SAMPLES, salted_bits(b"narrow", SECRET))
    assert fit(samples, noise) < 1e-9
