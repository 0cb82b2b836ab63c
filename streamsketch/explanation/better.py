"""Which other noise would have done better than that of a release, and by how much."""

import math
from typing import NamedTuple

from streamsketch.accounting import number_for, sensitivity_of
from streamsketch.errors import InvalidInputError
from streamsketch.privacy import NOISES, Budget, Guarantee, candidates
from streamsketch.projections import Projection
from streamsketch.release import QUICK_ENTRIES, unread_matrix

_WORTH = 0.98  # of the variance: less than 1 % of a standard error is not worth a word
_USUAL, _LEAST = -6, -30  # powers of ten: the largest δ to recommend, and the least to speak of


class BetterNoise(NamedTuple):
    """A noise with a smaller error for the same ε, where the rule of ``mechanism="auto"`` has another."""

    mechanism: str
    delta: float
    """At which it is better."""
    factor: float
    """By how much it lowers the standard error of a squared distance between close streams; above 1."""
    power: float
    """D1²/D2²: the rule is Laplace noise for δ < exp(-power)."""

    def said(self, stated: float) -> str:
        """Return it as a sentence on a release with δ = ``stated``."""
        title = self.mechanism.title()
        if self.delta == stated:
            own = f"{title} noise of the same ε"
        else:
            own = f"With δ = {self.delta:g} instead of {stated:g}, {title} noise"
        spent = "" if NOISES[self.mechanism].needs_delta else ", and spend no δ"
        return (
            f"{own} would make the standard error between close streams {self.factor:.2g} times smaller{spent}: "
            f"mechanism={self.mechanism!r}. By default a rule chooses, Laplace noise for every δ below "
            f"exp(-{self.power:g}), which is not the best here."
        )


def better_noise(guarantee: Guarantee, projection: Projection) -> BetterNoise | None:
    """Return a noise that is better than that of a single release, or None if there is none or it is not known.

    A release without δ does not say which δ was allowed: its noise is compared at the largest power of ten, up to
    1e-6, below which the rule takes Laplace noise.
    """
    added = guarantee.mechanism.the_noise
    if added is None or added.shares is not None or (added.layers, added.place) != (1, "output"):
        return None
    if unread_matrix(projection, number_for(guarantee.neighbours), most_entries=QUICK_ENTRIES) is not None:
        return None
    try:
        budget = guarantee.budget.minus(guarantee.mechanism.keys)
        sensitivity = sensitivity_of(projection, guarantee.neighbours)
        power = sensitivity.l1**2 / sensitivity.l2_squared
        found = candidates(sensitivity, Budget(budget.epsilon, budget.delta or _usual_delta(power)))
    except InvalidInputError:  # not a release that the library makes, or no δ to speak of
        return None
    own = next((one.variance for one in found if one.mechanism == added.noise.name), 0.0)
    best = min(found, key=lambda one: one.variance)
    if best.variance >= _WORTH * own:
        return None
    delta = budget.delta or _usual_delta(power)
    return BetterNoise(best.mechanism, delta, math.sqrt(own / best.variance), power)


def _usual_delta(power: float) -> float:
    """Return the largest power of ten below exp(-power), at most 1e-6; 0 for one that is too small to speak of."""
    exponent = min(_USUAL, math.ceil(-power / math.log(10)) - 1)
    return float(f"1e{exponent}") if exponent >= _LEAST else 0.0
