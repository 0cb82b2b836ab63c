"""Shares of noise: so many independent ones add up to exactly one noise."""

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.special import gammaln

from streamsketch.errors import InvalidInputError
from streamsketch.privacy import Budget
from streamsketch.privacy import share_samplers as sampling
from streamsketch.privacy.exact_coins import bernoulli, exp_coin
from streamsketch.privacy.gaussian import DiscreteGaussian
from streamsketch.privacy.laplace import DiscreteLaplace
from streamsketch.privacy.mechanism import AddedNoise, Shares
from streamsketch.privacy.noise import Sensitivity
from streamsketch.privacy.samplers import SystemBits
from streamsketch.privacy.share_samplers import laplace_share
from tests.noise import salted_bits, salted_rng
from tests.oracles.sources import Given

pytestmark = pytest.mark.rejects(1e-5)


SUPPORT = 400


def share_pmf(scale: float, shares: int) -> NDArray[np.float64]:
    """Return P(n), |n| ≤ SUPPORT, of G - G' with G, G' negative binomial of shape 1/shares."""
    q, r, k = math.exp(-1 / scale), 1 / shares, np.arange(8 * SUPPORT)
    one = np.exp(gammaln(k + r) - gammaln(k + 1) - gammaln(r) + r * math.log1p(-q) + k * math.log(q))
    full = np.convolve(one, one[::-1])
    centre = len(one) - 1
    return np.asarray(full[centre - SUPPORT : centre + SUPPORT + 1])


def noise_pmf(scale: float) -> NDArray[np.float64]:
    q = math.exp(-1 / scale)
    return np.asarray((1 - q) / (1 + q) * q ** np.abs(np.arange(-SUPPORT, SUPPORT + 1)))


@pytest.mark.parametrize("shares", [1, 2, 3, 7])
@pytest.mark.parametrize("scale", [0.7, 3.3, 12.0])
def test_shares_add_up_to_the_noise_by_convolution(scale: float, shares: int) -> None:
    one = share_pmf(scale, shares)
    total = one
    for _ in range(shares - 1):
        total = np.convolve(total, one)[SUPPORT:-SUPPORT]
    assert total == pytest.approx(noise_pmf(scale), abs=1e-13)


def test_equal_shares_of_the_variance_as_plain_laplace_would_not_add_up() -> None:
    """The broken variant: each of n parties adds Laplace noise of 1/n of the variance."""
    variance = DiscreteLaplace(Fraction(33, 10)).cumulants.k2
    narrow = math.sqrt(1 / 4 + variance / 3 / 2)  # close to the scale of a third of the variance
    one = noise_pmf(narrow)
    total = np.convolve(np.convolve(one, one)[SUPPORT:-SUPPORT], one)[SUPPORT:-SUPPORT]
    losses = np.abs(np.diff(np.log(total[SUPPORT - 60 : SUPPORT + 61])))
    assert losses.max() > 1.5 / 3.3, "a shift by one step would cost half as much again as is stated"


@pytest.mark.parametrize(
    ("scale", "shares"),
    [(Fraction(1, 3), 2), (Fraction(7, 10), 50), (Fraction(7, 2), 1), (Fraction(12), 3), (Fraction(100), 10)],
)
def test_the_sampler_draws_the_share(scale: Fraction, shares: int) -> None:
    """False rejects: 5 at 1e-6, of 2e5 shares each."""
    drawn = laplace_share(scale, shares, 200_000, SystemBits())
    assert chi_square_of_shares(drawn, share_pmf(float(scale), shares)) > 1e-6


def chi_square_of_shares(drawn: NDArray[np.int64], pmf: NDArray[np.float64]) -> float:
    """Return the p-value of shares in cells with at least 20 expected, and in one with all others."""
    inside = pmf * drawn.size >= 20
    values = np.arange(-SUPPORT, SUPPORT + 1)[inside]
    observed = np.array([np.count_nonzero(drawn == value) for value in values])
    expected = pmf[inside] * drawn.size
    rest, rest_expected = drawn.size - observed.sum(), drawn.size - expected.sum()
    statistic = ((observed - expected) ** 2 / expected).sum() + (rest - rest_expected) ** 2 / max(rest_expected, 1)
    return float(stats.chi2.sf(statistic, len(values)))


