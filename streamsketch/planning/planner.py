"""The planner: from what is known of the streams to a projection, a mechanism and a predicted error."""

import dataclasses
import math
from collections.abc import Iterable
from typing import Any

from streamsketch.errors import InvalidInputError
from streamsketch.planning.facts import Goal, Protection, Streams
from streamsketch.planning.options import Option, options_for
from streamsketch.planning.text import as_dict, as_text
from streamsketch.privacy import Budget, Guarantee, Neighbours
from streamsketch.projections import MAX_SKETCH_DIM, Projection
from streamsketch.release import guarantee_of

_NEAR_BEST = 1.05  # the optimum is flat: half the cells often cost less than this
_MOST_EPSILON = 100.0  # more is no privacy worth planning for
_EPSILON_STEP = 1.02


@dataclasses.dataclass(frozen=True)
class Plan:
    """A choice of sketch, what it will do, and what else there was.

    Parameters
    ----------
    streams, goal, epsilon, delta, neighbours
        What was asked.
    chosen
        The recommended option.
    options
        All options within the goal's limits, fewest cells first.
    met
        Whether ``chosen`` reaches the goal's relative error; None if there was none.
    epsilon_needed
        If it does not: the least ε, to 2 % and then rounded up to two digits, with which some option within the limits
        would; None if none up to 100.
    cells_needed
        If it does not: the fewest cells, beyond ``max_cells``, with which some option would at the given ε; None if no
        number of cells would.
    epsilon_to_see
        If there was no goal and the error is more than 100 % of a distance: an ε, about the least, with which the
        recommended option has less at all distances; None if none up to 100.

    Examples
    --------
    >>> from streamsketch import L1
    >>> found = plan(Streams(dim=1 << 40, squared_distances=4000), epsilon=1.0, neighbours=L1(1))
    >>> found.projection(seed=2024)
    CountSketch(dim=2**40, sketch_dim=1024, seed=2024, resolution=1, independence=6)
    >>> found.release_arguments["mechanism"]
    'laplace'
    """

    streams: Streams
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
        """Return the recommended projection, with a public seed that was chosen before anyone looked at data.

        Noise on the raw histogram has no seed: it is ignored there.

        Raises
        ------
        InvalidInputError
            If the seed is not an integer from 0 to 2^64 - 1.
        """
        chosen = self.chosen.projection
        return chosen if self.chosen.is_raw else chosen.replace(seed=seed)

    @property
    def release_arguments(self) -> dict[str, Any]:
        """The arguments of `Sketch.release`: epsilon, delta, neighbours and mechanism."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "neighbours": self.neighbours,
            "mechanism": self.chosen.mechanism,
        }

    @property
    def guarantee(self) -> Guarantee:
        """What a release of the plan will promise: Laplace noise keeps ε with δ = 0, whatever δ was allowed."""
        return guarantee_of(self.chosen.noise, Budget(self.epsilon, self.delta), self.neighbours)

    @property
    def raw(self) -> Option | None:
        """Noise on the raw histogram, the better of its mechanisms; None where the domain is too large for it."""
        return min((one for one in self.options if one.is_raw), key=lambda one: one.error, default=None)

    @property
    def other_mechanism(self) -> Option | None:
        """The recommended map with the other mechanism, or the best of them, where others give the guarantee."""
        same = self.chosen.projection.replace(resolution=1)
        others = [
            one
            for one in self.options
            if one.mechanism != self.chosen.mechanism and one.projection.replace(resolution=1) == same
        ]
        # the one that the rule names, if it is there
        return min(others, key=lambda one: (not one.by_rule, one.error), default=None)

    def alternatives(self) -> list[Option]:
        """Return a few options to set beside the recommended one, itself among them, fewest cells first.

        The best of other sizes and of other sparsities, the other mechanism, and the raw histogram.
        """
        sketches = [one for one in self.options if not one.is_raw]
        found = [self.chosen]
        for best in _best(sketches) if self.chosen.is_raw else [self.chosen]:
            found.append(best)
            for size in (best.cells // 4, best.cells // 2, 2 * best.cells, 4 * best.cells):
                found += _best(one for one in sketches if one.cells == size)
            same_size = [one for one in sketches if one.cells == best.cells]
            for nonzeros in sorted({one.nonzeros for one in same_size} - {best.nonzeros})[:4]:
                found += _best(one for one in same_size if one.nonzeros == nonzeros)
        found += [one for one in (self.other_mechanism, self.raw) if one is not None]
        unique = list({id(one): one for one in found}.values())
        return sorted(unique, key=lambda option: (option.cells, option.nonzeros, option.error))

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as what JSON can hold: numbers, text, lists and objects."""
        return as_dict(self)

    def __str__(self) -> str:
        return as_text(self)


