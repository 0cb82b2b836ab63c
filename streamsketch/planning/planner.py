"""The planner: chooses a projection and a mechanism, and predicts the error, from public facts about the streams."""

import dataclasses
import math

from streamsketch.core.wrong import wrong_type
from streamsketch.errors import InvalidInputError
from streamsketch.planning.facts import Goal, Protection, StreamFacts
from streamsketch.planning.options import Option, is_reached, options_for
from streamsketch.planning.plans import Plan
from streamsketch.privacy.budget import Budget
from streamsketch.privacy.neighbours import Neighbours
from streamsketch.projections.base import MAX_SKETCH_DIM

_NEAR_BEST = 1.05  # the optimum is flat: half the cells often cost less than this
_MOST_EPSILON = 100.0  # beyond it there is no privacy worth planning for
_EPSILON_STEP = 1.02


def plan(
    streams: StreamFacts, *, epsilon: float, neighbours: Neighbours, delta: float = 0.0, goal: Goal | None = None
) -> Plan:
    """Plan which sketch to agree on, with the errors of its estimates, before any data are seen.

    If the goal has a relative error, the recommended sketch is the one with the fewest cells that reaches it; ties are
    broken by the cost of an update, then by the error. Otherwise it is the smallest sketch whose error is within 5 % of
    the smallest error, or the raw histogram if that has the smallest error. In both cases no other option is better in
    every respect. The recommended mechanism is the one with the smaller error at the given distances, which may differ
    from the one that the rule δ < exp(-Δ1²/Δ2²) selects.

    An option's standard error is that of `squared_distance` (Theory 4). It is exact for differences in many items, and
    too large for differences in few: for two equal items the map's part is 1/√2 of it, and for a single item 0. The
    error at a confidence follows the normal distribution, or, for differences in few items, where sparsity helps, the
    distribution of Theory 4.1.

    This function takes the neighbours as given. `streamsketch.planning.plan_units` finds a bound on whole units, such
    as persons.

    Parameters
    ----------
    streams
        What is known about the streams.
    epsilon, delta, neighbours
        As in `Sketch.release`.
    goal
        The accuracy to reach and its limits; by default the least error within the default limits.

    Returns
    -------
    Plan
        The parties agree on `Plan.projection` and `Plan.release_arguments`. ``print`` shows the whole plan.

    Raises
    ------
    TypeError
        If streams, neighbours or goal have another type.
    InvalidInputError
        If ε or δ is out of range, the bound is below the streams' step, or the limits leave no option.

    Examples
    --------
    >>> from streamsketch import L1
    >>> streams = StreamFacts(dim=1 << 40, squared_distances=[4_000, 40_000])
    >>> sales = plan(streams, epsilon=1.0, neighbours=L1(1), goal=Goal(relative_error=0.1))
    >>> sales.met, sales.epsilon_needed is not None
    (False, True)
    """
    goal = Goal() if goal is None else goal
    for name, value, kind, remedy in (
        ("streams", streams, StreamFacts, "state the facts, streamsketch.planning.StreamFacts(squared_distances=[…])"),
        ("neighbours", neighbours, Neighbours, "state the bound, such as streamsketch.L1(1, unit='sale')"),
        ("goal", goal, Goal, "state it, as by streamsketch.planning.Goal(relative_error=0.1)"),
    ):
        if not isinstance(value, kind):
            raise wrong_type(f"{name} must be a {kind.__name__}", value, {"else": remedy})
    budget = Budget(epsilon, delta).warn_if_weak()
    protection = Protection(budget, neighbours)
    options = options_for(streams, goal, protection)
    chosen = _recommend(options, goal)
    met = None if goal.relative_error is None else chosen.error <= goal.relative_error
    ordered = tuple(sorted(options, key=lambda option: (option.cells, option.nonzeros, option.error)))
    draft = Plan(streams, goal, budget.epsilon, budget.delta, neighbours, chosen, ordered, met)
    if met is None and chosen.error > 1:
        # the recommended option has up to _NEAR_BEST times the least error, which must be below 1 by that factor
        seen = dataclasses.replace(goal, relative_error=1 / _NEAR_BEST)
        return dataclasses.replace(draft, epsilon_to_see=_epsilon_needed(streams, seen, protection))
    if met is not False:
        return draft
    return dataclasses.replace(
        draft,
        epsilon_needed=_epsilon_needed(streams, goal, protection),
        cells_needed=_cells_needed(streams, goal, protection),
    )


def _recommend(options: list[Option], goal: Goal) -> Option:
    """Return the first, by cells, nonzeros and error, of the options that are accurate enough.

    No other option is better in every respect, as it would be accurate enough too and come first. Without a goal, a raw
    histogram with the least error is not beaten either, and needs no projection.
    """
    best = min(options, key=lambda option: (option.error, option.cells, option.nonzeros))
    if goal.relative_error is None and best.is_raw:
        return best
    enough = _NEAR_BEST * best.error if goal.relative_error is None else max(best.error, goal.relative_error)
    return min(
        (option for option in options if option.error <= enough),
        key=lambda option: (option.cells, option.nonzeros, option.error),
    )


def _epsilon_needed(streams: StreamFacts, goal: Goal, protection: Protection) -> float | None:
    """Return the least ε that reaches the goal, rounded up to about two digits; errors decrease with ε."""
    wanted = float(goal.relative_error or 0)

    def reached(epsilon: float) -> bool:
        try:
            spent = Budget(epsilon, protection.budget.delta)
            return is_reached(streams, goal, dataclasses.replace(protection, budget=spent), wanted)
        except InvalidInputError:  # too little ε for noise that can be sampled
            return False

    if protection.budget.epsilon >= _MOST_EPSILON or not reached(_MOST_EPSILON):
        return None
    low, high = protection.budget.epsilon, _MOST_EPSILON
    while high / low > _EPSILON_STEP:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if reached(middle) else (middle, high)
    digits = 2 - math.ceil(math.log10(high))
    rounded = math.ceil(high * 10**digits) / 10**digits
    return rounded if rounded < _MOST_EPSILON else high


def _cells_needed(streams: StreamFacts, goal: Goal, protection: Protection) -> int | None:
    if goal.max_cells >= MAX_SKETCH_DIM:
        return None
    wider = options_for(streams, dataclasses.replace(goal, max_cells=MAX_SKETCH_DIM), protection)
    return min((option.cells for option in wider if option.reaches(float(goal.relative_error or 0))), default=None)
