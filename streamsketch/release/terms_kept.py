"""Whether a release spends what its agreement says, and publishes the keys that it says."""

from collections.abc import Iterable
from typing import Any

from streamsketch.accounting import sensitivity_of
from streamsketch.agreement import Agreement, Selected
from streamsketch.errors import IncompatibleAgreementsError
from streamsketch.privacy import AddedNoise, Guarantee, calibration
from streamsketch.projections import Projection
from streamsketch.sketching import SketchTable

_REMEDY = "call agreement.release(data), or leave out epsilon, delta, mechanism and keys"


def check_terms(agreement: Agreement | None, guarantee: Any, projection: Projection) -> None:
    """Raise `IncompatibleAgreementsError` for a release that spends other than its agreement says.

    Parameters
    ----------
    agreement
        Of the data. None, or one without terms, leaves the release free.
    guarantee, projection
        Of the release, before keys are chosen. Of noise in several layers, before the map, or for a schedule, the
        budget alone is compared.
    """
    if agreement is None or agreement.terms is None or agreement.neighbours is None:
        return
    terms = agreement.terms
    budget = (terms.less(agreement.keys) if isinstance(agreement.keys, Selected) else terms).budget
    steps = guarantee.mechanism.steps if isinstance(guarantee, Guarantee) else ()
    added = next((step for step in steps if isinstance(step, AddedNoise)), None)
    if terms.is_noise != (added is not None):
        raise IncompatibleAgreementsError(
            f"the agreement publishes by {terms}, and this release would by {guarantee.mechanism}: {_REMEDY}"
        )
    agreed = added and added.noise
    if added is not None and added.layers == 1 and added.place == "output" and added.schedule is None:
        sensitivity = sensitivity_of(projection, agreement.neighbours, agreement.counting)
        agreed = calibration.choose(sensitivity, budget, terms.mechanism)
        budget = agreed.spends(budget)
    if guarantee.budget != budget:
        raise IncompatibleAgreementsError(
            f"the agreement publishes with {budget}, and this release would with {guarantee.budget}: {_REMEDY}"
        )
    if added is not None and added.noise != agreed:
        raise IncompatibleAgreementsError(
            f"the agreement publishes by {terms}, which is {agreed}, and this release would by {guarantee.mechanism}: "
            f"{_REMEDY}"
        )


def keys_for(table: SketchTable, public_keys: Iterable[Any] | None, *, keys_are_public: bool) -> dict[str, Any]:
    """Return ``public_keys`` and ``keys_are_public`` of a table, as its agreement states them, if it does.

    Raises
    ------
    IncompatibleAgreementsError
        If they say otherwise than the agreement.
    """
    agreement = table.agreement
    if agreement is None or agreement.keys is None:
        return {"public_keys": public_keys, "keys_are_public": keys_are_public}
    agreed = agreement.keys
    if isinstance(agreed, Selected):
        raise IncompatibleAgreementsError(
            f"the agreement chooses keys privately, with {agreed.budget}, which agreement.release(data) does"
        )
    is_public = agreed == "public"
    known = {"public_keys": None if is_public else agreed, "keys_are_public": is_public}
    if public_keys is None and not keys_are_public:
        return known
    listed = None if public_keys is None else tuple(sorted(set(agreement.keys_of(public_keys))))
    if (listed, keys_are_public) != (known["public_keys"], is_public):
        what = "all keys of the data" if is_public else f"{len(agreed):,} listed keys"
        raise IncompatibleAgreementsError(
            f"the agreement publishes {what}, and this release would publish others: {_REMEDY}"
        )
    return known