def plan(
    streams: Streams, *, epsilon: float, neighbours: Neighbours, delta: float = 0.0, goal: Goal | None = None
) -> Plan:
    """Return the sketch to agree on, with the error its estimates will have, before any data.

    With a relative error as the goal, it is the sketch with the fewest cells that reaches it, and of these the one with
    the cheapest updates, and then the one with the least error. Without, it is the smallest whose error is within 5 %
    of the least, or the raw histogram, if that has the least. Either way no other option is better on every count. The
    mechanism is the one with less error at the distances that matter, which need not be the one that the rule
    δ < exp(-Δ1²/Δ2²) names.

    An option's standard error is that of `squared_distance` (THEORY.md 4): exact for differences that many items make,
    and too large for those of few: of the map's part two equal items have 1/√2, and a single one nothing. The error at
    a confidence is the normal law's, and for differences of few items the law of THEORY.md 4.1, where sparsity pays.

    Parameters
    ----------
    streams
        What is known of them.
    epsilon, delta, neighbours
        As in `Sketch.release`.
    goal
        What to reach, within which limits; by default as little error as can be had.

    Raises
    ------
    TypeError
        If streams, neighbours or goal are of another type.
    InvalidInputError
        For ε or δ out of range, a bound below the streams' step, or limits that leave no option.

    Examples
    --------
    >>> from streamsketch import L1
    >>> streams = Streams(dim=1 << 40, squared_distances=[4_000, 40_000])
    >>> found = plan(streams, epsilon=1.0, neighbours=L1(1), goal=Goal(relative_error=0.1))
    >>> found.met, found.epsilon_needed is not None
    (False, True)
    """
    goal = Goal() if goal is None else goal
    for name, value, kind in (
        ("streams", streams, Streams),
        ("neighbours", neighbours, Neighbours),
        ("goal", goal, Goal),
    ):
        if not isinstance(value, kind):
            raise TypeError(f"{name} must be a {kind.__name__}, got a {type(value).__name__}")
    budget = Budget(epsilon, delta)
    protection = Protection(budget, neighbours)
    options = options_for(streams, goal, protection)
    chosen = _recommended(options, goal)
    met = None if goal.relative_error is None else chosen.error <= goal.relative_error
    ordered = tuple(sorted(options, key=lambda one: (one.cells, one.nonzeros, one.error)))
    found = Plan(streams, goal, budget.epsilon, budget.delta, neighbours, chosen, ordered, met)
    if met is None and chosen.error > 1:
        # the recommended option has up to _NEAR_BEST times the least error: so much below 1 must the least be
        seen = dataclasses.replace(goal, relative_error=1 / _NEAR_BEST)
        return dataclasses.replace(found, epsilon_to_see=_epsilon_needed(streams, seen, protection))
    if met is not False:
        return found
    return dataclasses.replace(
        found,
        epsilon_needed=_epsilon_needed(streams, goal, protection),
        cells_needed=_cells_needed(streams, goal, protection),
    )


def _recommended(options: list[Option], goal: Goal) -> Option:
    """Return the first, by cells, nonzeros and error, of the options that are good enough.

    None of the others is better on every count: it would be good enough too, and come first. Where nothing but
    exactness is asked for and the raw histogram has most of it, it is not beaten either, and needs no projection.
    """
    best = min(options, key=lambda one: (one.error, one.cells, one.nonzeros))
    if goal.relative_error is None and best.is_raw:
        return best
    enough = _NEAR_BEST * best.error if goal.relative_error is None else max(best.error, goal.relative_error)
    return min((one for one in options if one.error <= enough), key=lambda one: (one.cells, one.nonzeros, one.error))


def _epsilon_needed(streams: Streams, goal: Goal, protection: Protection) -> float | None:
    """Return the least ε that reaches the goal, rounded up to two digits or so; errors fall with ε."""
    wanted = float(goal.relative_error or 0)

    def reached(epsilon: float) -> bool:
        try:
            spent = Budget(epsilon, protection.budget.delta)
            options = options_for(streams, goal, dataclasses.replace(protection, budget=spent))
        except InvalidInputError:  # too little ε for noise that can be sampled
            return False
        return any(option.reaches(wanted) for option in options)

    if protection.budget.epsilon >= _MOST_EPSILON or not reached(_MOST_EPSILON):
        return None
    low, high = protection.budget.epsilon, _MOST_EPSILON
    while high / low > _EPSILON_STEP:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if reached(middle) else (middle, high)
    digits = 2 - math.ceil(math.log10(high))
    rounded = math.ceil(high * 10**digits) / 10**digits
    return rounded if rounded < _MOST_EPSILON else high


def _cells_needed(streams: Streams, goal: Goal, protection: Protection) -> int | None:
    if goal.max_cells >= MAX_SKETCH_DIM:
        return None
    wider = options_for(streams, dataclasses.replace(goal, max_cells=MAX_SKETCH_DIM), protection)
    return min((one.cells for one in wider if one.reaches(float(goal.relative_error or 0))), default=None)


def _best(options: Iterable[Option]) -> list[Option]:
    """Return the option with the least error, alone in a list; no option of none."""
    best = min(options, key=lambda option: option.error, default=None)
    return [] if best is None else [best]
