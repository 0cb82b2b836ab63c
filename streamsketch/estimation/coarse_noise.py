"""Intervals where noise is a step or two wide, so that errors have few values (Theory 4, "Coarse noise")."""

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from streamsketch.core.numbers import Floats
from streamsketch.estimation.intervals import Grain
from streamsketch.estimation.noise_law import NoiseTerm, lattice_of, stated_terms
from streamsketch.privacy.noise import NoiseMoments
from streamsketch.projections.variance import MapVariance
from streamsketch.release.private_sketch import PrivateSketch

Pair: TypeAlias = tuple[Floats, Floats]

_MOST_DRAWS = 64  # of noise, whose law is computed; more are nearly normal, or their kurtosis says enough
_MOST_KINDS = 8
_ROUNDED_UP = 1 + 2.0**-40  # so that an end that is rounded does not leave out the value that it is
_TIES = 1 + 1e-9


@dataclasses.dataclass(frozen=True)
class NoiseReach:
    """How far a sum of independent noises is from 0, by its exact law.

    Parameters
    ----------
    terms
        The noises, in the units of the estimate.
    alone
        Whether they are the whole error.
    """

    terms: tuple[NoiseTerm, ...]
    alone: bool = False

    def least_width(self, miss: float) -> float:
        """Return the least whole number of steps that the noise is beyond with this probability at most.

        It is half a step if the noise is 0 as often as that, so that an interval always has a width.

        Examples
        --------
        >>> from fractions import Fraction
        >>> from streamsketch.privacy.laplace import DiscreteLaplace
        >>> reach = NoiseReach((NoiseTerm(DiscreteLaplace(Fraction(1)), 1.0),))
        >>> round(reach.least_width(0.05), 6), round(reach.least_width(0.6), 6)
        (3.0, 0.5)
        """
        step, beyond, exact = _beyond(self.terms)
        place = int(np.searchsorted(-beyond, -miss * _TIES))  # the first with a probability of at most that
        place += not exact  # wide noise is on a coarser grid
        return max(place, 0.5) * step * _ROUNDED_UP

    def scaled(self, factor: float) -> "NoiseReach":
        """Return the same for estimates times ``factor`` > 0."""
        return NoiseReach(tuple(term.scaled(factor) for term in self.terms), self.alone)

    def times(self, draws: int) -> "NoiseReach | None":
        """Return the reach of a sum of so many such noises."""
        return reach_of((term._replace(draws=term.draws * draws) for term in self.terms), alone=self.alone)


@functools.lru_cache(maxsize=256)
def _beyond(terms: tuple[NoiseTerm, ...]) -> tuple[float, Floats, bool]:
    """Return the step of a law, the probabilities that the noise is beyond 0, 1, … steps, and whether it is exact."""
    law = lattice_of(terms)
    beyond = np.cumsum(2 * law.weights[: law.weights.size // 2])[::-1]
    return law.step, np.append(np.maximum(beyond, 0.0), 0.0), law.exact


def reach_of(terms: Iterable[NoiseTerm], *, alone: bool) -> NoiseReach | None:
    """Return the reach of a sum of noises; None if there are none, or too many for their law to be computed."""
    kinds: dict[tuple[object, float], NoiseTerm] = {}
    for term in terms:
        if isinstance(term.noise, NoiseMoments) or term.draws.denominator > 1:
            return None
        name = term.noise, term.step
        kinds[name] = term._replace(draws=term.draws + kinds[name].draws) if name in kinds else term
    if not kinds or len(kinds) > _MOST_KINDS or sum(term.draws for term in kinds.values()) > _MOST_DRAWS:
        return None
    return NoiseReach(tuple(sorted(kinds.values(), key=repr)), alone)


def terms_in(releases: Sequence[object], factors: Sequence[float]) -> tuple[NoiseTerm, ...] | None:
    """Return the noises in a cell of a sum of sketches, each times a factor; None if a law is not known."""
    noises: list[NoiseTerm] = []
    for release, factor in zip(releases, factors, strict=True):
        if isinstance(release, PrivateSketch):
            terms = stated_terms(release)
            if terms is None:
                return None
            noises += [term.scaled(abs(factor)) for term in terms if factor]
    return tuple(noises)


def grain_of_norms(variance: MapVariance, size: Floats, k2: Floats, k4: Floats, steps: Floats | None) -> Grain | None:
    """Return the grain of squared norms of these sizes; None where the map errs, whose error has no steps.

    An error of ‖x + η‖² - ‖x‖² is 2⟨x, η⟩ + ‖η‖², and 2|x|·η + η² if x is one entry.
    """
    if steps is None or variance.norms or variance.inner:
        return None
    squared, kurtosis = size + k2, _ratio(k4, k2**2)
    return Grain(
        2 * np.sqrt(squared * k2), kurtosis, 2 * np.sqrt(squared) * steps, _ratio(np.ones_like(squared), 4 * squared)
    )


def grain_of_products(variance: MapVariance, norms: Pair, k2: Pair, k4: Pair, steps: Pair | None) -> Grain | None:
    """Return the grain of inner products of vectors with these squared norms; None where the map errs.

    An error is ⟨x, μ⟩ + ⟨y, η⟩ + ⟨η, μ⟩, and |x|·μ + |y|·η + η·μ if both are the same one entry.
    """
    if steps is None or variance.norms or variance.inner:
        return None
    squares = norms[0] + k2[0], norms[1] + k2[1]
    linear = squares[0] * k2[1] + squares[1] * k2[0]
    kurtosis = _ratio(squares[0] ** 2 * k4[1] + squares[1] ** 2 * k4[0], linear**2)
    step = np.maximum(np.sqrt(squares[0]) * steps[1], np.sqrt(squares[1]) * steps[0])
    larger = np.maximum(*squares)
    return Grain(np.sqrt(linear), kurtosis, step, _ratio(np.ones_like(larger), larger))


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    return np.divide(numerator, denominator, out=np.zeros(np.shape(denominator)), where=np.asarray(denominator) > 0)
