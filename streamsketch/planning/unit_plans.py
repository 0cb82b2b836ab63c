"""A plan for units: how to protect them, the error that this leaves, and what it gains, as text and as JSON."""

import dataclasses
import functools
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from streamsketch.accounting.sensitivity import guarantee_of
from streamsketch.core.documents import Json
from streamsketch.core.notebooks import ShownAsText
from streamsketch.core.text import NO_BREAK, aligned, filled, short_name
from streamsketch.estimation.estimate import format_value
from streamsketch.planning.noise_floor import NoiseFloor
from streamsketch.planning.plan_text import plan_text
from streamsketch.planning.typical import either
from streamsketch.planning.unit_facts import UnitFacts
from streamsketch.planning.unit_keys import KeyPlanner, PlannedKey, Remedy
from streamsketch.planning.unit_options import Question, UnitOption
from streamsketch.privacy.budget import Budget
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.neighbours import Clip, Neighbours
from streamsketch.projections.base import Projection

NEAR_BEST = {True: 1.03, False: 1.06}  # the optimum is flat, and sums shorter than those stated want fewer cells
_TOGETHER = 4  # times the cells, measured by benchmarks/accuracy/joint_months.py
_WORTH_SAYING = 1.1  # times the error
_NO_PART = 1e-3  # of the error
_SHOWN_KEYS, _NAMED_KEYS, _KEY_WIDTH = 12, 6, 24  # lines of a table, names in a sentence, letters of a name
_ASKED = {
    "cosine": "the cosine of two keys' sums",
    "distance": "the squared distance of two keys' sums, relative to it",
    "mean": "the squared distance of two keys' averages, relative to it",
    "point": "the amount of one item in a sum, in data units",
}


class Outlook(NamedTuple):
    """What becomes of a recommended option under other facts."""

    error: float
    """Its error then."""
    best: UnitOption
    """The option with the least error then."""


