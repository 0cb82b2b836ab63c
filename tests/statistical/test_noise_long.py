"""Goodness of fit of 10^8 samples of each noise to its exact law, from new bits each time.

A sound sampler fails one of these once in 10^6 times.
"""

from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from streamsketch.privacy.gaussian import DiscreteGaussian
from streamsketch.privacy.laplace import DiscreteLaplace
from streamsketch.privacy.noise import Noise
from streamsketch.privacy.samplers import SystemBits
from tests.noise import salted_rng
from tests.oracles import naive_noise

pytestmark = pytest.mark.rejects(1e-6)


SAMPLES = 100_000_000
_AT_ONCE = 5_000_000
_FALSE_REJECTS = 1e-6

NOISES = [
    *(DiscreteLaplace(Fraction(scale)) for scale in ("1/3", "8", "159/10", "40", "1000", "100000/7")),
    *(DiscreteGaussian(Fraction(variance)) for variance in ("3", "256", "4095", "40001/2", "10000001")),
]


def log_mass(noise: Noise, n: NDArray[Any]) -> NDArray[Any]:
    """Return log P(n) - log P(0)."""
    amount = float(noise.amount)
    return -(n.astype(float) ** 2) / (2 * amount) if isinstance(noise, DiscreteGaussian) else -np.abs(n) / amount


def counts_of(noise: Noise, reach: int) -> NDArray[Any]:
    """Return how often each of -reach … reach was drawn, and the others."""
    counts = np.zeros(2 * reach + 2, dtype=np.int64)
    for _ in range(SAMPLES // _AT_ONCE):
        samples = noise.sample(_AT_ONCE, SystemBits())
        counts += np.bincount(np.where(np.abs(samples) <= reach, samples + reach, 2 * reach + 1), minlength=counts.size)
    return counts


def p_value(noise: Noise, counts: NDArray[Any], reach: int) -> float:
    """Return the p-value of a χ² test on single integers where 20 or more are expected, and on all others together."""
    support = np.arange(-reach, reach + 1)
    masses = np.exp(log_mass(noise, support))
    expected = SAMPLES * masses / masses.sum()  # what lies beyond is below 10^-12
    likely = expected >= 20
    observed = np.append(counts[:-1][likely], counts[:-1][~likely].sum() + counts[-1])
    wanted = np.append(expected[likely], max(expected[~likely].sum(), 1e-9))
    if wanted[-1] < 20:
        wanted, observed = wanted[:-1] * (observed[:-1].sum() / wanted[:-1].sum()), observed[:-1]
    return float(stats.chisquare(observed, wanted * (observed.sum() / wanted.sum())).pvalue)


def reach_of(noise: Noise) -> int:
    amount = float(noise.amount)
    return int(8 * amount**0.5) + 8 if isinstance(noise, DiscreteGaussian) else int(30 * amount) + 30


@pytest.mark.long
@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_a_hundred_million_samples_fit_the_exact_law(noise: Noise) -> None:
    reach = reach_of(noise)
    counts = counts_of(noise, reach)
    assert p_value(noise, counts, reach) > _FALSE_REJECTS
    variance = noise.cumulants.k2
    squares = float((counts[:-1] * np.arange(-reach, reach + 1.0) ** 2).sum())
    error = ((noise.cumulants.k4 + 2 * variance**2) / SAMPLES) ** 0.5
    assert abs(squares / SAMPLES - variance) < 5 * error


@pytest.mark.long
@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_the_fit_sees_one_part_in_a_hundred(noise: Noise) -> None:
    reach = reach_of(noise)
    wider = np.exp(log_mass(noise, np.arange(-reach, reach + 1)) / 1.01)
    counts = np.append(salted_rng(1).multinomial(SAMPLES, wider / wider.sum()), 0)
    assert p_value(noise, counts, reach) < 1e-9


@pytest.mark.long
@pytest.mark.parametrize("noise", NOISES[:2], ids=str)
def test_the_laws_here_are_those_to_60_digits(noise: Noise) -> None:
    for n in range(20):
        exact = naive_noise.laplace_pmf(noise.amount, n) / naive_noise.laplace_pmf(noise.amount, 0)
        assert np.exp(log_mass(noise, np.array([n])))[0] == pytest.approx(float(mpmath.mpf(exact)), rel=1e-12)
