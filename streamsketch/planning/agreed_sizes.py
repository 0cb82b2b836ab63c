"""The size of an agreement's sketches by the number of units: what `streamsketch.agree` with ``units`` asks for."""

from collections.abc import Callable, Mapping, Sequence

from streamsketch.agreement.agreement import Agreement
from streamsketch.agreement.terms import Selected
from streamsketch.core.text import warn_outside
from streamsketch.errors import PlanAssumedWarning
from streamsketch.planning.typical import TypicalUnit
from streamsketch.planning.unit_plans import plan_sizes
from streamsketch.privacy.counting import Counting
from streamsketch.privacy.neighbours import Neighbours
from streamsketch.products import SERVICES
from streamsketch.projections.base import Projection

_ITEMS = 10.0  # of a unit in a key, if nobody states it; as in the command


def with_planned_size(
    agreed: Agreement,
    units: float | Sequence[float] | Mapping[str, float],
    items: float | Sequence[float] | None,
    catalogue: float | None,
    weighed: Callable[[Projection, Neighbours], Counting] | None,
) -> Agreement:
    """Return an agreement with the map that is best for so many units, and warn of what was assumed.

    Parameters
    ----------
    agreed
        The agreement with another map, whose seed is kept.
    units, items, catalogue
        As in `streamsketch.agree`.
    weighed
        Returns the counting of units on the planned grid, on which its weight depends; None to keep that of the
        agreement.

    Raises
    ------
    InvalidInputError
        As in `plan_sizes`.
    """
    spent: dict[str, float] = {}
    terms = agreed.terms
    if terms is not None:
        budget = (terms.less(agreed.keys) if isinstance(agreed.keys, Selected) else terms).budget
        # δ is only of use to Gaussian noise
        spent = {"epsilon": budget.epsilon, "delta": 0.0 if terms.mechanism == "laplace" else budget.delta}
    facts = TypicalUnit(items=_ITEMS if items is None else items, catalogue=catalogue)
    _, best = plan_sizes(agreed, facts, units=units, **spent)
    projection = best.projection(agreed.projection.seed)
    counting = agreed.counting
    if counting is not None and weighed is not None and agreed.neighbours is not None:
        counting = weighed(projection, agreed.neighbours)
    unstated = {"items": items, "catalogue": catalogue}
    if missing := [name for name, value in unstated.items() if value is None]:
        terms_text = "" if terms is not None else " (no terms are stated)"
        warn_outside(
            f"the size rests on what nobody stated. {best.size}, at ε = {best.epsilon:g}{terms_text}. Assumed: "
            f"{facts.assumed(best.unit)}. State {' and '.join(f'{name}=…' for name in missing)}",
            PlanAssumedWarning,
        )
    return agreed.replace(projection=projection, counting=counting)


SERVICES.enter("planned sizes", with_planned_size)
