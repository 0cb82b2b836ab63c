"""Estimates of how many units contributed to a release, and how much: from the counts beside its cells."""

from fractions import Fraction

from streamsketch.errors import InvalidInputError
from streamsketch.estimation.coarse_noise import NoiseReach, reach_of
from streamsketch.estimation.estimate import Estimate
from streamsketch.estimation.noise_effect import noise_unit
from streamsketch.estimation.noise_law import stated_terms
from streamsketch.privacy.layout import Layout
from streamsketch.privacy.neighbours import Neighbours
from streamsketch.privacy.noise import NoiseMoments
from streamsketch.release.history import check_streams
from streamsketch.release.private_sketch import PrivateSketch

_COUNT = (
    "bound the data under an agreement that counts units, such as streamsketch.agree(…, unit=…, max_keys=…), or "
    "release them with AdditiveNoise(…, counting=Counting.of(projection, neighbours, delta=…))"
)


def units_of(release: PrivateSketch) -> Estimate:
    """Return how many units contributed; see `PrivateSketch.units`."""
    return _estimate(release, _factors(release)["units"])


def moments_of_units(release: PrivateSketch) -> tuple[float, float]:
    """Return the value and the variance of `units_of`: what comparisons need, without the law of the noise."""
    value, factors = _weighted(release, _factors(release)["units"])
    alone = estimate_of_counts(value, release.noise, factors)
    return alone.value, alone.variance


def total_of(release: PrivateSketch) -> Estimate:
    """Return what all units contributed together, in data units; see `PrivateSketch.total`."""
    factors = _factors(release)
    if "total" not in factors:
        raise InvalidInputError(
            f"the release has {release.layout} but no slack, which a total needs: release for L1 neighbours with "
            f"Counting(…, slack=…)"
        )
    return _estimate(release, factors["total"])


def published_counts(release: PrivateSketch) -> dict[str, Estimate]:
    """Return the estimates of ``units`` and ``total``, as far as a release has counts of them; none of a row."""
    if not release.layout.is_counted or (release.history is not None and release.history.is_row):
        return {}
    return {name: _estimate(release, factors) for name, factors in _factors(release).items()}


def factors_of(layout: Layout, neighbours: Neighbours, grid: Fraction) -> dict[str, list[float]]:
    """Return the factors by which counts become an estimate, by its name: ``units`` and, with slack, ``total``.

    The total is Σ‖x̃_u‖₁ = B̃·n - Σ(B̃ - ‖x̃_u‖₁), in data units.
    """
    counting = layout.counting
    if counting is None:
        return {}
    factors = {"units": [1 / counting.units]}
    if counting.slack:
        bound = neighbours.grid_steps(grid)
        factors["total"] = [float(bound * grid / counting.units), -float(grid / counting.slack)]
    return factors


def estimate_of_counts(
    value: float, noise: NoiseMoments, factors: list[float], reach: NoiseReach | None = None
) -> Estimate:
    """Return the estimate of a sum of counts times factors: its error is that of independent noises times these.

    Its intervals are those of ``reach``, if the law of the noise is known.
    """
    variance, fourth = noise.k2 * sum(factor**2 for factor in factors), noise.k4 * sum(factor**4 for factor in factors)
    square = variance**2  # which may be 0 for noise that a file states
    kurtosis = fourth / square if square else 0.0
    return Estimate(value, 0.0, variance, lowest=0.0, kurtosis=kurtosis, grain=reach)


def _factors(release: PrivateSketch) -> dict[str, list[float]]:
    check_streams([release])
    if not release.layout.is_counted:
        raise InvalidInputError(f"the release has no count of units: {_COUNT}")
    return factors_of(release.layout, release.guarantee.neighbours, release.projection.grid)


def _estimate(release: PrivateSketch, factors: list[float]) -> Estimate:
    value, factors = _weighted(release, factors)
    return estimate_of_counts(value, release.noise, factors, _reach(release, factors))


def _weighted(release: PrivateSketch, factors: list[float]) -> tuple[float, list[float]]:
    """Return the sum of the counts times factors, and these factors times the release's multiplier."""
    numbers = () if release.counts is None else release.counts.tolist()
    factors = [float(release.multiplier) * factor for factor in factors]
    return sum(factor * float(number) for factor, number in zip(factors, numbers, strict=False)), factors


def _reach(release: PrivateSketch, factors: list[float]) -> NoiseReach | None:
    """Return the reach of the noises in counts times factors, which are also times the release's multiplier."""
    terms = stated_terms(release)
    if terms is None or not release.multiplier:
        return None
    unit = noise_unit(release.projection, release.noise_place) * abs(float(release.multiplier))
    return reach_of((term.scaled(abs(factor) / unit) for factor in factors for term in terms), alone=True)