@dataclasses.dataclass(frozen=True)
class UnitPlan(ShownAsText):
    """A recommended way to protect units, with its predicted error, and the alternatives.

    Parameters
    ----------
    facts, unit, question, epsilon, delta
        The arguments of `plan_units`.
    units
        Number of units of each key.
    names
        Names of the keys as given, or numbers from 1.
    chosen
        The recommended option.
    options
        All options, fewest cells first.
    outlooks
        What becomes of the recommended option under other facts, by the condition that makes them hold: its error, and
        the best option then.

    Examples
    --------
    >>> from streamsketch.planning import TypicalUnit, plan_units
    >>> typical = TypicalUnit(items=40, catalogue=1000)
    >>> plan = plan_units(typical, units=500, unit="customer", epsilon=1.0, delta=1e-6)
    >>> plan.projection(seed=2024)
    CountSketch(dim=2**60, sketch_dim=1024, seed=2024, resolution='1/16384', independence=8)
    >>> plan.agreement_arguments["neighbours"], plan.agreement_arguments["clip"]
    (SketchL2(1, unit='customer', max_keys=1), 'equal')
    """

    facts: UnitFacts
    units: tuple[float, ...]
    names: tuple[str, ...] = dataclasses.field(repr=False)
    unit: str
    question: Question
    epsilon: float
    delta: float
    chosen: UnitOption
    options: tuple[UnitOption, ...] = dataclasses.field(repr=False)
    outlooks: Mapping[str, Outlook] = dataclasses.field(repr=False, default_factory=dict)

    def projection(self, seed: int) -> Projection:
        """Return the recommended projection with a public seed, which must be chosen independently of the data.

        Noise on the raw histogram has no seed; ``seed`` is then ignored.

        Raises
        ------
        InvalidInputError
            If the seed is not an integer from 0 to 2^64 - 1.
        """
        chosen = self.chosen.projection
        return chosen if self.chosen.is_raw else chosen.replace(seed=seed)

    @property
    def neighbours(self) -> Neighbours:
        """What one unit may add."""
        return self.chosen.neighbours

    @property
    def clip(self) -> Clip:
        """How a unit is clipped to the bound."""
        return self.chosen.clip

    @property
    def agreement_arguments(self) -> dict[str, Any]:
        """The arguments for `Agreement` besides projection and columns, that is, neighbours, clip and counting."""
        return {"neighbours": self.chosen.neighbours, "clip": self.chosen.clip, "counting": self.chosen.layout.counting}

    @property
    def release_arguments(self) -> dict[str, Any]:
        """The arguments for `Sketch.release` as a dict with epsilon, delta, neighbours and mechanism."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "neighbours": self.chosen.neighbours,
            "mechanism": self.chosen.mechanism,
        }

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of a release by this plan. Laplace noise spends no δ, whatever the budget allows."""
        return guarantee_of(self.chosen.noise, Budget(self.epsilon, self.delta), self.chosen.neighbours)

    @functools.cached_property
    def keys(self) -> tuple[PlannedKey, ...]:
        """What to expect for each key, in the given order.

        Examples
        --------
        >>> from streamsketch.planning import TypicalUnit, plan_units
        >>> units = {"France": 900, "Austria": 20}
        >>> plan = plan_units(TypicalUnit(items=40, match=0.004), units=units, epsilon=1.0, delta=1e-6, unit="customer")
        >>> for key in plan.keys:
        ...     print(f"{key.key}: below the noise floor with probability {key.below:.2f}")
        France: below the noise floor with probability 0.00
        Austria: below the noise floor with probability 0.84
        """
        return self._planner.rows(self.names, self.chosen)

    def least_units(self, chance: float = NoiseFloor.even) -> float:
        """Return the number of units with which a key is below the noise floor with this probability, or infinity.

        For ``question="mean"``, the number with which it has no average.
        """
        return self._planner.least_units(self.chosen, chance)

    @property
    def size(self) -> str:
        """The size of the sketch and the expected error, in one sentence."""
        option = self.chosen
        touched = f" (s = {option.nonzeros})" if option.nonzeros > 1 else ""
        return (
            f"{_map_name(option)} of k = {option.cells:,} cells{touched}, resolution {option.projection.resolution}: "
            f"{_ASKED[self.question]} ± {_shown(self, option.error)}{_range_of(self)}"
        )

    @property
    def cells_together(self) -> int:
        """How many cells to take if all keys are compared together, by ``pairwise(…, by="cosine", together=True)``.

        Four times as many as for each pair alone, but no more than the options have: from many keys' cells the noise is
        told better than from those of a pair, while the map's error is the same. `chosen` and its error are those of
        pairs alone. With a raw histogram, and for other questions, the cells are those of `chosen` (Theory 4.9).

        Examples
        --------
        >>> from streamsketch.planning import TypicalUnit, plan_units
        >>> typical = TypicalUnit(items=40, catalogue=1000)
        >>> plan = plan_units(typical, units=500, unit="customer", epsilon=1.0, delta=1e-6)
        >>> plan.chosen.cells, plan.cells_together
        (1024, 4096)
        """
        option = self.chosen
        if option.is_raw or self.question != "cosine":
            return option.cells
        sizes = {
            sketch.cells for sketch in self.options if not sketch.is_raw and sketch.cells <= _TOGETHER * option.cells
        }
        return max(sizes)

    @property
    def standing(self) -> tuple[str, ...]:
        """Which keys are above the noise floor, which are below, and what would change that, in sentences."""
        return tuple(_standing(self))

    @functools.cached_property
    def noise_floor(self) -> NoiseFloor:
        """The squared norm below which a sum has no cosine, and how likely a sum is below it."""
        return NoiseFloor.of(self.chosen.projection, self.chosen.noise)

    @functools.cached_property
    def remedies(self) -> tuple[Remedy, ...]:
        """What would lift the median key of those below the noise floor above it, if anything does."""
        same = [
            option
            for option in self.options
            if (option.neighbours, option.clip) == (self.chosen.neighbours, self.chosen.clip)
        ]
        options = [*same, *(option for option in self.alternatives() if option not in same)]
        return tuple(self._planner.remedies(self.chosen, options, Budget(self.epsilon, self.delta)))

    @functools.cached_property
    def _planner(self) -> KeyPlanner:
        return KeyPlanner(self.facts, np.array(self.units), self.question == "mean")

    def alternatives(self) -> list[UnitOption]:
        """Return the best option of each kind of bound, clip and noise, smallest error first."""
        kinds: dict[str, list[UnitOption]] = {}
        for option in self.options:
            kinds.setdefault(_kind(option), []).append(option)
        best = [
            self.chosen if kind == _kind(self.chosen) else best_of(options, NEAR_BEST[True])
            for kind, options in kinds.items()
        ]
        return sorted(best, key=lambda option: (option is not self.chosen, option.error))

    def to_dict(self) -> Json:
        """Return the plan as a dict of values that JSON can represent."""
        return {
            "question": self.question,
            "assumed": self.facts.assumed(self.unit),
            "unstated": self.facts.unstated,
            "outlooks": {
                condition: {"error": outlook.error, "best": _option(outlook.best)}
                for condition, outlook in self.outlooks.items()
            },
            "units": self.units,
            "projection": self.chosen.fields_of_map,
            "mechanism": self.chosen.mechanism,
            "clip": self.chosen.clip,
            "counting": self.chosen.layout.to_dict().get("counting"),
            "guarantee": self.guarantee.to_dict(),
            "chosen": _option(self.chosen),
            "keys": [key._asdict() for key in self.keys],
            "least_units": {
                f"{chance:g}": _finite(self.least_units(chance)) for chance in (NoiseFloor.even, NoiseFloor.sure)
            },
            "remedies": [_remedy_fields(remedy) for remedy in self.remedies],
            "alternatives": [_option(option) for option in self.alternatives()],
            "notes": list(_notes(self)),
        }

    def __str__(self) -> str:
        error = _shown(self, self.chosen.error)
        expected = f"Predicted error of {_ASKED[self.question]}: ± {error}{_range_of(self)}."
        by_key = _keys(self) if len(self.units) > 1 and self.question in ("cosine", "mean") else ""
        release = f"Each release: {self.guarantee}."
        return plan_text(_headline(self), release, expected, tables=[_choices(self), by_key], notes=_notes(self))


