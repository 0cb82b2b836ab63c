"""What one release promises, how, and what it does not."""

import dataclasses
import functools
import math
from fractions import Fraction
from typing import Any

from streamsketch.estimate import Estimate
from streamsketch.explanation.check import NoiseCheck, check_noise, is_pan_private, key_selection_in, noise_in
from streamsketch.noise_effect import NoisePlace, effect_of, unit_of
from streamsketch.privacy.guarantee import L1, Guarantee
from streamsketch.privacy.noise import Cumulants, DiscreteGaussian, DiscreteLaplace
from streamsketch.projections import Projection
from streamsketch.release import PrivateSketch

_PLACES: dict[NoisePlace, str] = {
    "output": "each of the {cells:,} cells of the sketch",
    "input": "each of the {count:,} coordinates, before the map",
    "hadamard": "what the Hadamard step returns, {count:,} coordinates, before the sparse matrix",
}
_FALSE_ALARMS = 0.05
_LARGE_EPSILON = 100.0  # e^ε is finite
_LAPLACE = "Dwork and Roth 2014, Theorem 3.6, on the integer lattice (THEORY.md 3)"
_GAUSSIAN = (
    "Balle and Wang 2018, Theorem 8, for the continuous Gaussian that the lattice noise is a rounding of (THEORY.md 3)"
)
_PLACE_THEOREMS: dict[NoisePlace, str] = {
    "input": "Stausholm 2021, Lemma 8: the map is post-processing of a vector that is private already",
    "hadamard": "Stausholm 2021, Note 7: the sparse matrix is post-processing of a vector that is private already",
}


