"""What a release can state for a public registry of deployments of differential privacy.

The fields are those of the Differential Privacy Deployments Registry, whose schema is public
(github.com/opendp/deployments-registry-data, schemas/deployments-schema.yaml, read at commit 057e5d8). They ask what
NIST SP 800-226 asks of a guarantee: the unit, the bound on what it adds, ε and δ, the trust model, the mechanism, and
how losses add up.
"""

from collections.abc import Sequence
from typing import Any

from streamsketch.core import sentences
from streamsketch.core.documents import Json
from streamsketch.explanation.base import BaseExplanation, meaning_of
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.individual import IndividualGuarantee

SCHEMA = "github.com/opendp/deployments-registry-data, schemas/deployments-schema.yaml"

_DRAWN = (
    "Where streamsketch made it, noise was drawn exactly, on integers, by random bits of the operating system, and no "
    "floating-point number took part; a file does not show which program made it."
)
_CENTRAL = "Whoever made the release held the exact sketch."
_SHARES = (
    "Each of {parties} parties added a share of the noise to its own data, under masks that cancel in the sum alone. "
    "{honest} of them are assumed to follow the protocol; no one then holds the exact sum."
)
_INDIVIDUAL = f"{sentences.INDIVIDUAL_ALONE}. "

# what no release knows, as questions to its publisher
_TO_FILL = {
    "url_slug": "A name for the entry's address.",
    "basic.name": "What is the data product called?",
    "basic.data_curators": "Who publishes it: names, each with Government, Industry or Nonprofit?",
    "basic.description": "What is it, in a sentence or two?",
    "basic.intended_use": "What is it for?",
    "basic.data_product_type": "Summary statistics, Dataset, Machine learning model, or what else of the schema?",
    "basic.data_product_region": "Which region do the data describe, or whose law applies?",
    "basic.data_product_sector": "Which sector, of those that the schema lists?",
    "basic.publication_date": "When was it published first (YYYY-MM-DD)?",
    "dp_variant.data_domain": "Which data sets could have been in the place of this one?",
    "dp_variant.unprotected_quantities": "Does the product hold anything that was computed without noise?",
    "privacy_loss.number_of_privacy_units": "About how many units are in the data, if that may be public?",
    "deployment_model.actors": "Who sees the data or the product, and what is each of them trusted with?",
    "deployment_model.release_type": "One release, or Many releases?",
    "deployment_model.release_type_details": "How often, what do all of them spend, and when is the budget renewed? "
    "A ledger knows: streamsketch ledger show.",
    "deployment_model.data_source_type": "Static, or Dynamic: do new data come in?",
    "deployment_model.data_source_type_details": "How do new data come in?",
    "implementation.preprocessing_and_hyperparameter_tuning": "How were the data cleaned and clipped, and how were the "
    "bound, ε and the projection chosen: by looking at the data?",
    "implementation.composition": "How does this release add up with others of the same people?",
    "implementation.post_processing": "What is done with the release before it is published?",
    "implementation.justification": "Why this unit, this bound and this ε?",
    "implementation.additional_information": "What else should a reader know, and where can they read it?",
    "administrative.evidence_sources": "Which publications describe it?",
    "administrative.registry_authors": "Who fills in this entry?",
    "administrative.tier": "How complete is it: 1, 2 or 3, as the registry describes?",
}
_TO_ADD = {
    "implementation.mechanisms": "Add: which version of which program made it, on what machines, and who has access to "
    "the exact data?",
    "deployment_model.trust_assumptions": "Add: why may they be trusted?",
}


def registry_entry(
    guarantee: Guarantee | IndividualGuarantee, explanations: Sequence[BaseExplanation], composition: str | None = None
) -> Json:
    """Return an entry as far as releases know it.

    Parameters
    ----------
    guarantee
        Of all that the entry is about.
    explanations
        The explanations of what it was made of, of one neighbour relation.
    composition
        How the guarantees of several add up; None for one release.

    Returns
    -------
    dict
        ``"schema"``; ``"entry"``, in the schema's fields, null where no release knows the answer; and ``"to_fill"``:
        for each of those, by its path, what its publisher is asked, and what to add to others.
    """
    individual = isinstance(guarantee, IndividualGuarantee)
    pure = "Pure DP" if guarantee.delta == 0 else "Approximate DP"
    keys_chosen = isinstance(guarantee, Guarantee) and guarantee.mechanism.keys is not None
    only_if = [f"Only if: {condition}." for condition in guarantee.conditions]
    deployment = _nested({path: None for path in _TO_FILL if path != "url_slug"})
    deployment["dp_variant"] |= {
        "variant_name": "Custom" if individual else pure,
        "unprotected_quantities": None if keys_chosen else sentences.WHO_TAKES_PART,
    }
    deployment["privacy_loss"] |= {
        "privacy_unit": guarantee.neighbours.unit,
        "privacy_unit_details": f"{_INDIVIDUAL if individual else ''}{_sentence(explanations[0].who)}.",
        "privacy_parameters": {"epsilon": guarantee.epsilon} | ({"delta": guarantee.delta} if guarantee.delta else {}),
        "privacy_parameters_details": f"{_sentence(meaning_of(guarantee))}.",
    }
    deployment["deployment_model"] |= {
        "access_type": "Non-interactive",
        "trust_assumptions": " ".join([f"Not protected: {sentences.EXACT_SKETCH}", *only_if]),
    } | _model(guarantee)
    parts = [dict(explanation.sections) for explanation in explanations]
    mechanisms = [sentence for part in parts for sentence in (*part["How"], *part["Theorem"], part["Check"][0])]
    deployment["implementation"] |= {
        "mechanisms": " ".join([*dict.fromkeys(map(_sentence, mechanisms)), _DRAWN]),
        "utility": " ".join(dict.fromkeys(_sentence(sentence) for part in parts for sentence in part["Noise"])),
        "composition": composition,
    }
    deployment["administrative"]["status"] = "Draft"
    entry = {"url_slug": None, "deployment": deployment}
    asked = {path: question for path, question in _TO_FILL.items() if _at(deployment, path) is None}
    return {"schema": SCHEMA, "entry": entry, "to_fill": asked | _TO_ADD}


def _model(guarantee: Guarantee | IndividualGuarantee) -> dict[str, str]:
    noises = guarantee.mechanism.noises if isinstance(guarantee, Guarantee) else []
    for step in noises:
        if step.shares is not None:
            details = _SHARES.format(parties=step.shares.parties, honest=step.shares.honest)
            return {"model_name": "Federated", "model_name_details": details}
    return {"model_name": "Central", "model_name_details": _CENTRAL}


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _nested(values: Json) -> Json:
    groups: Json = {}
    for path, value in values.items():
        group, _, name = path.partition(".")
        groups.setdefault(group, {})[name] = value
    return groups


def _at(deployment: dict[str, Any], path: str) -> Any:
    group, _, name = path.partition(".")
    return deployment[group][name] if name else None