def best_of(options: Iterable[UnitOption], factor: float) -> UnitOption:
    """Return the option to recommend: the smallest of those with nearly the least error, preferably without a bound."""
    options = list(options)
    enough = factor * min(option.error for option in options)
    return min((option for option in options if option.error <= enough), key=preference)


def preference(option: UnitOption) -> tuple[Any, ...]:
    """Return the order of options with nearly the same error: few cells, no bound to choose, little clipping."""
    return option.cells, option.nonzeros, option.clip != "equal", -option.bound, option.error


def _kind(option: UnitOption) -> str:
    bound = option.neighbours.label if option.neighbours.norm == "l1" else "SketchL2"
    where = ", raw" if option.is_raw else ""
    return f"{'equal' if option.clip == 'equal' else bound}, {option.mechanism.title()}{where}"


def _option(option: UnitOption) -> Json:
    return {
        "projection": option.fields_of_map,
        "neighbours": option.neighbours.to_dict(),
        "clip": option.clip,
        "mechanism": option.mechanism,
        "noise": str(option.noise),
        "cells": option.cells,
        "nonzeros": option.nonzeros,
        "map_error": option.map_error,
        "noise_error": option.noise_error,
        "bias": option.bias,
        "error": option.error,
    }


def _headline(plan: UnitPlan) -> str:
    option = plan.chosen
    projection = option.projection
    if option.clip == "equal":
        what = f"each {plan.unit} counts the same (sketches of L2 norm {_bound(option)})"
    elif option.neighbours.norm == "l1":
        keys = "" if option.neighbours.max_keys == 1 else f" in each of at most {option.neighbours.max_keys} keys"
        what = f"at most {_bound(option)} of one {plan.unit}{keys} (L1), scaled"
    else:
        what = f"at most {_bound(option)} of one {plan.unit} (L2 norm of its sketches), scaled"
    parts = [f"{what}. {_map_name(option)} with k = {option.cells:,} cells"]
    parts += [f"s = {option.nonzeros} touched by an update"] if option.nonzeros > 1 else []
    parts += [f"resolution{NO_BREAK}{projection.resolution}", f"{option.mechanism.title()} noise"]
    parts += [] if not option.layout.is_counted else [f"and a count of {plan.unit}s"]
    return ", ".join(parts)


def _bound(option: UnitOption) -> str:
    return f"{float(option.bound):,.6g}"


def _map_name(option: UnitOption) -> str:
    return "No sketch: raw histogram" if option.is_raw else "CountSketch" if option.nonzeros == 1 else "SJLT"


def _shown(plan: UnitPlan, part: float, error: float | None = None) -> str:
    """Return an error, or a part of one, as text: 0 if it does not count."""
    if error is not None and part < _NO_PART * error:
        return "0"
    if plan.question in ("distance", "mean"):
        return f"{format_value(100 * part, 100 * part)} %"
    return format_value(part, part)


