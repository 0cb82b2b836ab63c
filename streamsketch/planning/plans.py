"""Plan: a recommended sketch, as text of 80 columns and as a dict for JSON."""

import dataclasses
import math
from collections.abc import Iterable, Iterator
from typing import Any

from streamsketch.accounting.sensitivity import guarantee_of
from streamsketch.core.documents import Json
from streamsketch.core.notebooks import ShownAsText
from streamsketch.core.text import NO_BREAK, aligned, filled
from streamsketch.data.canonical import HASHED_DIM
from streamsketch.estimation.estimate import format_value
from streamsketch.planning.facts import Goal, StreamFacts
from streamsketch.planning.noise_floor import NoiseFloor
from streamsketch.planning.options import Option, planned_sensitivity
from streamsketch.planning.plan_text import plan_text
from streamsketch.privacy.budget import Budget
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.neighbours import Neighbours
from streamsketch.privacy.noise import NOISES
from streamsketch.projections.base import Projection
from streamsketch.projections.block_hashed import BlockHashed
from streamsketch.projections.sjlt import Rademacher

_HOPELESS = 100.0  # errors of more than this multiple of the distance are shown in three digits
_LONG = 1e8
_SAY_RAW = "no sketch: raw histogram"


@dataclasses.dataclass(frozen=True)
class Plan(ShownAsText):
    """A recommended sketch with its predicted errors, and the alternatives.

    Parameters
    ----------
    streams, goal, epsilon, delta, neighbours
        The arguments of `plan`.
    chosen
        The recommended option.
    options
        All options within the goal's limits, fewest cells first.
    met
        Whether ``chosen`` reaches the goal's relative error; None if the goal has none.
    epsilon_needed
        If ``met`` is False, the smallest ε at which an option within the limits reaches the goal, found to 2 % and
        rounded up to two digits. None if no ε up to 100 does.
    cells_needed
        If ``met`` is False, the smallest number of cells, beyond ``max_cells``, with which an option reaches the goal
        at the given ε. None if no number of cells is enough.
    epsilon_to_see
        If the goal has no relative error and the predicted error exceeds 100 % of some distance, about the smallest ε
        at which it is below 100 % for all distances. None if no ε up to 100 is enough.

    Examples
    --------
    >>> from streamsketch import L1, plan
    >>> sales = plan(StreamFacts(dim=1 << 40, squared_distances=4000), epsilon=1.0, neighbours=L1(1))
    >>> sales.projection(seed=2024)
    CountSketch(dim=2**40, sketch_dim=1024, seed=2024, resolution=1, independence=6)
    >>> sales.release_arguments["mechanism"]
    'laplace'
    """

    streams: StreamFacts
    goal: Goal
    epsilon: float
    delta: float
    neighbours: Neighbours
    chosen: Option
    options: tuple[Option, ...] = dataclasses.field(repr=False)
    met: bool | None
    epsilon_needed: float | None = None
    cells_needed: int | None = None
    epsilon_to_see: float | None = None

    def projection(self, seed: int) -> Projection:
        """Return the recommended projection with a public seed. Choose the seed independently of the data.

        If the plan recommends noise on the raw histogram, ``seed`` is ignored.

        Raises
        ------
        InvalidInputError
            If the seed is not an integer from 0 to 2^64 - 1.
        """
        chosen = self.chosen.projection
        return chosen if self.chosen.is_raw else chosen.replace(seed=seed)

    @property
    def release_arguments(self) -> dict[str, Any]:
        """The arguments for `Sketch.release` as a dict with epsilon, delta, neighbours and mechanism."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "neighbours": self.neighbours,
            "mechanism": self.chosen.mechanism,
        }

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of a release by this plan. Laplace noise spends no δ, even if the budget has one."""
        return guarantee_of(self.chosen.noise, Budget(self.epsilon, self.delta), self.neighbours)

    @property
    def raw(self) -> Option | None:
        """Noise on the raw histogram with the better mechanism; None if the domain is too large."""
        return min((option for option in self.options if option.is_raw), key=lambda option: option.error, default=None)

    @property
    def other_mechanism(self) -> Option | None:
        """The recommended map with the best other mechanism; None if no other gives the guarantee."""
        same = self.chosen.projection.replace(resolution=1)
        others = [
            option
            for option in self.options
            if option.mechanism != self.chosen.mechanism and option.projection.replace(resolution=1) == same
        ]
        # the one that the rule names, if it is there
        return min(others, key=lambda option: (not option.by_rule, option.error), default=None)

    @property
    def visible_squared_distance(self) -> float:
        """The smallest squared distance that `streamsketch.sameness` finds with probability 0.8 at level 0.05."""
        return NoiseFloor.of(self.chosen.projection, self.chosen.noise).visible_distance() ** 2

    def alternatives(self) -> list[Option]:
        """Return a few options to compare, the recommended one included, fewest cells first.

        They are the best of other sizes and sparsities, the other mechanism, and the raw histogram.
        """
        sketches = [option for option in self.options if not option.is_raw]
        options = [self.chosen]
        for best in _best(sketches) if self.chosen.is_raw else [self.chosen]:
            options.append(best)
            for size in (best.cells // 4, best.cells // 2, 2 * best.cells, 4 * best.cells):
                options += _best(option for option in sketches if option.cells == size)
            same_size = [option for option in sketches if option.cells == best.cells]
            for nonzeros in sorted({option.nonzeros for option in same_size} - {best.nonzeros})[:4]:
                options += _best(option for option in same_size if option.nonzeros == nonzeros)
        options += [option for option in (self.other_mechanism, self.raw) if option is not None]
        unique = list({id(option): option for option in options}.values())
        return sorted(unique, key=lambda option: (option.cells, option.nonzeros, option.error))

    def to_dict(self) -> Json:
        """Return the plan as a dict of values that JSON can represent."""
        return {
            "projection": self.chosen.fields_of_map,
            "mechanism": self.chosen.mechanism,
            "guarantee": self.guarantee.to_dict(),
            "goal": dataclasses.asdict(self.goal),
            "reached": self.met,
            "epsilon_needed": self.epsilon_needed,
            "epsilon_to_see": self.epsilon_to_see,
            "cells_needed": self.cells_needed,
            "visible_squared_distance": self.visible_squared_distance,
            "chosen": _option(self.chosen),
            "alternatives": [_option(option) for option in self.alternatives()],
            "notes": list(_notes(self)),
        }

    def __str__(self) -> str:
        release = f"Each release: {self.guarantee}."
        expected = [_predictions(self), filled(_verdict(self)), _choices(self)]
        return plan_text(_headline(self.chosen), release, tables=expected, notes=_notes(self))


def _best(options: Iterable[Option]) -> list[Option]:
    """Return the option with the least error in a list, which is empty if there are no options."""
    best = min(options, key=lambda option: option.error, default=None)
    return [] if best is None else [best]


def _option(option: Option) -> Json:
    return {
        "projection": option.fields_of_map,
        "mechanism": option.mechanism,
        "noise": str(option.noise),
        "cells": option.cells,
        "nonzeros": option.nonzeros,
        "by_rule": option.by_rule,
        "predictions": [
            estimate.to_dict("squared_distance") | {"relative_error": error}
            for estimate, error in zip(option.estimates, option.errors, strict=True)
        ],
    }


def _headline(option: Option) -> str:
    projection = option.projection
    if option.is_raw:
        return f"no sketch. Put noise on the raw histogram, {_cells(option)}, at resolution {projection.resolution}"
    parts = [f"{_map_name(option)} with k = {_cells(option)}"]
    if isinstance(projection, BlockHashed):
        parts.append(f"s = {option.nonzeros} touched by an update")
    parts.append(f"independence t = {projection.agreed_fields()['independence']}")
    parts.append(f"resolution{NO_BREAK}{projection.resolution}")
    return ", ".join(parts)


def _cells(option: Option) -> str:
    return f"{option.cells:,} {'cell' if option.cells == 1 else 'cells'}"


def _map_name(option: Option) -> str:
    """Return the short name of an option's map."""
    if option.is_raw:
        return _SAY_RAW
    if isinstance(option.projection, BlockHashed) and not isinstance(option.projection, Rademacher):
        return "CountSketch" if option.nonzeros == 1 else "SJLT"
    return type(option.projection).__name__


def _predictions(plan: Plan) -> str:
    rows: list[tuple[str, ...]] = [("squared distance", "± s.e.", "of the map", "of the noise", _at(plan))]
    for estimate, error in zip(plan.chosen.estimates, plan.chosen.errors, strict=True):
        spread = estimate.standard_error
        parts = (*estimate.errors, error * estimate.value)
        shown = [f"{part:.3g}" if error >= _HOPELESS or part >= _LONG else format_value(part, spread) for part in parts]
        rows.append((f"{estimate.value:,.6g}", *shown[:3], f"± {shown[3]} ({_percent(error)})"))
    return aligned(rows, left=0)


def _verdict(plan: Plan) -> str:
    goal = plan.goal
    if plan.met is None:
        return ""
    wanted = f"The goal, ± {_percent(goal.relative_error or 0)} at {100 * goal.confidence:.10g} % confidence,"
    if plan.met:
        return f"{wanted} is reached."
    least = f"{wanted} is not reached. The smallest error is ± {_percent(plan.chosen.error)}:"
    ways = []
    if plan.epsilon_needed is not None:
        ways.append(f"ε = {plan.epsilon_needed:g} instead of {plan.epsilon:g}")
    if plan.cells_needed is not None:
        ways.append(f"{plan.cells_needed:,} cells instead of at most {goal.max_cells:,}")
    if ways:
        return f"{least} the goal takes {', or '.join(ways)}."
    return (
        f"{least} no ε up to 100 reaches the goal with at most {goal.max_cells:,} cells and {goal.max_nonzeros} "
        f"nonzeros. Raise those limits, or relative_error."
    )


def _choices(plan: Plan) -> str:
    rows: list[tuple[str, ...]] = [("choice", "cells", "per update", "noise", "± s.e.", _at(plan))]
    for option in plan.alternatives():
        estimate = option.estimates[option.errors.index(option.error)]
        rows.append(
            (
                f"{'>' if option is plan.chosen else ' '} {_map_name(option)}",
                f"{option.cells:,}",
                f"{option.nonzeros:,}",
                option.mechanism.title(),
                _percent(estimate.standard_error / estimate.value),
                f"± {_percent(option.error)}",
            )
        )
    which = "" if len(plan.streams.distances) == 1 else " (errors at the worst distance of each)"
    return f"Choices{which}:\n{aligned(rows, left=1)}"


def _notes(plan: Plan) -> Iterator[str]:
    yield from _on_lost_distances(plan)
    yield from _on_mechanism(plan)
    yield from _on_sparsity(plan)
    yield from _on_raw(plan)
    if plan.chosen.projection.resolution != plan.streams.step and plan.streams.step is not None:
        yield (
            f"The values are multiples of {plan.streams.step}. The finer resolution costs nothing: rounding the "
            f"{plan.chosen.mechanism.title()} noise to its grid adds less variance."
        )
    if plan.streams.step is None:
        share = plan.streams.truncation(plan.chosen.projection.grid)
        yield (
            f"At resolution {plan.chosen.projection.resolution} truncation changes a squared distance by at most "
            f"{_percent(1.01 * share)}, even if all updates fall on one coordinate."
        )
    yield (
        f"A test of whether two streams are the same (sameness, level 0.05) finds a squared distance of "
        f"{plan.visible_squared_distance:,.3g} with probability 0.8."
    )


def _on_lost_distances(plan: Plan) -> Iterator[str]:
    errors = zip(plan.streams.distances, plan.chosen.errors, strict=True)
    lost = [f"{distance:,.6g}" for distance, error in errors if error > 1]
    if not lost or plan.met is not None:  # where there is a goal, the verdict says what it takes
        return
    many = len(lost) > 1
    yield (
        f"{'Squared distances' if many else 'A squared distance'} of {' and '.join(lost)} "
        f"{'are smaller than their errors' if many else 'is smaller than its error'} {_at(plan)} confidence: such "
        f"streams cannot be distinguished. "
        + (
            f"To distinguish them takes ε = {plan.epsilon_to_see:g} instead of {plan.epsilon:g}."
            if plan.epsilon_to_see is not None
            else "With these limits on cells and nonzeros, no ε up to 100 is enough."
        )
    )


def _on_mechanism(plan: Plan) -> Iterator[str]:
    chosen, other = plan.chosen, plan.other_mechanism
    if plan.delta == 0:
        pure = " and ".join(name.title() for name, kind in NOISES.items() if not kind.needs_delta)
        yield f"δ = 0 allows {pure} noise only."
        return
    if other is None or not (chosen.by_rule or other.by_rule):  # the noise of the rule is too wide to be drawn
        return
    rule, exact = (chosen, other) if chosen.by_rule else (other, chosen)
    sensitivity = planned_sensitivity(chosen.projection, plan.neighbours)
    power = sensitivity.l1**2 // sensitivity.l2_squared
    sign = "<" if math.log(plan.delta) < -power else "≥"
    says = f"δ = {plan.delta:g} {sign} exp(-{power}), so the rule of thumb selects {rule.mechanism.title()} noise"
    compared = f"± {_percent(chosen.error)}, against ± {_percent(other.error)} with {other.mechanism.title()} noise"
    if chosen.by_rule:
        yield f"{says}. So does the exact comparison: {compared}."
    else:
        yield (
            f"{says}, but in the exact comparison {exact.mechanism.title()} noise is better: {compared}. Release with "
            f"mechanism={exact.mechanism!r}."
        )


def _on_sparsity(plan: Plan) -> Iterator[str]:
    chosen = plan.chosen
    if not isinstance(chosen.projection, BlockHashed):
        return
    same = [
        option for option in plan.options if option.cells == chosen.cells and isinstance(option.projection, BlockHashed)
    ]
    fewer = [option for option in same if option.nonzeros == 1 and chosen.nonzeros > 1]
    more = [option for option in same if option.nonzeros > chosen.nonzeros]
    if fewer:
        best = min(fewer, key=lambda option: option.error)
        yield (
            f"Sparsity s = {chosen.nonzeros} gives lighter tails for differences in few items: "
            f"± {_percent(chosen.error)}, against ± {_percent(best.error)} with s = 1."
        )
    if more:
        best = min(more, key=lambda option: option.error)
        lighter = best.error < chosen.error
        yield (
            f"More nonzeros {'give still lighter tails' if lighter else 'do not help here'}: at best "
            f"± {_percent(best.error)} with s = {best.nonzeros}, by {best.mechanism.title()} noise."
        )


def _on_raw(plan: Plan) -> Iterator[str]:
    raw = plan.raw
    sketches = [option for option in plan.options if not option.is_raw]
    if raw is None or not sketches:
        if raw is None and plan.streams.dim < HASHED_DIM:
            yield f"The raw histogram of {plan.streams.dim:,} cells exceeds the limits, so a sketch is needed."
        return
    best = min(sketches, key=lambda option: option.error)
    if plan.chosen is raw:
        yield (
            f"The domain is small and known, so a sketch has no advantage: noise on its {_cells(raw)} gives "
            f"± {_percent(raw.error)}, the best sketch ± {_percent(best.error)} with {_cells(best)}."
        )
    else:
        better = "would be more accurate" if raw.error < plan.chosen.error else "would be less accurate"
        yield f"Noise on the raw histogram, {_cells(raw)}, {better}: ± {_percent(raw.error)}."


def _at(plan: Plan) -> str:
    return f"at {100 * plan.goal.confidence:.10g} %"


def _percent(share: float) -> str:
    return f"{100 * share:,.0f} %" if 10 <= share < _HOPELESS else f"{100 * share:.3g} %"
