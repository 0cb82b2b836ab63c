"""Finer composition: right beside closed forms, exact sums and dp-accounting."""

import math
from fractions import Fraction

import mpmath
import pytest
from dp_accounting.pld import common, privacy_loss_distribution
from hypothesis import given
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.privacy.composition import PrivacyCost, account
from streamsketch.privacy.gaussian import gaussian_epsilon, gaussian_log_delta, gaussian_sigma


@pytest.mark.parametrize(("sigma", "count", "delta"), [(5.5, 4, 1e-9), (20.0, 100, 1e-6), (1.0, 2, 1e-3)])
def test_gaussians_compose_as_by_dp_accounting(sigma: float, count: int, delta: float) -> None:
    found = account([PrivacyCost(1.0, delta, sigma)] * count, delta)
    assert found is not None
    theirs = privacy_loss_distribution.from_gaussian_mechanism(sigma).self_compose(count).get_epsilon_for_delta(delta)
    assert found.epsilon == pytest.approx(theirs, rel=1e-3)
    assert gaussian_log_delta(found.epsilon, sigma / math.sqrt(count)) <= math.log(delta)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.01, 1e-6), (1.0, 1e-9), (8.0, 0.01)])
def test_the_epsilon_of_a_sigma_inverts_its_calibration(epsilon: float, delta: float) -> None:
    sigma = gaussian_sigma(epsilon, delta)
    assert gaussian_epsilon(sigma, delta) == pytest.approx(epsilon, rel=1e-5)
    assert gaussian_log_delta(gaussian_epsilon(sigma, delta), sigma) <= math.log(delta)
    assert gaussian_epsilon(sigma, 0.999) == 0.0


def optimal_delta(epsilon: float, count: int, steps: int) -> float:
    """Return δ of ``count`` pure ε-DP releases at (count - 2·steps)ε: Kairouz, Oh and Viswanath 2015, Theorem 3.3."""
    terms = (
        math.comb(count, other)
        * (math.exp((count - other) * epsilon) - math.exp((count - 2 * steps + other) * epsilon))
        for other in range(steps)
    )
    return sum(terms) / (1 + math.exp(epsilon)) ** count


def test_pure_releases_compose_optimally() -> None:
    epsilon, count, steps = 0.1, 60, 15
    delta = optimal_delta(epsilon, count, steps)
    found = account([PrivacyCost(epsilon, 0.0)] * count, delta)
    assert found is not None
    exact = (count - 2 * steps) * epsilon
    assert exact * (1 - 1e-9) <= found.epsilon <= exact * 1.005
    assert found.by == "privacy loss distributions"


def exact_delta(epsilon: float, each: float, count: int, sigma: float | None) -> float:
    """Return δ at ``epsilon`` of ``count`` pure releases and Gaussian noise, term by term."""
    up = Fraction(1 / (1 + math.exp(-each)))
    total = 0.0
    for ups in range(count + 1):
        gap = epsilon - (2 * ups - count) * each
        curve = -math.expm1(min(gap, 0.0)) if sigma is None else math.exp(gaussian_log_delta(gap, sigma))
        if curve > 0:
            log_chance = math.log(math.comb(count, ups)) + ups * math.log(up) + (count - ups) * math.log(1 - up)
            total += math.exp(log_chance) * curve
    return total


@pytest.mark.parametrize("deltas", [(1e-15, 1e-9), pytest.param((1e-14, 1e-12), marks=pytest.mark.long)])
@pytest.mark.parametrize("sigma", [None, 3.0])
@pytest.mark.parametrize(("each", "count"), [(0.02, 2400), (0.1, 400), (1.0, 5)])
def test_a_small_delta_is_kept_however_many_releases(
    each: float, count: int, sigma: float | None, deltas: tuple[float, ...]
) -> None:
    """By FFT, 2400 releases had 8.9 times the δ they were said to keep."""
    gaussian = [] if sigma is None else [PrivacyCost(0.9, 1e-9, sigma)]
    for delta in deltas:
        found = account([PrivacyCost(each, 0.0)] * count + gaussian, delta)
        assert found is not None
        true = exact_delta(found.epsilon, each, count, sigma)
        assert true <= delta
        at_most = count * each if sigma is None else math.inf
        assert true > 0.99 * delta or found.epsilon >= at_most


def test_different_losses_compose_as_by_dp_accounting() -> None:
    mixed = (
        [PrivacyCost(0.1, 0.0)] * 20
        + [PrivacyCost(0.25, 1e-8)] * 10
        + [PrivacyCost(0.013, 0.0)] * 7
        + [PrivacyCost(0.9, 1e-9, 3.0)]
    )
    found = account(mixed, 1e-6)
    assert found is not None
    total = privacy_loss_distribution.from_gaussian_mechanism(3.0)
    for part in mixed[:-1]:
        stated = common.DifferentialPrivacyParameters(part.epsilon, part.delta)
        total = total.compose(privacy_loss_distribution.from_privacy_parameters(stated))
    assert found.epsilon == pytest.approx(total.get_epsilon_for_delta(1e-6), rel=2e-3)