def _range_of(plan: UnitPlan) -> str:
    """Return between which errors the truth is, where something was not stated."""
    if "match" not in plan.facts.unstated:
        return ""
    errors = [plan.chosen.error, *(outlook.error for outlook in plan.outlooks.values())]
    return f", from ± {_shown(plan, min(errors))} to ± {_shown(plan, max(errors))} by how often pieces match"


def _choices(plan: UnitPlan) -> str:
    rows: list[tuple[str, ...]] = [("choice", "bound", "keys", "k", "map", "noise", "clipping", "error")]
    rows += [
        (
            f"{'>' if option is plan.chosen else ' '} {_kind(option)}",
            _bound(option),
            f"{option.neighbours.max_keys:,}",
            f"{option.cells:,}" if option.nonzeros == 1 else f"{option.cells:,} (s = {option.nonzeros})",
            *(_shown(plan, part, option.error) for part in (option.map_error, option.noise_error, option.bias)),
            f"± {_shown(plan, option.error)}",
        )
        for option in plan.alternatives()
    ]
    return f"Choices, each with its best bound and size:\n{aligned(rows, left=1)}"


def _keys(plan: UnitPlan) -> str:
    """Return a table of the keys, or of some of all sizes, largest first."""
    ordered = sorted(plan.keys, key=lambda key: -key.units)
    places = np.linspace(0, len(ordered) - 1, min(len(ordered), _SHOWN_KEYS)).round().astype(int)
    rows: list[tuple[str, ...]] = [("key", f"{plan.unit}s", "length", "below", "cosine", "visible")]
    rows += [
        (
            short_name(key.key, _KEY_WIDTH),
            f"{key.units:,.6g}",
            f"{key.length:,.3g}",
            f"{100 * key.below:.0f} %",
            f"± {format_value(key.cosine_error, key.cosine_error)}",
            f"{key.visible_distance:,.3g}",
        )
        for key in (ordered[place] for place in places)
    ]
    some = f" ({places.size} of {len(ordered):,})" if places.size < len(ordered) else ""
    what = "average" if plan.question == "mean" else "sum"
    heading = filled(
        f"Keys, largest first{some}: the length of the sum, the probability that its release is {_lost(plan)}, the "
        f"error of a cosine with another key of its size, and the smallest distance to the {what} of a similar key "
        "that a test finds:"
    )
    return f"{heading}\n{aligned(rows, left=1)}"


def _standing(plan: UnitPlan) -> Iterator[str]:
    """Yield sentences on which keys stand out, and on what would lift the others."""
    lost = _lost(plan)
    below = [key for key in plan.keys if key.below >= NoiseFloor.even]
    above = [key for key in plan.keys if key.below < NoiseFloor.even]
    count = len(plan.keys)
    if count > 1 and below:
        if plan.names == numbered(count):
            which = f"those of {max(key.units for key in below):,.6g} {plan.unit}s or fewer"
        else:
            few = above and len(above) < _NAMED_KEYS < len(below)
            which = f"all but {_named(above)}" if few else _named(below)
        yield f"{len(below):,} of {count:,} keys will probably be {lost} at ε = {plan.epsilon:g}: {which}."
    elif count > 1:
        yield f"All {count:,} keys will probably stand out from the noise."
    even, sure = plan.least_units(NoiseFloor.even), plan.least_units(NoiseFloor.sure)
    if math.isfinite(sure):
        yield (
            f"The probability that a key is {lost} is 50 % with about {_rounded(even)} {plan.unit}s, and "
            f"{100 * NoiseFloor.sure:.0f} % with {_rounded(sure)}."
        )
    else:
        yield f"A key will probably be {lost}, whatever its number of {plan.unit}s."
    for remedy in plan.remedies:
        yield f"{_remedy(plan, remedy, [key.units for key in below])}."


def _lost(plan: UnitPlan) -> str:
    return "without an average" if plan.question == "mean" else "below the noise floor"


