"""Releases under an agreement with terms: who publishes, which keys, and the one call that does it."""

import importlib
import os
from collections.abc import Callable
from typing import Any

from streamsketch.accounting import Ledger, charge_for
from streamsketch.agreement import Agreement, Selected
from streamsketch.core import short
from streamsketch.errors import IncompatibleAgreementsError, InvalidInputError
from streamsketch.privacy import Neighbours, compose
from streamsketch.release.additive_noise import AdditiveNoise
from streamsketch.release.key_choice import KeyChoice
from streamsketch.release.published import load_published
from streamsketch.release.publishers import Publisher
from streamsketch.release.ready import Calibrated
from streamsketch.release.released_again import note_release, warn_of_another
from streamsketch.sketching import BoundingSummary, Sketch, SketchTable, bound, counting_of

_PRODUCTS = ("streamsketch.signs",)  # which enter their mechanisms when they are imported

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
        return AdditiveNoise(**budget, neighbours=neighbours, mechanism=terms.mechanism, counting=agreement.counting)
    if spent.delta:
        raise InvalidInputError(f"mechanisms of signs have δ = 0, and the agreement has {terms}; leave out delta")
    for product in _PRODUCTS:
        if terms.mechanism not in PUBLISHERS:
            importlib.import_module(product)
    make = PUBLISHERS.get(terms.mechanism)
    if make is None:
        known = ", ".join(sorted(PUBLISHERS)) or "none"
        raise InvalidInputError(
            f"the agreement names the mechanism {short(terms.mechanism)}, which is unknown here; known: {known}"
        )
    return make(epsilon=spent.budget.epsilon, neighbours=neighbours)


def sketch_agreed(
    agreement: Agreement,
    rows: Any,
    *,
    summary: BoundingSummary | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> Sketch | SketchTable:
    """Return the exact, secret sketch of rows: bounded if the agreement has a unit column; see `Agreement.sketch`."""
    if agreement.unit is None or agreement.neighbours is None:
        if summary is not None or folder is not None:
            raise InvalidInputError(
                "the agreement has no unit column, so nothing is bounded: leave out summary and folder"
            )
        exact: Sketch | SketchTable = Sketch(agreement) if agreement.key is None else SketchTable(agreement)
        exact.update_rows(rows)
        return exact
    listed = agreement.keys if isinstance(agreement.keys, tuple) else None
    return bound(rows, agreement, public_keys=listed, summary=summary, folder=folder)


def release_agreed(
    agreement: Agreement,
    data: Any,
    *,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    again: bool = False,
    summary: BoundingSummary | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> Any:
    """Bound, sketch and draw under an agreement; see `Agreement.release`."""
    publisher = publisher_of(agreement)
    calibrated = publisher.calibrated(agreement.projection)  # a refusal costs no reading of rows
    if isinstance(data, Sketch | SketchTable):
        _check_follows(data, agreement)
        exact = data
    else:
        exact = sketch_agreed(agreement, data, summary=summary, folder=folder)
    charged: dict[str, Any] = {"ledger": ledger, "dataset": dataset}
    if isinstance(exact, Sketch):
        return publisher.release(exact, again=again, **charged)
    if isinstance(agreement.keys, Selected):
        return _release_selected(publisher, calibrated, exact, agreement.keys, again=again, **charged)
    listed = agreement.keys if isinstance(agreement.keys, tuple) else None
    keys: dict[str, Any] = {"public_keys": listed, "keys_are_public": listed is None}
    return publisher.release_table(exact, **keys, again=again, **charged)


def load_agreed(agreement: Agreement, path: str | os.PathLike[str], **checked: Any) -> Any:
    """Return the release in a file that follows the agreement: `streamsketch.load` with ``expect``."""
    return load_published(path, expect=agreement, **checked)


def _release_selected(
    publisher: Publisher[Any],
    calibrated: Calibrated[Any],
    table: SketchTable,
    share: Selected,
    *,
    again: bool,
    ledger: Ledger | None,
    dataset: str | None,
) -> Any:
    """Return a release of the keys that are chosen privately: charged as a whole, then chosen, then drawn."""
    choice = KeyChoice.of(table, share.budget)
    whole = compose([calibrated.guarantee_for(table), choice.guarantee], populations="overlapping")
    warn_of_another(table.data_ids, whole, again=again)
    charge_for(ledger, dataset, whole, table.projection, table.data_ids)
    chosen = choice.draw()
    note_release(table.data_ids, whole)
    if not chosen:
        raise InvalidInputError(
            f"no key has enough units to be chosen with {share.budget}; the budget is spent. List keys that are known "
            "without looking at the data, or give the choice a larger share"
        )
    ready = calibrated.with_guarantee(whole).for_data({key: table.sketch_of(key) for key in chosen})
    return publisher.table_of(ready.draw())


def _check_follows(data: Sketch | SketchTable, agreement: Agreement) -> None:
    """Raise an error unless data were sketched under this agreement, and bounded if it has a unit column."""
    if data.agreement is None:
        raise IncompatibleAgreementsError(
            "these data follow no agreement: sketch them by agreement.sketch(rows), or release them with epsilon=…"
        )
    agreement.check_same(data.agreement)
    if agreement.unit is not None and not data.bounds.is_enforced:
        raise InvalidInputError(
            f"the agreement protects one {agreement.unit.name}, and these data were not bounded: pass the rows, or "
            "what agreement.sketch(rows) returns"
        )


def exit_of(
    data: Sketch | SketchTable,
    *,
    epsilon: float | None,
    delta: float | None,
    mechanism: str | None,
    neighbours: Neighbours | None,
) -> AdditiveNoise:
    """Return the noise that `Sketch.release` asks for; what is left out is what the agreement or the bounds state.

    Raises
    ------
    InvalidInputError
        If nothing states ε or the neighbours.
    """
    agreement = data.agreement
    terms = None if agreement is None else agreement.terms
    if epsilon is None:
        if terms is None or agreement is None:
            raise InvalidInputError(
                "state what the release spends: epsilon=1.0 (and delta=1e-6 for a bound on sketches), or an agreement "
                "with terms, streamsketch.agree(…, epsilon=1, delta=1e-6)"
            )
        if not terms.is_noise or isinstance(agreement.keys, Selected):
            raise InvalidInputError(
                f"the agreement publishes by {terms}, which agreement.release(data) does; this adds noise alone"
            )
        epsilon = terms.budget.epsilon
        delta = terms.budget.delta if delta is None else delta
        mechanism = terms.mechanism if mechanism is None else mechanism
    if neighbours is None:
        neighbours = data.bounds.neighbours if data.bounds.is_enforced else None
        neighbours = neighbours or (None if agreement is None else agreement.neighbours)
    if neighbours is None:
        raise InvalidInputError(
            "state how much one unit can change: neighbours=L1(bound, unit=…) or SketchL2(bound, unit=…); only data "
            "that streamsketch.bound made, or whose agreement has neighbours, can leave it out"
        )
    noise: dict[str, Any] = {"delta": delta, "mechanism": mechanism}
    noise = {name: asked for name, asked in noise.items() if asked is not None}
    return AdditiveNoise(epsilon=epsilon, **noise, neighbours=neighbours, counting=counting_of(data, neighbours))
