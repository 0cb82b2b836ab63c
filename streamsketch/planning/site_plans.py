"""A plan for comparing sites: which features, how much noise, and how small a shift of a population is found."""

import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from streamsketch.accounting.sensitivity import guarantee_of
from streamsketch.core.documents import Json
from streamsketch.core.notebooks import ShownAsText
from streamsketch.core.numbers import check_int, short
from streamsketch.core.text import aligned, check_text
from streamsketch.errors import InvalidInputError
from streamsketch.estimation.estimate import format_value
from streamsketch.features.columns import Embedding, FeatureColumn, Number
from streamsketch.features.features import Features
from streamsketch.planning.plan_text import plan_text
from streamsketch.planning.site_facts import ShareShift, SiteShift, check_shift
from streamsketch.planning.site_power import Noisy, SitePower, SitePrediction, least, noise_of
from streamsketch.privacy.budget import Budget
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.sketch_l2 import SketchL2

WAVES = 8, 16, 32, 64
"""Numbers of random frequencies to choose from: with fewer than 8, intervals of a discrepancy have no upper end."""

_MOMENTS = 0, 1, 2
_JOINT_TIMES = 1, 4, 20  # the weight of joint features, over that of all numbers' own
_EPSILONS = 0.01, 20.0
_MOST_UNITS = 1e9
_MOST_DELTA, _DELTA_SHARE = 1e-6, 0.01  # of one unit
_DEVIATION = 1 / 6
_CERTAIN = 0.9995
_ENOUGH = 0.95


class SiteOption(NamedTuple):
    """A map, and what to expect of it."""

    features: Features
    """With the seed 0."""
    prediction: SitePrediction

    @property
    def waves(self) -> int:
        """The number of random frequencies, joint ones or else those of embeddings."""
        of_embeddings = (column.waves for column in self.features.columns.values() if isinstance(column, Embedding))
        return self.features.joint or max(of_embeddings, default=0)

    @property
    def moments(self) -> int:
        """The number of features that each number has by itself."""
        return max(
            (column.moments for column in self.features.columns.values() if isinstance(column, Number)), default=0
        )

    @property
    def joint_share(self) -> float:
        """The share of joint features in the squared length of a row."""
        amplitudes = [block.amplitude for block in self.features.blocks if block.name == "(joint)"]
        return (amplitudes[0] / (1 << 15)) ** 2 if amplitudes else 0.0

    @property
    def shows_columns(self) -> bool:
        """Whether each column has features of its own, which show whether it differs."""
        return all(column.cells for column in self.features.columns.values())


