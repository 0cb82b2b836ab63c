"""What a release takes from a budget: sums of ε and δ, and zero-concentrated privacy loss ρ."""

import dataclasses

from streamsketch.accounting.sensitivity import most_in_a_cell, sensitivity_of
from streamsketch.privacy import Guarantee, pure_rho
from streamsketch.projections import Projection


@dataclasses.dataclass(frozen=True)
class Spending:
    """What one release takes from a budget.

    Parameters
    ----------
    epsilon, delta
        Of its guarantee.
    rho, rho_delta
        It is ρ-zCDP, but for a failure probability ``rho_delta``: 0 for Laplace and Gaussian noise, the δ of the choice
        of keys where they were chosen privately.
    """

    epsilon: float
    delta: float
    rho: float
    rho_delta: float


def spending_of(guarantee: Guarantee, projection: Projection | None = None) -> Spending:
    """Return what a release with this guarantee takes.

    Parameters
    ----------
    guarantee
        Of the release.
    projection
        Its public map, by which a Laplace noise is known to spend far less ρ than any other ε-DP release would; without
        it, or where the noise is not on the cells, ρ is that of any release with this ε and δ.
    """
    epsilon, delta = guarantee.epsilon, guarantee.delta
    keys, one = guarantee.mechanism.keys, guarantee.mechanism.the_noise
    rho = None
    if projection is not None and one is not None and (one.place, one.layers) == ("output", 1):
        sensitivity = sensitivity_of(projection, guarantee.neighbours)
        cell = most_in_a_cell(projection, guarantee.neighbours)
        honest = 1 if one.shares is None else one.shares.honest
        rho = one.noise.rho(sensitivity, cell, honest)
    if rho is None:
        return Spending(epsilon, delta, pure_rho(epsilon), delta)
    if keys is None:
        return Spending(epsilon, delta, rho, 0.0)
    return Spending(epsilon, delta, rho + pure_rho(keys.epsilon), keys.delta)