@dataclasses.dataclass(frozen=True)
class Explanation:
    """What a release promises: who is protected, how, how much noise that means, and what is not protected.

    It depends on what the release says of itself and on no cell of it, so releases made alike have equal explanations.

    Parameters
    ----------
    guarantee, projection, noise, noise_place, multiplier
        Of the release.
    releases
        How many releases went into it.

    Examples
    --------
    >>> from streamsketch import SJLT
    >>> sketch = SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7).sketch()
    >>> explanation = sketch.release(epsilon=1.0, neighbours=L1(1, unit="sale")).explain()
    >>> explanation.check.reason
    'scale 4 at ℓ1 sensitivity 4 gives ε = 1, within the promised ε = 1'
    >>> print(str(explanation).splitlines()[0])
    Promise    ε = 1, δ = 0 for one sale of at most 1 (L1), by discrete Laplace,
    """

    guarantee: Guarantee
    projection: Projection
    noise: Cumulants
    noise_place: NoisePlace
    multiplier: Fraction
    releases: int

    @property
    def who(self) -> str:
        """Who is protected, by which bound."""
        near = self.guarantee.neighbours
        if isinstance(near, L1):
            change = f"one {near.unit}, in the data or not, whose values sum to at most {near.bound} in absolute value"
        else:
            change = f"one {near.unit}, which changes one coordinate by at most {near.bound}"
        if near.max_keys == 1:
            return change
        return f"{change} in each of at most {near.max_keys} keys, by the releases of all keys together"

    @property
    def meaning(self) -> str:
        """What ε and δ mean for whoever wants to find somebody out.

        A test with false alarms in a share a of cases has power min(e^ε a + δ, 1 - e^-ε (1 - δ - a)) at most
        (Kairouz, Oh and Viswanath 2015, Theorem 2.1).
        """
        epsilon, delta = self.guarantee.epsilon, self.guarantee.delta
        power = 1 - math.exp(-epsilon) * max(1 - delta - _FALSE_ALARMS, 0.0)
        if epsilon < _LARGE_EPSILON:
            power = min(power, math.exp(epsilon) * _FALSE_ALARMS + delta)
        return (
            f"no test that raises a false alarm in 5 % of cases finds out that a given "
            f"{self.guarantee.neighbours.unit} is in the data in more than {_percent(100 * power)} % of them"
        )

    @property
    def how(self) -> list[str]:
        """The mechanism, in sentences."""
        effect = effect_of(self.projection, self.noise_place)
        place = _PLACES[self.noise_place].format(cells=self.projection.sketch_dim, count=effect.count)
        mechanism = self.guarantee.mechanism
        if self.noise_place != "output":
            mechanism = mechanism.partition(", on ")[0]  # the place is told in full
        told = [f"Exact discrete noise on {place}: {mechanism}."]
        if is_pan_private(self.guarantee):
            told.append("The noise was there before the first update, and fresh noise was added on release.")
        keys = key_selection_in(self.guarantee)
        if keys is not None:
            told.append(
                f"Which keys are published was chosen privately, with ε = {keys.epsilon:g}, δ = {keys.delta:g} of it."
            )
        if self.releases > 1:
            told.append(
                f"{self.releases} releases were added up or subtracted; the promise is their composition, for disjoint "
                f"or overlapping populations as whoever did it said."
            )
        if self.multiplier != 1:
            told.append(f"The cells count {self.multiplier} times: post-processing, which changes no promise.")
        return told

    @property
    def theorems(self) -> list[str]:
        """What the promise rests on."""
        noises = noise_in(self.guarantee)
        found = [_LAPLACE] if any(isinstance(noise, DiscreteLaplace) for noise in noises) else []
        found += [_GAUSSIAN] if any(isinstance(noise, DiscreteGaussian) for noise in noises) else []
        found += [_PLACE_THEOREMS[self.noise_place]] if self.noise_place in _PLACE_THEOREMS else []
        if is_pan_private(self.guarantee):
            found.append("Stausholm 2021, Theorem 3.4 (THEORY.md 4.2)")
        if key_selection_in(self.guarantee) is not None:
            found.append("Korolova et al. 2009 for the keys, with Dwork and Roth 2014, Theorem 3.16 (THEORY.md 4.2)")
        if self.releases > 1:
            found.append("Dwork and Roth 2014, Theorem 3.16, or parallel composition")
        return found

    @functools.cached_property
    def check(self) -> NoiseCheck:
        """Whether the noise stated is enough for the promise."""
        return check_noise(self.guarantee, self.projection, self.noise, self.noise_place, self.releases)

    @property
    def noise_deviation(self) -> float:
        """Standard deviation of one noise, in data units: of a cell, or of a coordinate for noise before the map."""
        return math.sqrt(self._in_data_units.k2)

    @property
    def distances(self) -> list[Estimate]:
        """What squared distances to another release with as much noise will be: at 0, and where noise fades."""
        blind = self.at_distance(0.0).standard_error
        first = _leading_digit(2 * blind)
        return [self.at_distance(value) for value in (0.0, first, 10 * first, 100 * first)]

    def at_distance(self, squared_distance: float) -> Estimate:
        """Return what an estimate of this squared distance, in squared data units, will be at its expectation.

        The other release is one with independent noise of the same size.
        """
        effect, both = effect_of(self.projection, self.noise_place), self._in_data_units.times(2)
        return Estimate(
            squared_distance,
            self.projection.variance.of_squared_norm(squared_distance),
            effect.squared_norm_variance(squared_distance, both.k2, both.k4),
            lowest=0.0,
        )

    @property
    def not_protected(self) -> list[str]:
        """What the promise does not cover."""
        near = self.guarantee.neighbours
        told = [
            f"What one {near.unit} adds beyond the bound of {near.bound}, unless it was cut before it was sketched.",
            f"All that is behind one person, if that is more than one {near.unit}: n of them spend n times ε.",
            "Facts about many: that two streams are alike is what the release is for.",
            "The same data released again, here or elsewhere: that adds to ε.",
        ]
        if key_selection_in(self.guarantee) is None:
            told.append("Who takes part, and under which key: the release's existence says that much.")
        if is_pan_private(self.guarantee):
            told.append("A second look inside: one intrusion and the release are covered.")
        else:
            told.append("The exact sketch, and a process or pipeline that held it or the noise's secret.")
        return told

    @property
    def _in_data_units(self) -> Cumulants:
        return self.noise.scaled(float(self.multiplier) * unit_of(self.projection, self.noise_place))

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as what JSON can hold: numbers, text, lists and objects."""
        from streamsketch.explanation.report import one_as_dict  # noqa: PLC0415 - reports know explanations

        return one_as_dict(self)

    def __str__(self) -> str:
        from streamsketch.explanation.report import one_as_text  # noqa: PLC0415 - as above

        return one_as_text(self)


def explanation_of(release: PrivateSketch) -> Explanation:
    """Return what a release promises; see `Explanation`."""
    return Explanation(
        release.guarantee,
        release.projection,
        release.noise,
        release.noise_place,
        release.multiplier,
        len(release.release_ids),
    )


def _leading_digit(value: float) -> float:
    """Return a number of one digit near a positive value."""
    return float(f"{value:.0e}") if value > 0 else 1.0


def _percent(percents: float) -> str:
    """Return percents with three digits or more, not rounded up to certainty."""
    if percents >= 100:
        return "100"
    text = f"{percents:.3g}"
    digits = 3
    while float(text) >= 100:
        digits += 1
        text = f"{percents:.{digits}g}"
    return text