@dataclasses.dataclass(frozen=True)
class SitePlan(ShownAsText):
    """Recommended features for sites, with the shift that they find, and the alternatives.

    Parameters
    ----------
    units, shift, epsilon, delta, unit, power, deviation
        The arguments of `plan_sites`, for both sites, with the chosen values in place of None.
    chosen
        The recommended option.
    options
        All options.
    given_epsilon
        Whether ε was given, not chosen.
    units_needed
        If the shift is not found with the given power, the number of units per site with which it is found at this ε.
        None if it is found, or never is.
    epsilon_needed
        If the shift is not found, the ε, up to 20, with which it is found with these numbers of units.

    Examples
    --------
    >>> from streamsketch.planning import MeanShift
    >>> plan = plan_sites(30, units=280, shift=MeanShift(0.5, columns=10), epsilon=1.0, unit="patient")
    >>> plan.chosen.features.dim, plan.reached, plan.units_needed
    (32, False, 310)
    """

    units: tuple[float, float]
    shift: SiteShift
    epsilon: float
    delta: float
    unit: str
    power: float
    deviation: float
    chosen: SiteOption
    options: tuple[SiteOption, ...] = dataclasses.field(repr=False)
    given_epsilon: bool = True
    units_needed: int | None = None
    epsilon_needed: float | None = None

    def features(self, seed: int) -> Features:
        """Return the recommended map with a public seed, which must be chosen independently of the data.

        Raises
        ------
        InvalidInputError
            If the seed is not an integer from 0 to 2^64 - 1.
        """
        return dataclasses.replace(self.chosen.features, seed=seed)

    @property
    def units_word(self) -> str:
        """The word for several units."""
        return "people" if self.unit == "person" else f"{self.unit}s"

    @property
    def reached(self) -> bool:
        """Whether the shift is found with the power that was asked for."""
        return self.chosen.prediction.power >= self.power

    @property
    def neighbours(self) -> SketchL2:
        """The neighbours of a release, which protect a whole unit."""
        return SketchL2(1, unit=self.unit, max_keys=1)

    @property
    def release_arguments(self) -> dict[str, Any]:
        """The arguments for `Sketch.release` as a dict with epsilon, delta and neighbours."""
        return {"epsilon": self.epsilon, "delta": self.delta, "neighbours": self.neighbours}

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of a release by this plan."""
        noise, layout = noise_of(self.chosen.features.dim, self.epsilon, self.delta)
        return guarantee_of(noise, Budget(self.epsilon, self.delta), self.neighbours, layout=layout)

    @functools.cached_property
    def visible(self) -> SiteShift | None:
        """The smallest shift of this kind that is found with the required power; None if there is none."""
        return self._planner.visible(self.chosen.features, self._noisy, self.power)

    def power_at(self, units: float, option: SiteOption | None = None) -> float:
        """Return the power of an option, by default the chosen one, with this number of units at both sites."""
        noisy = dataclasses.replace(self._noisy, units=(units, units))
        return self._planner.predicted((option or self.chosen).features, self.shift, noisy).power

    @property
    def _planner(self) -> "SitePower":
        return SitePower(self.shift, self.deviation)

    @property
    def _noisy(self) -> "Noisy":
        return Noisy(self.units, self.epsilon, self.delta)

    def alternatives(self) -> list[SiteOption]:
        """Return a few options to compare, the recommended one included, fewest features first.

        For each number of frequencies these are the options with the most power, with and without features of single
        numbers.
        """
        options = [self.chosen]
        for shows in (False, True):
            for waves in WAVES:
                own = [option for option in self.options if (option.waves, option.shows_columns) == (waves, shows)]
                options += sorted(own, key=lambda option: -option.prediction.power)[:1]
        unique = {id(option): option for option in options}
        return sorted(unique.values(), key=lambda option: (option.features.dim, -option.joint_share))

    def to_dict(self) -> Json:
        """Return the plan as a dict of values that JSON can represent."""
        return {
            "question": "sites",
            "features": {name: value for name, value in self.chosen.features.to_dict().items() if name != "seed"},
            "guarantee": self.guarantee.to_dict(),
            "units": list(self.units),
            "shift": str(self.shift),
            "power_asked": self.power,
            "reached": self.reached,
            "units_needed": self.units_needed,
            "epsilon_needed": self.epsilon_needed,
            "visible": None if self.visible is None else str(self.visible),
            "chosen": _option(self.chosen),
            "alternatives": [_option(option) for option in self.alternatives()],
            "notes": list(_notes(self)),
        }

    def __str__(self) -> str:
        sentences = [f"Each release: {self.guarantee}.", _expected(self), _verdict(self)]
        return plan_text(_headline(self.chosen), *sentences, tables=[_choices(self)], notes=_notes(self))


def plan_sites(  # noqa: PLR0913 - a plan starts from many facts, each of them with a default
    features: Features | Mapping[str, FeatureColumn] | int,
    *,
    units: float | Sequence[float],
    shift: SiteShift,
    epsilon: float | None = None,
    delta: float | None = None,
    unit: str = "person",
    columns: bool | None = None,
    power: float = 0.8,
    deviation: float = _DEVIATION,
) -> SitePlan:
    """Choose features to compare sites, and predict which shift of a population is found.

    It compares maps with 8 to 64 random frequencies of all numbers together, with and without features of each number,
    and embeddings with as many frequencies. The test is ``streamsketch.sameness(x, y, by="mean", samples=True)`` at 5
    %, whose power is predicted from the noise's law, the draw of units and the closed form of the kernel for normal
    numbers (Theory 10.4). In simulations the power was within 0.1 of the prediction for normal numbers, and within 0.2
    for a table of patients.

    Parameters
    ----------
    features
        The columns, with their public ranges and categories; or the number of columns of numbers. If `Features` are
        given, the plan replaces their frequencies, features of numbers and weights.
    units
        Number of units of each site, or two numbers for two sites.
    shift
        The difference to find: `MeanShift`, `ShareShift` or `ClassShift`.
    epsilon
        The ε of one release. None for the smallest ε, up to 20, that finds the shift.
    delta
        The δ of one release; by default 1e-6, or less than a hundredth of 1 over the number of units.
    unit
        The name of what is protected, such as ``"person"``.
    columns
        Whether columns must have features of their own, so that each can be described and compared. By default they
        have them if the shift is found nevertheless.
    power
        The required probability of finding the shift, in (0, 1).
    deviation
        The standard deviation of a number, as a share of its public range.

    Raises
    ------
    InvalidInputError
        If an argument is out of range, or the shift is in columns that do not exist.

    Examples
    --------
    >>> from streamsketch.features import Number
    >>> from streamsketch.planning import MeanShift
    >>> columns = {"age": Number(0, 110), "haemoglobin": Number(5, 20)}
    >>> plan = plan_sites(columns, units=3000, shift=MeanShift(0.5), epsilon=1.0, unit="patient")
    >>> plan.reached, plan.chosen.shows_columns
    (True, True)
    >>> plan_sites(columns, units=60, shift=MeanShift(0.5), epsilon=1.0, unit="patient").reached
    False
    """
    template = _features(features)
    check_text("unit", unit)
    check_shift(shift, template)
    if not 0 < power < 1:
        raise InvalidInputError(f"power must lie in (0, 1), got {power:g}")
    numbers = _numbers_of(units)
    if not 0 < deviation <= 1:
        raise InvalidInputError(f"deviation must lie in (0, 1], as a share of a column's range, got {deviation:g}")
    if delta is None:
        delta = min(_MOST_DELTA, 10 ** math.floor(math.log10(_DELTA_SHARE / max(numbers))))
    if epsilon is not None:
        Budget(epsilon, delta)
    planner, maps = SitePower(shift, deviation), list(_maps(template, shift))
    asked = [candidate for candidate in maps if not columns or _shows(candidate)]

    def reaches(units: tuple[float, float], epsilon: float) -> bool:
        noisy = Noisy(units, epsilon, delta)
        return any(planner.predicted(candidate, shift, noisy).power >= power for candidate in asked)

    chosen_epsilon = epsilon if epsilon is not None else least(lambda value: reaches(numbers, value), *_EPSILONS)
    at = 1.0 if chosen_epsilon is None else chosen_epsilon
    noisy = Noisy(numbers, at, delta)
    options = tuple(SiteOption(candidate, planner.predicted(candidate, shift, noisy)) for candidate in maps)
    chosen = _chosen(options, columns, power)
    needed: tuple[float | None, float | None] = (None, None)
    if chosen.prediction.power < power:
        needed = (
            least(lambda number: reaches((number, number), at), min(numbers), _MOST_UNITS),
            least(lambda value: reaches(numbers, value), at, _EPSILONS[1]) if epsilon is not None else None,
        )
    return SitePlan(
        numbers, shift, at, delta, unit, power, deviation, chosen, options, epsilon is not None,
        None if needed[0] is None else math.ceil(needed[0]), needed[1],
    )  # fmt: skip


def _numbers_of(units: float | Sequence[float]) -> tuple[float, float]:
    numbers = list(units) if isinstance(units, Sequence) else [units, units]
    if len(numbers) != len(("x", "y")) or not all(isinstance(number, int | float) for number in numbers):
        raise InvalidInputError(f"units must be one number for both sites, or two numbers, got {short(units)}")
    if not all(1 <= number <= _MOST_UNITS for number in numbers):
        raise InvalidInputError(f"units must be between 1 and {_MOST_UNITS:,.0f} a site, got {short(units)}")
    return float(numbers[0]), float(numbers[1])


def _features(features: Features | Mapping[str, FeatureColumn] | int) -> Features:
    if isinstance(features, Features):
        return features
    if isinstance(features, Mapping):
        return Features(
            features, seed=0, joint=1 if any(isinstance(column, Number) for column in features.values()) else 0
        )
    check_int(features, "features", 1, 1 << 10)
    return Features({f"number {place}": Number(0, 1) for place in range(1, features + 1)}, seed=0)


def _maps(features: Features, shift: SiteShift) -> Iterator[Features]:
    """Yield maps of these columns."""
    numbers = [column for column in features.columns.values() if isinstance(column, Number)]
    weight = sum(column.weight for column in numbers)
    if not numbers and not any(isinstance(column, Embedding) for column in features.columns.values()):
        yield Features(features.columns, seed=0)
        return
    for moments in _MOMENTS if numbers else (0,):
        # a share of people moves in a category, which joint features do not see: they may be of the least weight, 1
        least = (0,) if isinstance(shift, ShareShift) else ()
        for times in (*least, *(_JOINT_TIMES if moments else (1,))):
            for waves in WAVES:
                columns = {name: _replaced(column, moments, waves) for name, column in features.columns.items()}
                joint: dict[str, Any] = {"joint": waves, "joint_weight": max(times * weight, 1)} if numbers else {}
                yield Features(columns, seed=0, **joint, width=features.width if numbers else None)


def _replaced(column: FeatureColumn, moments: int, waves: int) -> FeatureColumn:
    if isinstance(column, Number):
        return dataclasses.replace(column, moments=moments)
    return dataclasses.replace(column, waves=waves) if isinstance(column, Embedding) else column


def _shows(features: Features) -> bool:
    return all(column.cells for column in features.columns.values())


def _chosen(options: Sequence[SiteOption], columns: bool | None, power: float) -> SiteOption:  # noqa: FBT001
    """Return the option that shows most of columns and still finds the shift; else that which finds it most often."""
    showing = [option for option in options if option.shows_columns]
    enough = [option for option in showing if option.prediction.power >= power]
    if columns is not False and enough:
        # what power is left goes to single columns: their length, and their moments
        return min(
            enough, key=lambda option: (option.joint_share, -option.moments, -_rounded(option), option.features.dim)
        )
    held = showing if columns else options
    return max(held, key=lambda option: (_rounded(option), option.prediction.z))


def _rounded(option: SiteOption) -> float:
    """Return the power of an option to two digits, up to which fewer features are better."""
    return min(round(option.prediction.power, 2), _ENOUGH)


def _option(option: SiteOption) -> Json:
    return {
        "waves": option.waves,
        "moments": option.moments,
        "joint_share": option.joint_share,
        "cells": option.features.dim,
        "shows_columns": option.shows_columns,
        **option.prediction._asdict(),
        "z": option.prediction.z,
    }


def _headline(option: SiteOption) -> str:
    features, parts = option.features, []
    if features.joint:
        parts.append(f"{features.joint} frequencies of all numbers together")
        parts.append(f"moments={option.moments} of each number" if option.moments else "no features of each number")
        if option.moments:
            parts.append(f"joint_weight={features.joint_weight}")
    elif option.waves:
        parts.append(f"{option.waves} frequencies of each embedding")
    return f"{', '.join([*parts, f'{features.dim:,} features in all'])}"


def _people(plan: SitePlan) -> str:
    first, second = plan.units
    if first == second:
        return f"{first:,.0f} {plan.units_word} a site"
    return f"{first:,.0f} and {second:,.0f} {plan.units_word}"


def _expected(plan: SitePlan) -> str:
    prediction = plan.chosen.prediction
    parts = prediction.discrepancy + prediction.drawn, prediction.error, prediction.drawn
    value, error, drawn = (format_value(part, prediction.error) for part in parts)
    return (
        f"With {_people(plan)} and {plan.shift}, the discrepancy (mmd) is {value} ± {error}, of which {drawn} comes "
        f"from the draw of {plan.units_word}. Without that part, it is {_times(prediction.z)} times its standard "
        f"deviation under noise alone. A test at level 5 % finds a difference in {_percent(prediction.power)} of cases."
    )


def _verdict(plan: SitePlan) -> str:
    wanted = f"The goal, to find the difference in {_percent(plan.power)} of cases,"
    if plan.reached:
        chosen = "" if plan.given_epsilon else f" ε = {plan.epsilon:g} is the smallest that reaches it."
        return f"{wanted} is reached.{chosen}"
    says = [f"{wanted} is not reached: there are too few {plan.units_word}."]
    if plan.units_needed is None:
        says.append(f"No number of {plan.units_word} is enough at ε = {plan.epsilon:g}.")
    else:
        says.append(f"It takes {plan.units_needed:,} {plan.units_word} a site at ε = {plan.epsilon:g}.")
    if plan.epsilon_needed is None:
        says.append(
            f"With {_people(plan)} no ε up to {_EPSILONS[1]:g} is enough, because the draw of {plan.units_word} alone "
            "hides the difference."
        )
    else:
        says.append(f"With {_people(plan)} it takes ε = {plan.epsilon_needed:g}.")
    return " ".join(says)


def _choices(plan: SitePlan) -> str:
    rows: list[tuple[str, ...]] = [("choice", "own", "joint share", "features", "discrepancy", "z", "found")]
    for option in plan.alternatives():
        prediction = option.prediction
        rows.append(
            (
                f"{'>' if option is plan.chosen else ' '} "
                + (f"{option.waves} frequencies" if option.waves else "categories alone"),
                f"{option.moments}" if option.features.joint else "-",
                f"{100 * option.joint_share:.0f} %" if option.features.joint else "-",
                f"{option.features.dim:,}",
                f"{prediction.discrepancy:.2g}",
                _times(prediction.z),
                _percent(prediction.power),
            )
        )
    return f"Choices ('own': features of each number):\n{aligned(rows, left=1)}"


def _notes(plan: SitePlan) -> Iterator[str]:
    if plan.visible is None:
        yield f"With these features, no shift of this kind is found in {_percent(plan.power)} of cases."
    else:
        yield f"The smallest shift found in {_percent(plan.power)} of cases: {plan.visible}."
    if not plan.chosen.shows_columns:
        yield (
            "The columns of numbers have no separate features, so a comparison cannot show which of them differ. "
            "Pass columns=True for features of each column."
        )
    if plan.chosen.waves and not plan.chosen.features.joint:
        yield "Assumed: embeddings of two people have a cosine of 0.5, and of two classes 0.25."
    elif plan.chosen.waves:
        yield (
            f"Assumed: numbers are normal and independent, with a standard deviation of {100 * plan.deviation:.3g} % "
            "of their range. If columns are correlated, the true power is higher or lower."
        )


def _times(z: float) -> str:
    return f"{z:.2g}" if z < 10 else f"{z:,.0f}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share <= _CERTAIN else "100 %"
