"""What one release guarantees, how, and what it does not."""

import dataclasses
import functools
import math
from fractions import Fraction
from typing import NamedTuple

from streamsketch.accounting.sensitivity import sensitivity_of
from streamsketch.core import sentences
from streamsketch.core.documents import Json
from streamsketch.errors import InvalidInputError
from streamsketch.estimation.counts import estimate_of_counts, factors_of
from streamsketch.estimation.estimate import Estimate, format_value
from streamsketch.estimation.noise_effect import effect_of, noise_unit
from streamsketch.explanation.base import (
    EXPLANATIONS,
    BaseExplanation,
    budget_text,
    key_selection_sentence,
    leading_digit,
)
from streamsketch.explanation.registry import registry_entry
from streamsketch.privacy.budget import Budget
from streamsketch.privacy.calibration import candidates
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.layout import CELLS, Layout
from streamsketch.privacy.mechanism import KeySelection, NoisePlace
from streamsketch.privacy.noise import NOISES, NoiseMoments
from streamsketch.projections.base import Projection
from streamsketch.release.checking.noise import NoiseCheck, unread_matrix
from streamsketch.release.checking.release import (
    QUICK_ENTRIES,
    Composition,
    StatedNoise,
    check_stated,
    composition_of,
    impossible_norm,
    with_norm,
)
from streamsketch.release.history import HistoryPart
from streamsketch.release.noise_parts import NoisePart
from streamsketch.release.private_sketch import PrivateSketch, SketchClip

