"""Estimates of how many units contributed to a release, and how much: from the counts beside its cells."""

from fractions import Fraction

from streamsketch.errors import InvalidInputError
from streamsketch.estimation.coarse_noise import NoiseReach, reach_of
from streamsketch.estimation.estimate import Estimate
from streamsketch.estimation.noise_effect import noise_unit
from streamsketch.estimation.noise_law import stated_terms
from streamsketch.privacy.counting import Counting
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
    return _estimate(release, unit_factors(_counting(release)))


def total_of(release: PrivateSketch) -> Estimate:
    """Return what all units contributed together, in data units; see `PrivateSketch.total`."""
    counting = _counting(release)
    if not counting.slack:
        raise InvalidInputError(
            f"the release has {counting} but no slack, which a total needs: release for L1 neighbours with "
            f"Counting({counting.units}, slack=…)"
        )
    return _estimate(release, total_factors(counting, release.guarantee.neighbours, release.projection.grid))


def published_counts(release: PrivateSketch) -> dict[str, Estimate]:
    """Return the estimates of ``units`` and ``total``, as far as a release has counts of them; none of a row."""
    counting = release.counting
    if counting is None or (release.history is not None and release.history.is_row):
        return {}
    found = {"units": units_of(release)}
    return found | {"total": total_of(release)} if counting.slack else found


def unit_factors(counting: Counting) -> list[float]:
    """Return the factors by which counts become the number of units."""
    return [1 / counting.units]


def total_factors(counting: Counting, neighbours: Neighbours, grid: Fraction) -> list[float]:
    """Return the factors by which counts become the total, Σ‖x̃_u‖₁ = B̃·n - Σ(B̃ - ‖x̃_u‖₁), in data units."""
    bound = neighbours.grid_steps(grid)
    return [float(bound * grid / counting.units), -float(grid / counting.slack)]


def estimate_of_counts(
    value: float, noise: NoiseMoments, factors: list[float], reach: NoiseReach | None = None
) -> Estimate:
    """Return the estimate of a sum of counts times factors: its error is that of independent noises times these.

    Its intervals are those of ``reach``, if the law of the noise is known.
    """
    variance, fourth = noise.k2 * sum(one**2 for one in factors), noise.k4 * sum(one**4 for one in factors)
    kurtosis = fourth / variance**2 if variance else 0.0
    return Estimate(value, 0.0, variance, lowest=0.0, kurtosis=kurtosis, grain=reach)


def _counting(release: PrivateSketch) -> Counting:
    check_streams([release])
    counting = release.counting
    if counting is None:
        raise InvalidInputError(f"the release has no count of units: {_COUNT}")
    return counting


def _estimate(release: PrivateSketch, factors: list[float]) -> Estimate:
    numbers = () if release.counts is None else release.counts.tolist()
    factors = [float(release.multiplier) * factor for factor in factors]
    value = sum(factor * float(number) for factor, number in zip(factors, numbers, strict=False))
    return estimate_of_counts(value, release.noise, factors, _reach(release, factors))


def _reach(release: PrivateSketch, factors: list[float]) -> NoiseReach | None:
    """Return the reach of the noises in counts times factors, which are also times the release's multiplier."""
    terms = stated_terms(release)
    if terms is None or not release.multiplier:
        return None
    unit = noise_unit(release.projection, release.noise_place) * abs(float(release.multiplier))
    return reach_of((term.scaled(abs(factor) / unit) for factor in factors for term in terms), alone=True)
