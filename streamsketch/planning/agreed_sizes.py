"""The size of an agreement's sketches by the number of units: what `streamsketch.agree` with ``units`` asks for."""

from collections.abc import Callable, Mapping, Sequence

from streamsketch.agreement.agreement import Agreement
from streamsketch.agreement.terms import Selected
from streamsketch.core.text import warn_outside
from streamsketch.errors import PlanAssumedWarning
from streamsketch.planning.typical import TypicalUnit
from streamsketch.planning.unit_planner import plan_sizes
from streamsketch.planning.unit_plans import UnitPlan
from streamsketch.privacy.counting import Counting
from streamsketch.privacy.neighbours import Neighbours
from streamsketch.products import SERVICES
from streamsketch.projections.base import Projection

_UNITS = 2000.0  # in a key, if nobody states it
_ITEMS = 10.0  # of a unit in a key, if nobody states it
REMEDIES = {"units": "units=…", "items": "items=…", "catalogue": "catalogue=…"}
"""How Python states the facts that a size rests on."""


def with_planned_size(
    agreed: Agreement,
    units: float | Sequence[float] | Mapping[str, float] | None,
    items: float | Sequence[float] | None,
    catalogue: float | None,
    weighed: Callable[[Projection, Neighbours], Counting] | None,
    remedies: Mapping[str, str] = REMEDIES,
) -> Agreement:
    """Return an agreement with the map that is best for so many units, and warn of what was assumed.

    Parameters
    ----------
    agreed
        The agreement with another map, whose seed is kept.
    units, items, catalogue
        As in `streamsketch.agree`; None for what nobody stated.
    weighed
        Returns the counting of units on the planned grid, on which its weight depends; None to keep that of the
        agreement.
    remedies
        How each fact is stated.

    Raises
    ------
    InvalidInputError
        As in `plan_sizes`.
    """
    _, best = sizes_of(agreed, units, items, catalogue)
    unstated = {"units": units, "items": items, "catalogue": catalogue}
    if missing := [remedies[name] for name, value in unstated.items() if value is None]:
        terms_text = "" if agreed.terms is not None else " (no terms are stated)"
        many = f"{_UNITS:,.0f} {best.unit}s in a key; " if units is None else ""
        warn_outside(
            f"the size rests on what nobody stated. {best.size}, at ε = {best.epsilon:g}{terms_text}. Assumed: "
            f"{many}{best.facts.assumed(best.unit)}. State {', '.join(missing[:-1])}{' and ' * (len(missing) > 1)}"
            f"{missing[-1]}",
            PlanAssumedWarning,
        )
    return with_size(agreed, best, weighed)


def sizes_of(
    agreed: Agreement,
    units: float | Sequence[float] | Mapping[str, float] | None,
    items: float | Sequence[float] | None,
    catalogue: float | None,
) -> tuple[UnitPlan, UnitPlan]:
    """Return what to expect of an agreement's size and of the best one, at what its terms leave for sketches.

    Parameters
    ----------
    agreed, units, items, catalogue
        As in `with_planned_size`.
    """
    spent: dict[str, float] = {}
    terms = agreed.terms
    if terms is not None:
        budget = (terms.less(agreed.keys) if isinstance(agreed.keys, Selected) else terms).budget
        # δ is only of use to Gaussian noise
        spent = {"epsilon": budget.epsilon, "delta": 0.0 if terms.mechanism == "laplace" else budget.delta}
    facts = TypicalUnit(items=_ITEMS if items is None else items, catalogue=catalogue)
    return plan_sizes(agreed, facts, units=_UNITS if units is None else units, **spent)


def with_size(
    agreed: Agreement, plan: UnitPlan, weighed: Callable[[Projection, Neighbours], Counting] | None
) -> Agreement:
    """Return an agreement with the map of a plan.

    Parameters
    ----------
    agreed, weighed
        As in `with_planned_size`.
    plan
        What `sizes_of` recommends.
    """
    projection = plan.projection(agreed.projection.seed)
    counting = agreed.counting
    if counting is not None and weighed is not None and agreed.neighbours is not None:
        counting = weighed(projection, agreed.neighbours)
    return agreed.replace(projection=projection, counting=counting)


SERVICES.enter("planned sizes", with_planned_size)
