"""Figure 1 of Kenthapadi et al. 2013: its curves' ends, and the δ of discrete noise against a sum of its own."""

import math
from fractions import Fraction

import pytest

from benchmarks.figures.kkmm import feasible
from streamsketch.privacy.gaussian import DiscreteGaussian


def test_curves_begin_at_the_total_variation_and_theorem_one_is_silent_near_it() -> None:
    for sigma in feasible.SIGMAS:
        assert feasible.exact(0.0, sigma) == pytest.approx(math.erf(1 / (2 * math.sqrt(2) * sigma)), rel=1e-6)
        assert feasible.theorem(0.0, sigma) is None
    assert feasible.theorem(2.0, 2.0) == pytest.approx(math.exp(2 - 8) / 2)


def test_the_lattice_delta_is_that_of_the_likelihood_ratio_set() -> None:
    """P(n) > e^ε P(n - 3) where n < 1.5 - εσ²/3: the tails of both laws there, in exact sums."""
    noise, epsilon, shift = DiscreteGaussian(Fraction(9)), 0.7, 3
    weights = {n: math.exp(-(n**2) / 18) for n in range(-200, 201)}
    total = sum(weights.values())
    inside = [n for n in range(-150, 150) if n < shift / 2 - epsilon * 9 / shift]
    expected = sum(weights[n] - math.exp(epsilon) * weights[n - shift] for n in inside) / total
    assert feasible.lattice_delta(noise, shift, epsilon) == pytest.approx(expected, rel=1e-12)
