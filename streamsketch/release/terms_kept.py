"""Whether a release spends what its agreement says, and publishes the keys that it says."""

from collections.abc import Iterable
from typing import Any

from streamsketch.accounting.sensitivity import sensitivity_of
from streamsketch.agreement.agreement import Agreement
from streamsketch.agreement.terms import Selected
from streamsketch.core.documents import TableKey
from streamsketch.errors import IncompatibleAgreementsError
from streamsketch.privacy import calibration
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.mechanism import AddedNoise
from streamsketch.privacy.noise import NOISES
from streamsketch.projections.base import Projection

_REMEDY = "call agreement.release(data), or leave out epsilon, delta, mechanism and keys"


def check_terms(agreement: Agreement | None, guarantee: Any, projection: Projection) -> None:
    """Raise `IncompatibleAgreementsError` for a release that spends other than its agreement says.

    Parameters
    ----------
    agreement
        Of the data. None, or one without terms, leaves the release free.
    guarantee, projection
        Of the release, before keys are chosen. Of noise in several layers, before the map, or for a schedule, the
        budget and the kind of noise that is named are compared.
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
    if added is not None and added.layers == 1 and added.place == "output" and not added.layout.by_rows:
        neighbours, windows = agreement.neighbours, agreement.windows
        if windows is not None and windows.period is not None:  # which a unit pays for as a whole
            neighbours = neighbours.in_windows(windows.max_windows or 1)
        sensitivity = sensitivity_of(projection, neighbours, agreement.layout.of_one_window)
        agreed = calibration.choose(sensitivity, budget, terms.mechanism)
        budget = agreed.spends(budget)
    elif added is not None:
        if terms.mechanism in NOISES and not isinstance(added.noise, NOISES[terms.mechanism]):
            raise IncompatibleAgreementsError(
                f"the agreement publishes by {terms}, and this release would by {guarantee.mechanism}: {_REMEDY}"
            )
        budget = added.noise.spends(budget)
    if guarantee.budget != budget:
        raise IncompatibleAgreementsError(
            f"the agreement publishes with {budget}, and this release would with {guarantee.budget}: {_REMEDY}"
        )
    if added is not None and added.noise != agreed:
        raise IncompatibleAgreementsError(
            f"the agreement publishes by {terms}, which is {agreed}, and this release would by {guarantee.mechanism}: "
            f"{_REMEDY}"
        )


def keys_for(
    agreement: Agreement | None,
    public_keys: Iterable[TableKey] | None,
    *,
    keys_are_public: bool,
    in_windows: bool = False,
) -> dict[str, Any]:
    """Return ``public_keys`` and ``keys_are_public`` of a release by key, as its agreement states them, if it does.

    Every engine asks it, before anything is charged or drawn.

    Parameters
    ----------
    agreement
        Of the data. None, or one without keys, leaves them free.
    public_keys, keys_are_public
        As in `SketchTable.release`. Left out, they are those of the agreement.
    in_windows
        Whether the same keys are published in each of several windows. Keys that are public may then be listed.

    Raises
    ------
    IncompatibleAgreementsError
        If they say otherwise than the agreement, or it chooses keys privately.
    """
    asked = {"public_keys": public_keys, "keys_are_public": keys_are_public}
    if agreement is None or agreement.published_keys is None:
        return asked
    refuse_private_choice(agreement)
    agreed: Any = agreement.published_keys
    is_public = agreed == "public"
    if is_public and in_windows and public_keys is not None and not keys_are_public:
        return asked
    terms = {"public_keys": None if is_public else agreed, "keys_are_public": is_public}
    if public_keys is None and not keys_are_public:
        return terms
    listed = None if public_keys is None else tuple(sorted(set(agreement.keys_of(public_keys))))
    if (listed, keys_are_public) != (terms["public_keys"], is_public):
        what = "all keys of the data" if is_public else f"{len(agreed):,} listed keys"
        raise IncompatibleAgreementsError(
            f"the agreement publishes {what}, and this release would publish others: {_REMEDY}"
        )
    return terms


def refuse_private_choice(agreement: Agreement | None) -> None:
    """Raise `IncompatibleAgreementsError` if an agreement chooses keys privately: then nobody may name them."""
    if agreement is not None and isinstance(agreement.keys, Selected):
        raise IncompatibleAgreementsError(
            f"the agreement chooses keys privately, with {agreement.keys.budget}, which agreement.release(data) does"
        )
