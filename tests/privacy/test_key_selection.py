"""The private choice of keys: its claim by enumeration, and its sampling beside OpenDP's."""

import itertools

import mpmath
import pytest
from scipy import stats

import streamsketch as ss
from streamsketch.privacy import Budget
from streamsketch.privacy.key_selection import KeyThreshold, key_threshold
from tests.audit.record import judged
from tests.noise import salted_bits

pytestmark = pytest.mark.rejects(2e-6)


ROUNDING = mpmath.mpf(10) ** -20  # of 40 digits, beside chances of e^-50


def kept(units: int, rule: KeyThreshold) -> mpmath.mpf:
    """Return P(units + discrete Laplace ≥ threshold)."""
    q = mpmath.exp(mpmath.mpf(-rule.noise.scale.denominator) / rule.noise.scale.numerator)
    gap = rule.threshold - units
    return q**gap / (1 + q) if gap > 0 else 1 - q ** (1 - gap) / (1 + q)


def loss_of_known_keys(rule: KeyThreshold, keys: int) -> mpmath.mpf:
    """Return the largest log ratio of any outcome, for one unit in ``keys`` keys that others have too."""
    chances = [kept(units, rule) for units in range(1, 2 * rule.threshold + 1)]
    losses = [mpmath.log(more / less) for less, more in itertools.pairwise(chances)]
    losses += [mpmath.log((1 - less) / (1 - more)) for less, more in itertools.pairwise(chances)]
    return keys * max(losses)


@pytest.mark.parametrize(("epsilon", "delta", "max_keys"), [(1.0, 1e-6, 1), (0.3, 1e-9, 4), (5.0, 1e-3, 100)])
@mpmath.workdps(40)
def test_the_choice_is_private_by_enumeration(epsilon: float, delta: float, max_keys: int) -> None:
    rule = key_threshold(Budget(epsilon, delta), max_keys)
    loss = loss_of_known_keys(rule, max_keys)
    judged(1 - loss / epsilon, 2 * rule.threshold)
    assert loss <= epsilon + ROUNDING
    assert kept(1, rule) * max_keys <= delta
    # the same checks catch a threshold one too low, a unit in one key more, and half the noise
    assert kept(1, KeyThreshold(rule.noise, rule.threshold - 1)) * max_keys > delta
    assert loss_of_known_keys(rule, max_keys + 1) > epsilon + ROUNDING
    assert loss_of_known_keys(key_threshold(Budget(2 * epsilon, delta), max_keys), max_keys) > epsilon * 1.5


@pytest.mark.parametrize("away", [-3, 0, 2])
def test_keys_are_kept_as_often_as_they_should_and_as_by_opendp(away: int) -> None:
    import opendp.prelude as dp  # noqa: PLC0415 - seconds to import

    dp.enable_features("contrib")
    rule = key_threshold(Budget(0.5, 0.01), max_keys=1)
    units, draws = rule.threshold + away, 10_000
    bits = salted_bits(b"test")
    ours = sum(rule.keeps(units, bits) for _ in range(draws))
    measurement = dp.m.make_laplace_threshold(
        dp.map_domain(dp.atom_domain(T="u32"), dp.atom_domain(T="u32")),
        dp.l01inf_distance(dp.absolute_distance(T="u32")),
        scale=float(rule.noise.scale),
        threshold=rule.threshold,
    )
    theirs = len(measurement(dict.fromkeys(range(draws), units)))
    for found in (ours, theirs):  # ours are of fixed bits; OpenDP's, new at each run, reject a true claim once in 10^6
        assert stats.binomtest(found, draws, float(kept(units, rule))).pvalue > 1e-6
        assert stats.binomtest(found, draws, float(kept(units - 1, rule))).pvalue < 1e-10, "one unit off would be seen"


@pytest.mark.parametrize(
    ("epsilon", "delta", "message"),
    [
        (0.0, 1e-6, "epsilon must be"),
        (1.0, 0.0, "cannot be selected with delta = 0"),
        (1.0, 1.0, "delta must be"),
    ],
)
def test_mistakes_are_named(epsilon: float, delta: float, message: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=message):
        key_threshold(Budget(epsilon, delta), 1)


def test_a_hopeless_budget_is_named() -> None:
    with pytest.raises(ss.InvalidInputError, match="Laplace scale"):
        key_threshold(Budget(1e-6, 1e-9), 1 << 20)
