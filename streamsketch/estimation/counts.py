"""Estimates of how many units contributed to a release, and how much: from the counts beside its cells."""

from streamsketch.core import Ints
from streamsketch.errors import InvalidInputError
from streamsketch.estimation.estimate import Estimate
from streamsketch.privacy import Counting
from streamsketch.release import PrivateSketch

_COUNT = (
    "release with AdditiveNoise(…, counting=Counting.of(projection, neighbours, delta=…)), or under an agreement that "
    "says counting=…, data whose units were bounded"
)


def units_of(release: PrivateSketch) -> Estimate:
    """Return how many units contributed; see `PrivateSketch.units`."""
    _, numbers = _counted(release)
    return _weighted(release, numbers, (1.0,))


def total_of(release: PrivateSketch) -> Estimate:
    """Return what all units contributed together, in data units; see `PrivateSketch.total`."""
    counting, numbers = _counted(release)
    if not counting.slack:
        raise InvalidInputError(
            f"the release has {counting} and none of the slack, without which it says nothing of totals: release for "
            f"L1 neighbours with Counting({counting.units}, slack=…)"
        )
    grid = release.projection.grid
    bound = release.guarantee.neighbours.grid_steps(grid)  # Σ‖x̃_u‖₁ = B̃·n - Σ(B̃ - ‖x̃_u‖₁)
    return _weighted(release, numbers, (float(bound * grid), -float(grid)))


def _counted(release: PrivateSketch) -> tuple[Counting, Ints]:
    """Return the weights and the noisy numbers of a release."""
    counting, numbers = release.counting, release.counts
    if counting is None or numbers is None:
        raise InvalidInputError(f"the release has no count of units: {_COUNT}")
    return counting, numbers


def _weighted(release: PrivateSketch, numbers: Ints, factors: tuple[float, ...]) -> Estimate:
    """Return the sum of counts times factors, with the error of the noise on each of them."""
    counting, _ = _counted(release)
    weights = (counting.units, counting.slack)
    steps = [factor / weight for factor, weight in zip(factors, weights, strict=False)]
    value = sum(step * float(number) for step, number in zip(steps, numbers, strict=False))
    variance = release.noise.k2 * sum(step**2 for step in steps)
    fourth = release.noise.k4 * sum(step**4 for step in steps)
    return Estimate(value, 0.0, variance, lowest=0.0, kurtosis=fourth / variance**2 if variance else 0.0)
