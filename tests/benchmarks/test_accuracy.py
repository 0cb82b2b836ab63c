"""What studies of accuracy compute beside what they measure."""

import math
from fractions import Fraction

import pytest

from benchmarks.accuracy import crossover


@pytest.mark.parametrize("sparsity", crossover.SPARSITIES)
@pytest.mark.parametrize("epsilon", crossover.EPSILONS)
def test_variances_are_equal_where_they_are_said_to_cross(epsilon: float, sparsity: int) -> None:
    close, distant = crossover.close_crossover(epsilon, sparsity), crossover.distant_crossover(epsilon, sparsity)
    assert crossover.relative_variance(epsilon, sparsity, close, 0.0) == pytest.approx(1, rel=1e-5)
    assert crossover.relative_variance(epsilon, sparsity, distant, 1e6) == pytest.approx(1, rel=1e-5)


def test_a_fine_lattice_crosses_where_continuous_noise_does() -> None:
    fine = crossover.lattice_crossover(1.0, 4, Fraction(1, 128))
    assert fine is not None
    assert math.log(fine) == pytest.approx(math.log(crossover.close_crossover(1.0, 4)), abs=0.01)
    coarse = crossover.lattice_crossover(1.0, 4)
    assert coarse is not None
    assert coarse > fine