_LONG = 1e10
_PLACES: dict[NoisePlace, str] = {
    "output": sentences.ON_CELLS,
    "input": sentences.ON_COORDINATES,
    "hadamard": sentences.BETWEEN_STEPS,
}
_NOISY_THING = {"output": "a cell", "input": "a coordinate", "hadamard": "a coordinate after the Hadamard step"}
_CLIPS: dict[SketchClip, str] = {
    "scale": sentences.CLIP_SCALE,
    "equal": sentences.CLIP_EQUAL,
    "average": sentences.CLIP_AVERAGE,
}
_COUNTS = {"units": "the number of {units}", "total": "the total of what is left of them, in data units"}
_COMPOSITIONS: dict[Composition | None, str] = {
    "overlapping": sentences.COMPOSED_OVERLAPPING,
    "disjoint": sentences.COMPOSED_DISJOINT,
    "mixed": sentences.COMPOSED_MIXED,
    None: sentences.COMPOSED_BELOW,
}
_ONE_CELL = (
    "differences are spread over many items. If a difference comes from few items, its error comes from rare "
    "collisions of two of them in one cell, and 95 % intervals cover less: 81 % were observed without noise, 89 % with "
    "noise of a quarter of the map's variance. Chebyshev intervals hold there too."
)
_PLACE_THEOREMS: dict[NoisePlace, str] = {
    "input": "Stausholm 2021, Lemma 8: the map is post-processing of a vector that is private already",
    "hadamard": "Stausholm 2021, Note 7: the sparse matrix is post-processing of a vector that is private already",
}
_ROWS_TOGETHER = (
    "documentation, Theory 11.3, for rows that are released one after the other, of a stream that may depend on them "
    "(Denisov et al. 2022 for continuous Gaussian noise)"
)
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

    def sentence(self, stated: float) -> str:
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

    A release without δ does not state which δ was allowed: its noise is compared at the largest power of ten, up to
    1e-6, below which the rule takes Laplace noise.
    """
    added = guarantee.mechanism.the_noise
    if added is None or added.shares is not None or (added.layers, added.place) != (1, "output"):
        return None
    if unread_matrix(projection, guarantee.neighbours.matrix_number, most_entries=QUICK_ENTRIES) is not None:
        return None
    if added.layout.most_blocks > QUICK_ENTRIES:
        return None
    try:
        budget = guarantee.budget.minus(guarantee.mechanism.keys)
        sensitivity = sensitivity_of(projection, guarantee.neighbours, added.layout)
        power = sensitivity.l1**2 / sensitivity.l2_squared
        options = candidates(sensitivity, Budget(budget.epsilon, budget.delta or _usual_delta(power)))
    except InvalidInputError:  # not a release that the library makes, or no δ to speak of
        return None
    own = next((option.variance for option in options if option.mechanism == added.noise.name), 0.0)
    best = min(options, key=lambda option: option.variance)
    if best.variance >= _WORTH * own:
        return None
    delta = budget.delta or _usual_delta(power)
    return BetterNoise(best.mechanism, delta, math.sqrt(own / best.variance), power)


def _usual_delta(power: float) -> float:
    """Return the largest power of ten below exp(-power), at most 1e-6; 0 for one that is too small to speak of."""
    exponent = min(_USUAL, math.ceil(-power / math.log(10)) - 1)
    return float(f"1e{exponent}") if exponent >= _LEAST else 0.0


@dataclasses.dataclass(frozen=True)
class Explanation(BaseExplanation):
    """The explanation of a release: who is protected, how, with how much noise, and what is not protected.

    It depends on what the release states, and on its cells only if they contradict that. So releases made in the same
    way have equal explanations.

    Parameters
    ----------
    guarantee, projection, noise, noise_place, multiplier
        Of the release.
    releases
        Number of releases that went into it.
    parts
        Noise and guarantee of each of these, if recorded.
    too_short
        The squared norm of the cells, in grid steps², if it is too small to be plausible under the stated noise; else
        None.
    layout
        What the release has of each key.
    clip
        How each unit's sketch was clipped, if it was.
    history
        The part of a history that the release is, if it is a row or a range of rows.

    Examples
    --------
    >>> from streamsketch import L1, SJLT
    >>> sketch = SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7).sketch()
    >>> explanation = sketch.release(epsilon=1.0, neighbours=L1(1, unit="sale")).explain()
    >>> explanation.check.reason
    'scale 4 at ℓ1 sensitivity 4 gives ε = 1, within the stated ε = 1'
    >>> print(str(explanation).splitlines()[0])
    Guarantee  ε = 1, δ = 0 for one sale of at most 1 (L1), asserted, by discrete
    """

    guarantee: Guarantee
    noise: NoiseMoments
    noise_place: NoisePlace
    multiplier: Fraction
    releases: int
    parts: tuple[NoisePart, ...] = ()
    too_short: float | None = None
    layout: Layout = CELLS
    clip: SketchClip | None = None
    history: HistoryPart | None = None

    @property
    def mechanism(self) -> list[str]:
        """The mechanism, in sentences."""
        mechanism = self.guarantee.mechanism.without_places  # which the sentence names
        statements = [sentences.NOISE_ON.format(place=self._noisy_numbers, mechanism=mechanism)]
        if self.clip is not None:
            statements.append(_CLIPS[self.clip].format(unit=self.guarantee.neighbours.unit))
        if self.guarantee.mechanism.is_pan_private:
            statements.append(sentences.NOISE_FROM_THE_START)
        statements += key_selection_sentence(self.guarantee)
        if self.history is not None and self.history.is_row:
            statements.append(sentences.ROW_OF_HISTORY.format(part=self.history, last=self.history.start))
        elif self.history is not None:
            statements.append(sentences.RANGE_OF_HISTORY.format(part=self.history))
        if self.releases > 1:
            statements.append(sentences.COMBINED.format(releases=self.releases, composed=self._composed))
            statements += self._cost_of_all
        if self.multiplier != 1:
            statements.append(sentences.MULTIPLIED.format(multiplier=self.multiplier))
        return statements

    @property
    def _noisy_numbers(self) -> str:
        """What the noise was added to, and how many there are."""
        if self.history is not None:
            return sentences.ON_ROWS.format(count=f"{self.projection.sketch_dim:,}")
        count = effect_of(self.projection, self.noise_place).count
        return _PLACES[self.noise_place].format(count=f"{count:,}")

    @property
    def theorems(self) -> list[str]:
        """The theorems that prove the guarantee."""
        mechanism = self.guarantee.mechanism
        kinds = {type(step.noise) for step in mechanism.noises}
        theorems = [kind.theorem for kind in NOISES.values() if kind in kinds]
        theorems += [_PLACE_THEOREMS[self.noise_place]] if self.noise_place in _PLACE_THEOREMS else []
        if mechanism.is_pan_private:
            theorems.append("Stausholm 2021, Theorem 3.4 (documentation, Theory 4.2)")
        if mechanism.keys is not None:
            theorems.append(KeySelection.theorem)
        if any(step.layout.by_rows for step in mechanism.noises):
            theorems.append(_ROWS_TOGETHER)
        if self.releases > 1:
            theorems.append("Dwork and Roth 2014, Theorem 3.16, or parallel composition")
        return theorems

    @functools.cached_property
    def check(self) -> NoiseCheck:
        """The check whether the stated noise is enough for the guarantee, and consistent with the cells."""
        return with_norm(check_stated(self._stated), self.too_short, self._stated.place)

    @property
    def composition(self) -> Composition | None:
        """How the guarantee composes those of the releases inside; None for a single one, or if unknown."""
        return composition_of(self.guarantee, self.parts) if self.releases > 1 and self.parts else None

    @property
    def _composed(self) -> str:
        if self.parts:
            return _COMPOSITIONS[self.composition]
        return sentences.COMPOSED_UNKNOWN

    @property
    def _cost_of_all(self) -> list[str]:
        """What those pay who are in all of the releases, as a person in each day of a week, where less is stated."""
        if self.composition not in ("disjoint", "mixed"):
            return []
        epsilon = math.fsum(part.count * part.guarantee.epsilon for part in self.parts)
        delta = min(1.0, math.fsum(part.count * part.guarantee.delta for part in self.parts))
        unit = self.guarantee.neighbours.unit
        budget = budget_text(epsilon, delta)
        return [sentences.COST_OF_ALL.format(unit=unit, releases=self.releases, budget=budget)]

    @property
    def _stated(self) -> StatedNoise:
        return StatedNoise(
            self.guarantee,
            self.projection,
            self.noise,
            self.noise_place,
            self.multiplier,
            self.parts,
            self.releases,
            self.history,
        )

    @property
    def noise_deviation(self) -> float:
        """The standard deviation of one noise, in data units, on a cell or, before the map, on a coordinate."""
        return math.sqrt(self._in_data_units.k2)

    @property
    def distances(self) -> list[Estimate]:
        """Expected squared distances to another release with the same noise, at 0 and beyond; none for rows."""
        if self.history is not None and self.history.is_row:
            return []
        blind = self.at_distance(0.0).standard_error
        first = leading_digit(2 * blind)
        return [self.at_distance(value) for value in (0.0, first, 10 * first, 100 * first)]

    def at_distance(self, squared_distance: float) -> Estimate:
        """Return the estimate to expect at this squared distance, in squared data units.

        The other release has independent noise of the same size.
        """
        effect, both = effect_of(self.projection, self.noise_place), self._in_data_units.times(2)
        return Estimate(
            squared_distance,
            self.projection.variance.of_squared_norm(squared_distance),
            effect.squared_norm_variance(squared_distance, both.k2, both.k4),
            lowest=0.0,
        )

    @property
    def amount(self) -> list[str]:
        """The amount of noise, in a sentence."""
        amounts = [f"{_NOISY_THING[self.noise_place]}: ± {self.noise_deviation:.4g}, in data units"]
        for name, error in self.count_errors.items():
            amounts.append(f"{_COUNTS[name].format(units=self.guarantee.neighbours.units)}: ± {error:.4g}")
        sentence, better = f"{'; '.join(amounts)}.", self.better_noise
        return [sentence] if better is None else [sentence, better.sentence(self.guarantee.delta)]

    @property
    def count_errors(self) -> dict[str, float]:
        """The standard errors of ``units`` and, in data units, of ``total``, if there are counts."""
        noise = self.noise.scaled(float(self.multiplier))
        factors = factors_of(self.layout, self.guarantee.neighbours, self.projection.grid)
        return {name: estimate_of_counts(0.0, noise, weights).standard_error for name, weights in factors.items()}

    @functools.cached_property
    def better_noise(self) -> BetterNoise | None:
        """A noise with a smaller error for the same ε, if the default rule did not choose it; else None."""
        return better_noise(self.guarantee, self.projection) if self.releases == 1 else None

    @property
    def not_protected(self) -> list[str]:
        """What the guarantee does not cover."""
        statements = self._beyond("streams")
        if self.guarantee.mechanism.keys is None:
            statements.append(sentences.WHO_TAKES_PART)
        is_pan_private = self.guarantee.mechanism.is_pan_private
        statements.append(sentences.SECOND_INTRUSION if is_pan_private else sentences.EXACT_SKETCH)
        return statements

    @property
    def assumed(self) -> list[str]:
        """The assumptions of estimates and their intervals."""
        return [*super().assumed, *([_ONE_CELL] if self.projection.collisions[0] == 1 else [])]

    @property
    def _in_data_units(self) -> NoiseMoments:
        return self.noise.scaled(float(self.multiplier) * noise_unit(self.projection, self.noise_place))

    def to_registry(self) -> Json:
        """Return an entry for a public registry of deployments; see `explain`."""
        return registry_entry(self.guarantee, [self])

    def to_dict(self) -> Json:
        """Return the explanation as JSON-serialisable objects."""
        return self._common_fields() | {
            "noise": {
                "place": self.noise_place,
                "deviation": self.noise_deviation,
                "k2": self.noise.k2,
                "k4": self.noise.k4,
                "multiplier": str(self.multiplier),
                "better": None if self.better_noise is None else self.better_noise._asdict(),
            },
            "counts": self.count_errors,
            "clip": self.clip,
            "history": _history_fields(self.history),
            "releases": self.releases,
            "composition": self.composition,
            "parts": [_part(part) for part in self.parts],
            "distances": [distance.to_dict("squared_distance") for distance in self.distances],
            "not_protected": self.not_protected,
        }

    def __str__(self) -> str:
        distances = self.distances
        rows = [
            *([("squared distance", "± s.e.", "of the map", "of the noise")] if distances else []),
            *(
                (
                    f"{distance.value:,.6g}",
                    *(
                        f"{part:.3g}" if part >= _LONG else format_value(part, distance.standard_error)
                        for part in distance.errors
                    ),
                )
                for distance in distances
            ),
        ]
        return self._text("Distances  to another release with the same noise:", rows)


def _history_fields(part: HistoryPart | None) -> Json | None:
    return None if part is None else dataclasses.asdict(part) | {"id": part.id.hex()}


def _part(part: NoisePart) -> Json:
    return {
        "count": part.count,
        "multiplier": str(part.multiplier),
        "k2": part.noise.k2,
        "k4": part.noise.k4,
        "guarantee": part.guarantee.to_dict(),
    }


def explain_release(release: PrivateSketch) -> Explanation:
    """Return what a release guarantees; see `Explanation`."""
    return Explanation(
        release.guarantee,
        release.projection,
        release.noise,
        release.noise_place,
        release.multiplier,
        len(release.release_ids),
        release.parts,
        impossible_norm(release),
        release.layout,
        release.clip,
        release.history,
    )


EXPLANATIONS.enter(PrivateSketch.magic, explain_release)
