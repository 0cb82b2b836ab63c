"""The papers' σ: inverses of each other, sound where they are claimed, and the known order."""

import itertools
import math

import pytest

from benchmarks import sigmas
from streamsketch.privacy.gaussian import gaussian_sigma

BUDGETS = list(itertools.product((0.05, 0.5, 1.0, 3.0, 8.0), (0.3, 0.1, 1e-3, 1e-6, 1e-9)))


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_each_sigma_gives_its_delta(epsilon: float, delta: float) -> None:
    assert sigmas.kkmm_delta(epsilon, sigmas.kkmm(epsilon, delta)) == pytest.approx(delta, rel=1e-9)
    assert sigmas.tail_delta(epsilon, sigmas.tail_sigma(epsilon, delta)) == pytest.approx(delta, rel=1e-6)
    assert sigmas.exact_delta(epsilon, gaussian_sigma(epsilon, delta)) == pytest.approx(delta, rel=1e-6)


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_theorem_one_is_sound_and_ends_above_the_steps_it_is_derived_from(epsilon: float, delta: float) -> None:
    assert sigmas.exact_delta(epsilon, sigmas.kkmm(epsilon, delta)) <= delta
    assert gaussian_sigma(epsilon, delta) < sigmas.tail_sigma(epsilon, delta) < sigmas.kkmm(epsilon, delta)
    if epsilon < math.log(1 / delta):
        # at sensitivity 2 and (ε, δ/2), as Theorem 2's proof has it
        assert sigmas.kkmm_any_matrix(epsilon, delta) >= 2 * sigmas.kkmm(epsilon, delta / 2)


def test_the_classical_form_fails_for_large_epsilon() -> None:
    assert sigmas.exact_delta(0.9, sigmas.classical(0.9, 1e-5)) < 1e-5
    assert sigmas.exact_delta(9.0, sigmas.classical(9.0, 1e-5)) > 1e-5


def test_theorems_refuse_what_they_do_not_cover() -> None:
    with pytest.raises(ValueError, match=r"delta < 1/2, got 0\.6"):
        sigmas.kkmm(1.0, 0.6)
    with pytest.raises(ValueError, match=r"epsilon < ln\(1/delta\), got 3"):
        sigmas.kkmm_any_matrix(3.0, 0.1)
