"""``streamsketch plan --question neighbours``: the expected share of true neighbours that published signs find."""

from typing import Any

import streamsketch as ss
from streamsketch.privacy.neighbours import Neighbours

_SIZES = 256, 1024, 4096
_MECHANISMS: dict[str, Any] = {
    kind.name: kind
    for kind in (
        ss.signs.DPSignOPORPRR,
        ss.signs.DPSignOPORPRRSmooth,
        ss.signs.DPSignRPRRSmooth,
        ss.signs.DPSignLogistic,
        ss.signs.IDPSignOPORP,
        ss.signs.IDPSignRPRR,
    )
}


def sign_mechanisms() -> list[str]:
    """Return the names of mechanisms that take ε and neighbours alone."""
    return list(_MECHANISMS)


def sign_plan(given: dict[str, Any], neighbours: Neighbours | None) -> ss.planning.SignPlan:
    """Return the plan that options request; raise `InvalidInputError` for a mistake in them."""
    name = given["mechanism"] or ss.signs.DPSignOPORPRR.name
    if name not in _MECHANISMS:
        raise ss.InvalidInputError(f"the mechanism of signs must be one of {', '.join(_MECHANISMS)}, got {name!r:.40}")
    if given["members"] is None:
        raise ss.InvalidInputError("state how many vectors the collection has: --members 100000")
    sizes = [int(size) if size % 1 == 0 else size for size in given["signs"] or _SIZES]
    publish: Any = _MECHANISMS[name](epsilon=given["epsilon"], neighbours=neighbours or ss.OneCoordinate(1))
    family = ss.projections.OPORP if publish.one_bin else ss.projections.Rademacher
    asked = {name: given[name] for name in ("nearest", "top", "cosine", "rest", "norm") if given[name] is not None}
    return ss.planning.plan_signs(
        publish,
        family(dim=given["dim"], sketch_dim=sizes[0], seed=0),
        members=given["members"],
        signs=sizes,
        exact_query=given["exact_query"],
        **asked,
    )