@pytest.mark.parametrize(("far", "shares", "size"), [(2, 3, 10_000), (3, 1, 40_000)])
def test_points_far_out_are_drawn_with_the_probability_that_the_others_leave(
    far: int, shares: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tail from two or three octaves on is drawn as that from twelve on is; false rejects: 2 at 1e-6."""
    scale = Fraction(4)
    pmf = share_pmf(float(scale), shares)
    drawn = sampling.near_and_far(scale, shares, size, salted_bits(b"far"), far)
    assert chi_square_of_shares(drawn, pmf) > 1e-6
    monkeypatch.setattr(sampling, "far_points", lambda *_: [])  # as they were once left out
    cut = sampling.near_and_far(scale, shares, size, salted_bits(b"far"), far)
    assert np.abs(cut).max() < np.abs(drawn).max()
    assert chi_square_of_shares(cut, pmf) < 1e-6


def test_a_point_beyond_all_words_counts_modulo_two_to_the_64(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve octaves beyond a scale, all coins forced: what has a chance of e^-2000 takes no other path."""
    proposed = iter([1])
    monkeypatch.setattr(sampling, "poisson", lambda *_: next(proposed, 0))
    monkeypatch.setattr(sampling, "flip_exp", lambda exponent, _: exponent >= 0)
    tape = Given(b"\xff" * 48 + b"\0" * 99)  # 48 octaves more, and the least point of its octave
    ((cell, point),) = sampling.far_points(Fraction(1 << 32), 2, 32, 5, tape, 12)
    assert (cell, abs(point)) == (0, 1 << (32 + 12 + 48 - 1))
    monkeypatch.setattr(sampling, "far_points", lambda *_: [(3, (1 << 91) + 5), (3, -(1 << 63) - 2)])
    near = laplace_share(Fraction(1, 1000), 1000, 5, salted_bits(b"word"))
    assert near.tolist() == [0, 0, 0, 3 - (1 << 63), 0]


@pytest.mark.parametrize("exponent", [Fraction(1, 3), Fraction(1), Fraction(7, 3)])
def test_coins_of_any_size_are_those_of_the_kernels(exponent: Fraction) -> None:
    """Bit by bit, on the same bytes."""
    data = salted_rng(3).bytes(1 << 14)
    buffer, at, tape = np.frombuffer(data, dtype=np.uint8), 0, Given(data)
    for _ in range(200):
        bit, at = exp_coin(exponent.numerator, exponent.denominator, buffer, at)
        assert (sampling.flip_exp(exponent, tape), tape.at) == (bool(bit), at)
        bit, at = bernoulli(3, 7, buffer, at)
        assert (sampling.flip_coin(Fraction(3, 7), tape), tape.at) == (bool(bit), at)
        bit, at = sampling.two_over_e(buffer, at)
        assert (sampling.flip_two_over_e(tape), tape.at) == (bool(bit), at)


@pytest.mark.parametrize("sums", [250_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_sums_of_shares_fit_the_noise(sums: int) -> None:
    # chi-square of sums of 3 shares at scale 5, at 1e-6
    total = laplace_share(Fraction(5), 3, 3 * sums, SystemBits()).reshape(-1, 3).sum(axis=1)
    pmf = noise_pmf(5.0)[SUPPORT - 40 : SUPPORT + 41]
    observed = np.bincount(np.clip(total, -41, 41) + 41, minlength=83)
    expected = np.concatenate([[(1 - pmf.sum()) / 2], pmf, [(1 - pmf.sum()) / 2]]) * total.size
    assert stats.chisquare(observed, expected).pvalue > 1e-6


@pytest.mark.parametrize("mean", [(1, 1), (1, 2), (3, 7)])
def test_small_poisson_variables_have_their_probabilities_exactly(mean: tuple[int, int]) -> None:
    """Each proposal n and coin of `poisson_small` multiplies up to the Poisson probabilities."""
    numerator, denominator = mean
    half_mean = Fraction(numerator, 2 * denominator)
    kept = [
        Fraction(1, 2 ** (n + 1)) * math.prod(Fraction(numerator, denominator * i) for i in range(1, n + 1))
        for n in range(30)
    ]
    for n in range(20):
        assert kept[n] / kept[0] == half_mean**n / math.factorial(n)
    drawn = np.empty(100_000, dtype=np.int64)
    buffer, at = np.frombuffer(salted_rng(5).bytes(2_000_000), dtype=np.uint8), 0
    for i in range(drawn.size):
        drawn[i], at = sampling.poisson_small(numerator, denominator, buffer, at)
    observed = np.bincount(np.minimum(drawn, 4), minlength=5)
    pmf = stats.poisson.pmf(np.arange(4), float(half_mean))
    assert stats.chisquare(observed, np.append(pmf, 1 - pmf.sum()) * drawn.size).pvalue > 1e-6


def test_a_sample_that_is_cut_off_starts_again_at_its_own_first_byte() -> None:
    data = salted_rng(1).bytes(1 << 16)

    whole = laplace_share(Fraction(20), 3, 300, Given(data))
    assert np.array_equal(whole, laplace_share(Fraction(20), 3, 300, Given(data, 7)))


@pytest.mark.parametrize("shares", [2, 5, 50, 1000])
def test_gaussian_shares_are_exact_fractions_of_a_noise_that_is_wide_enough(shares: int) -> None:
    sensitivity, budget = Sensitivity(l1=40, l2_squared=400, cells=64), Budget(1.0, 1e-9)
    central = DiscreteGaussian.calibrated(sensitivity, budget)
    noise = DiscreteGaussian.calibrated_in_shares(sensitivity, budget, shares)
    assert noise.sigma_squared >= central.sigma_squared
    assert noise.sigma_squared / shares >= 3
    assert float(noise.sigma_squared) <= max(1.01 * float(central.sigma_squared), 3.0 * shares)
    drawn = sum(noise.sample_share(shares, 2000, SystemBits()) for _ in range(min(shares, 50)))
    ratio = drawn.var() / float(noise.sigma_squared) * shares / min(shares, 50)
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], 1999) / 1999
    assert low < ratio < high


def test_sums_of_gaussian_shares_differ_from_the_noise_by_less_than_the_calibration_covers() -> None:
    """Exact convolution of lattice Gaussians at the least variance of a share, against N_Z of the whole."""
    values = np.arange(-200, 201, dtype=np.longdouble)

    def pmf(variance: float) -> NDArray[np.longdouble]:
        weights = np.exp(-(values**2) / (2 * variance))
        return np.asarray(weights / weights.sum())

    total = one = pmf(3.0)
    for _ in range(4):
        total = np.convolve(total, one)[200:-200]
    near = np.abs(values) < 12
    assert np.abs(np.log(total[near] / pmf(15.0)[near])).max() < 6e-13


def test_shares_count_into_cumulants_and_words() -> None:
    noise = DiscreteLaplace(Fraction(4))
    added = AddedNoise(noise, shares=Shares(10, 9))
    assert added.cumulants.k2 == pytest.approx(noise.cumulants.k2 * 10 / 9)
    assert str(added).endswith(", in shares of 10 parties, of whom 9 are honest")
    for parties, honest in [(0, 0), (3, 4), (3, 0), (5000, 2)]:
        with pytest.raises(InvalidInputError, match="noise is shared by"):
            Shares(parties, honest)
    with pytest.raises(InvalidInputError, match="one noise on the cells"):
        AddedNoise(noise, layers=2, shares=Shares(3, 3))