def test_what_fails_outright_is_spent_first() -> None:
    failing = [PrivacyCost(1.0, 1e-6)] * 3
    assert account(failing, 2e-6) is None
    within = account(failing, 4e-6)
    assert within is not None
    assert 2.9 < within.epsilon <= 3.0001
    assert account([PrivacyCost(1e-6, 0.5), PrivacyCost(1.0, 1e-6, sigma=5.0)], 0.6) is not None


def test_mixtures_are_no_better_than_the_best_they_could_hide() -> None:
    mixed = account([PrivacyCost(1.0, 0.0), PrivacyCost(1.0, 1e-6, sigma=4.3)], 1e-6)
    assert mixed is not None
    assert 1.5 < mixed.epsilon < 2.0


def test_what_cannot_be_accounted_for_is_none() -> None:
    assert account([PrivacyCost(1.0, 0.0)] * 3, 0.0) is None
    assert account([PrivacyCost(40.0, 1e-6)] * 2, 1e-5) is None
    assert account([PrivacyCost(1.0, 1e-6, sigma=5.0)] * 3, 1e-5) is not None
    sketch = ss.SJLT(dim=9, sketch_dim=64, sparsity=4, seed=7).sketch()
    joint = ss.explain(*(sketch.release(epsilon=20, neighbours=ss.L1(1)) for _ in range(3)), delta=1e-6)
    assert joint.finer is None
    assert "No tighter accounting was found." in " ".join(str(joint).split())


def test_mistakes_are_refused() -> None:
    with pytest.raises(ss.InvalidInputError, match="no release"):
        account([], 1e-6)
    with pytest.raises(ss.InvalidInputError, match="delta"):
        account([PrivacyCost(1.0, 0.0)], 1.0)


# --- a one-sided oracle: sums of different losses, exactly --------------------------------------------------------


def losses_of(epsilons: dict[str, int]) -> list[tuple[mpmath.mpf, mpmath.mpf]]:
    """Return what the sum of ±ε can be, with its chances, for so many releases of each ε, as exact decimals."""
    found = [(mpmath.mpf(0), mpmath.mpf(1))]
    for text, count in epsilons.items():
        each = mpmath.mpf(Fraction(float(text)).numerator) / Fraction(float(text)).denominator
        up = 1 / (1 + mpmath.exp(-each))
        chance, sums = (1 - up) ** count, []
        for ups in range(count + 1):
            sums.append(((2 * ups - count) * each, chance))
            chance *= mpmath.mpf(count - ups) / (ups + 1) * up / (1 - up)
        found = [(loss + more, one * other) for loss, one in found for more, other in sums]
    return found


def delta_of(losses: list[tuple[mpmath.mpf, mpmath.mpf]], epsilon: float, fails: float = 0.0) -> mpmath.mpf:
    """Return P(∞) + P(finite) · E (1 - e^(ε - L))₊ (Kairouz, Oh and Viswanath 2015), to 60 digits."""
    exact = mpmath.mpf(epsilon)
    finite = mpmath.fsum(chance * -mpmath.expm1(exact - loss) for loss, chance in losses if loss > exact)
    return fails + (1 - mpmath.mpf(fails)) * finite


MIXES: list[dict[str, int]] = [
    {"0.000149": 2_000, "0.0102": 1},  # a step and just below a half more of the grid of 1e-4
    {"0.000149999": 900, "0.0003": 3},
    {"0.000050001": 300, "0.0000742": 30},  # the same of a grid of the least
    {"0.0001": 60, "0.00014": 90},
    {"0.1": 3, "0.25": 2, "0.7": 2},
    {"1.00004": 2, "0.30001": 3, "0.00013": 40},
    {"3": 1, "0.00112": 150},
]


@pytest.mark.parametrize("mix", MIXES, ids=str)
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-3])
def test_different_losses_never_come_out_below_the_exact_sum(mix: dict[str, int], delta: float) -> None:
    with mpmath.workdps(60):
        parts = [PrivacyCost(float(text), 0.0) for text, count in mix.items() for _ in range(count)]
        found = account(parts, delta)
        assert found is not None
        losses = losses_of(mix)
        assert delta_of(losses, found.epsilon) <= delta
        if min(map(float, mix)) >= 0.1:  # far above the grid's step, hardly more is stated
            assert delta_of(losses, found.epsilon * (1 - 2e-3)) > delta


@given(
    st.lists(st.integers(1, 2_000), min_size=1, max_size=5, unique=True),
    st.sampled_from([1e-9, 1e-5, 1e-2]),
    st.sampled_from([0.0, 1e-10, 3e-6]),
)
def test_lists_of_different_losses_never_come_out_below_the_exact_sum(
    steps: list[int], delta: float, fails: float
) -> None:
    """Each ε is up to half a step above a multiple of the grid, where rounding to the nearest would lose the most."""
    with mpmath.workdps(40):
        mix = {f"{(one + 0.4999) * 1e-4:.9f}": 2 for one in steps}
        found = account([PrivacyCost(float(text), fails) for text in mix for _ in range(2)], delta)
        outright = 1 - (1 - mpmath.mpf(fails)) ** (2 * len(mix))
        if found is None:
            assert outright > delta * (1 - 1e-6)
            return
        assert delta_of(losses_of(mix), found.epsilon, outright) <= delta
