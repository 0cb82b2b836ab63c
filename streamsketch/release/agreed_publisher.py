"""Who publishes under an agreement with terms."""

from collections.abc import Callable
from typing import Any

from streamsketch.agreement.agreement import Agreement
from streamsketch.agreement.terms import Selected
from streamsketch.core.numbers import short
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.noise import NOISES
from streamsketch.products import SERVICES, Registry
from streamsketch.release.additive_noise import AdditiveNoise
from streamsketch.release.publishers import Publisher

PUBLISHERS: Registry[Callable[..., Publisher[Any]]] = Registry("mechanism")
"""The mechanisms that an agreement may name besides noise on cells: each makes a publisher of ``epsilon`` and
``neighbours``."""


def publisher_of(agreement: Agreement) -> Publisher[Any]:
    """Return what publishes under an agreement: its mechanism, for its neighbours, with its counts.

    Raises
    ------
    InvalidInputError
        If the agreement has no terms, or names a mechanism that is unknown here or does not fit the neighbours.
    MissingProductError
        If the mechanism is not installed.
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
        over = agreement.layout.neighbours_of_rows(neighbours)
        return AdditiveNoise.of_layout(agreement.layout, **budget, neighbours=over, mechanism=terms.mechanism)
    make = PUBLISHERS.get(terms.mechanism, f"the agreement names the mechanism {short(terms.mechanism)}")
    if make is None:
        names = ", ".join(["auto", *NOISES, *sorted(PUBLISHERS)])
        raise InvalidInputError(
            f"the agreement names the mechanism {short(terms.mechanism)}, which is unknown here; known: {names}"
        )
    if spent.delta:
        raise InvalidInputError(f"mechanisms of signs have δ = 0, and the agreement has {terms}; leave out delta")
    return make(epsilon=spent.budget.epsilon, neighbours=neighbours)


SERVICES.enter("agreed publishers", publisher_of)