def _remedy(plan: UnitPlan, remedy: Remedy, below: list[float]) -> str:
    stand = f"{remedy.standing:,} of {len(plan.keys):,} would stand out" if len(plan.keys) > 1 else "it would stand out"
    if remedy.epsilon is not None:
        return f"With ε = {remedy.epsilon:g}, {stand}"
    if remedy.option is not None:
        option = remedy.option
        return (
            f"With {_kind(option)}, a bound of {_bound(option)} and k = {option.cells:,}, {stand}, at an error of "
            f"± {_shown(plan, option.error)}"
        )
    middle = ", the median of these," if len(below) > 1 else ""
    return (
        f"Keys or windows of {_rounded(float(np.median(below)))} {plan.unit}s{middle} would stand out if "
        f"{remedy.merged:,} were merged into one"
    )


def _named(keys: list[PlannedKey]) -> str:
    """Return the names of keys, of many the first and how many more."""
    names = [short_name(key.key, _KEY_WIDTH) for key in keys]
    if len(names) > _NAMED_KEYS:
        return f"{', '.join(names[: _NAMED_KEYS - 1])} and {len(names) - _NAMED_KEYS + 1:,} more"
    return " and ".join([part for part in (", ".join(names[:-1]), names[-1]) if part])


def _rounded(units: float) -> str:
    """Return a number of units to two digits, rounded up."""
    digits = 1 - math.floor(math.log10(units))
    return f"{math.ceil(round(units * 10.0**digits, 6)) / 10.0**digits:,.10g}"


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _remedy_fields(remedy: Remedy) -> Json:
    option = None if remedy.option is None else _option(remedy.option)
    return {"standing": remedy.standing, "epsilon": remedy.epsilon, "option": option, "merged": remedy.merged}


def _resting_on(plan: UnitPlan) -> Iterator[str]:
    """Yield sentences on what was assumed because it was not stated, and on what the answer hangs."""
    if plan.facts.unstated:
        yield (
            f"Not stated, and so assumed: {'; '.join(plan.facts.unstated.values())}. State it (match, catalogue, "
            f"cosine, shares), or plan from a public sample."
        )
    for condition, (error, best) in plan.outlooks.items():
        better = ""
        if error > _WORTH_SAYING * best.error:
            better = f", where {_kind(best)} with k = {best.cells:,} would give ± {_shown(plan, best.error)}"
        yield f"If {condition}: ± {_shown(plan, error)}{better}."


def _notes(plan: UnitPlan) -> Iterator[str]:
    yield f"Assumed: {plan.facts.assumed(plan.unit)}; {either(plan.units)} {plan.unit}s in a key."
    chosen, kind, keys = plan.chosen, plan.neighbours.kind, plan.neighbours.max_keys
    yield from _resting_on(plan)
    if not plan.facts.knows_all and keys < plan.facts.sizes.keys.max() + 1:
        where = "one key" if keys == 1 else f"{keys} keys"
        yield (
            f"What one {plan.unit} adds to more than {where} is dropped. If some {plan.unit}s are in more keys, pass "
            f"max_keys."
        )
    # of one bound and noise the better way of clipping says it
    others = {(option.neighbours.kind, option.mechanism): option for option in reversed(plan.alternatives()[1:])}
    for other in reversed(others.values()):
        if (
            other.error > _WORTH_SAYING * chosen.error
            and other.is_raw == chosen.is_raw
            and kind != other.neighbours.kind
        ):
            yield (
                f"For comparison: {other.mechanism.title()} noise on {other.neighbours.label} gives "
                f"± {_shown(plan, other.error)} instead of ± {_shown(plan, chosen.error)}."
            )
    raw = [option for option in plan.alternatives() if option.is_raw]
    if chosen.is_raw:
        yield f"All {chosen.cells:,} possible indices are known, so a sketch has no advantage."
    elif raw:
        error = min(option.error for option in raw)
        yield f"Noise on the raw histogram of {raw[0].cells:,} cells would leave ± {_shown(plan, error)}."
    if plan.question != "cosine":
        yield (
            f"Clipping changes sizes. Its bias depends on the largest {plan.unit}s assumed, and one {plan.unit} that "
            "adds more makes it larger. Cosines depend on it far less."
        )
    if chosen.clip == "equal":
        yield (
            f"Each {plan.unit}'s values are scaled to the same length before they are added up: one {plan.unit} that "
            "adds much weighs no more than one that adds little. There is no bound to choose."
        )
    if plan.question in ("cosine", "mean"):
        yield from _standing(plan)


def numbered(count: int) -> tuple[str, ...]:
    """Return the names of keys that have none."""
    return tuple(map(str, range(1, count + 1)))
