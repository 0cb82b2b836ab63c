"""Who publishes under an agreement with terms."""

import importlib
from collections.abc import Callable
from typing import Any

from streamsketch.agreement.agreement import Agreement
from streamsketch.agreement.terms import Selected
from streamsketch.core.numbers import short
from streamsketch.errors import InvalidInputError
from streamsketch.release.additive_noise import AdditiveNoise
from streamsketch.release.publishers import Publisher

_PRODUCTS = ("streamsketch.signs.publishers",)  # which enter their mechanisms when they are imported

PUBLISHERS: dict[str, Callable[..., Publisher[Any]]] = {}
"""The mechanisms that an agreement may name besides noise on cells. Products enter theirs by `register_publisher`."""


def register_publisher(name: str, make: Callable[..., Publisher[Any]]) -> None:
    """Let agreements name a mechanism; ``make`` returns its publisher for ``epsilon`` and ``neighbours``."""
    PUBLISHERS[name] = make


def publisher_of(agreement: Agreement) -> Publisher[Any]:
    """Return what publishes under an agreement: its mechanism, for its neighbours, with its counts.

    Raises
    ------
    InvalidInputError
        If the agreement has no terms, or names a mechanism that is unknown here or does not fit the neighbours.
    """
    terms, neighbours = agreement.terms, agreement.neighbours
    if terms is None or neighbours is None:
        raise InvalidInputError(
            "the agreement does not say what a release spends: state epsilon (and delta) in it, as "
            "streamsketch.agree(…, epsilon=1, delta=1e-6) does, or release with epsilon=…"
        )
    spent = terms.less(agreement.keys) if isinstance(agreement.keys, Selected) else terms
    if terms.is_noise:
        budget: dict[str, Any] = spent.budget.to_dict()
        schedule = agreement.schedule
        if schedule is not None:  # a bound on a unit's sketches is then on those of all its windows (Theory 11.2)
            neighbours = neighbours.over_rows(schedule.most)
        known: dict[str, Any] = {"counting": agreement.counting, "schedule": schedule}
        return AdditiveNoise(**budget, neighbours=neighbours, mechanism=terms.mechanism, **known)
    if spent.delta:
        raise InvalidInputError(f"mechanisms of signs have δ = 0, and the agreement has {terms}; leave out delta")
    for product in _PRODUCTS:
        if terms.mechanism not in PUBLISHERS:
            importlib.import_module(product)
    make = PUBLISHERS.get(terms.mechanism)
    if make is None:
        names = ", ".join(sorted(PUBLISHERS)) or "none"
        raise InvalidInputError(
            f"the agreement names the mechanism {short(terms.mechanism)}, which is unknown here; known: {names}"
        )
    return make(epsilon=spent.budget.epsilon, neighbours=neighbours)
