"""Entries for the public registry of deployments: its fields, what releases know, and a question for all else."""

import json
from collections.abc import Callable
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.parties import Key, Round
from streamsketch.privacy import Budget, Mechanism
from streamsketch.privacy.mechanism import KeySelection

P = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=3)
SALE = ss.L1(30, unit="sale")

# github.com/opendp/deployments-registry-data, schemas/deployments-schema.yaml at commit 057e5d8
FIELDS = {
    "basic": "name data_curators description intended_use data_product_type data_product_region data_product_sector "
    "publication_date",
    "dp_variant": "variant_name data_domain unprotected_quantities",
    "privacy_loss": "privacy_unit privacy_unit_details number_of_privacy_units privacy_parameters "
    "privacy_parameters_details",
    "deployment_model": "model_name model_name_details trust_assumptions actors release_type release_type_details "
    "data_source_type data_source_type_details access_type access_type_details",
    "implementation": "preprocessing_and_hyperparameter_tuning mechanisms composition post_processing justification "
    "utility additional_information",
    "administrative": "evidence_sources status registry_authors tier",
}
VARIANTS = {"Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"}
MODELS = {"Local", "Central", "Shuffle", "Federated", "Varies"}


def released(**changes: Any) -> ss.PrivateSketch:
    return P.sketch().release(**({"epsilon": 1.0, "neighbours": SALE} | changes))


def of_a_round() -> ss.PrivateSketch:
    keys = [Key.generate() for _ in range(3)]
    agreed = Round(P, epsilon=1.0, neighbours=SALE, parties=[key.public for key in keys], honest=2)
    return agreed.combine(agreed.contribute(P.sketch(), key) for key in keys)


def table() -> ss.PrivateTable:
    neighbours = ss.L1(30, unit="sale", max_keys=2)
    return P.table().release(epsilon=1.0, neighbours=neighbours, public_keys=["a", "b"])


def signs(publish: Any) -> Any:
    return publish.release(ss.projections.OPORP(dim=64, sketch_dim=16, seed=1).sketch())


ONE = ss.OneCoordinate(1, unit="pixel")
TOLD: dict[str, Callable[[], Any]] = {
    "laplace": lambda: released().explain(),
    "gaussian": lambda: released(delta=1e-6, mechanism="gaussian").explain(),
    "whole people": lambda: released(delta=1e-6, neighbours=ss.SketchL2(9, unit="person")).explain(),
    "table": lambda: table().explain(),
    "signs": lambda: signs(ss.signs.DPSignOPORPRR(epsilon=1, neighbours=ONE)).explain(),
    "individual": lambda: signs(ss.signs.IDPSignOPORP(epsilon=1, neighbours=ONE)).explain(),
    "round": lambda: of_a_round().explain(),
    "several": lambda: ss.explain(released(), released()),
}


@pytest.mark.parametrize("name", TOLD)
def test_an_entry_has_the_registrys_fields_and_asks_for_each_that_is_null(name: str) -> None:
    told = json.loads(json.dumps(TOLD[name]().to_registry(), allow_nan=False))
    assert set(told) == {"schema", "entry", "to_fill"}
    deployment = told["entry"]["deployment"]
    assert set(deployment) == set(FIELDS)
    nulls = {"url_slug"}
    for group, fields in deployment.items():
        assert set(fields) <= set(FIELDS[group].split())
        nulls |= {f"{group}.{field}" for field, value in fields.items() if value is None}
    assert nulls == {path for path, asked in told["to_fill"].items() if not asked.startswith("Add: ")}
    assert all(asked.endswith(("?", ".")) for asked in told["to_fill"].values())
    assert deployment["dp_variant"]["variant_name"] in VARIANTS
    assert deployment["deployment_model"]["model_name"] in MODELS
    assert deployment["administrative"]["status"] == "Draft"


def entry(name: str) -> dict[str, Any]:
    found: dict[str, Any] = TOLD[name]().to_registry()["entry"]["deployment"]
    return found


def test_a_release_says_its_unit_budget_and_mechanism() -> None:
    found = entry("gaussian")
    assert found["dp_variant"]["variant_name"] == "Approximate DP"
    loss = found["privacy_loss"]
    assert (loss["privacy_unit"], loss["privacy_parameters"]) == ("sale", {"epsilon": 1.0, "delta": 1e-6})
    assert (
        "One sale: adding or removing it changes the data by updates whose absolute values sum to at most 30; "
        in loss["privacy_unit_details"]
    )
    assert "13.6 % of cases" in loss["privacy_parameters_details"]
    assert "Balle and Wang 2018" in found["implementation"]["mechanisms"]
    assert found["deployment_model"]["model_name"] == "Central"
    assert entry("laplace")["privacy_loss"]["privacy_parameters"] == {"epsilon": 1.0}, "pure: no δ"
    assert entry("laplace")["dp_variant"]["variant_name"] == "Pure DP"


def test_a_round_says_whom_to_trust() -> None:
    model = entry("round")["deployment_model"]
    assert model["model_name"] == "Federated"
    assert "2 of them are assumed to follow the protocol" in model["model_name_details"]
    assert "Only if: at least 2 of the 3 parties follow the round" in model["trust_assumptions"]


def test_individual_privacy_is_not_called_differential_privacy() -> None:
    assert entry("individual")["dp_variant"]["variant_name"] == "Custom"
    assert "which is not differential privacy" in entry("individual")["privacy_loss"]["privacy_unit_details"]


def test_several_add_up_and_a_table_is_one() -> None:
    several = entry("several")
    assert several["privacy_loss"]["privacy_parameters"] == {"epsilon": 2.0}
    assert "ε and δ add up to ε = 2" in several["implementation"]["composition"]
    assert (
        several["privacy_loss"]["privacy_parameters_details"]
        != entry("laplace")["privacy_loss"]["privacy_parameters_details"]
    ), "of the sum"
    one = entry("table")
    assert one["privacy_loss"]["privacy_parameters"] == {"epsilon": 1.0}
    assert "A table counts as one release" in one["implementation"]["composition"]
    assert "in each of at most 2 keys" in one["privacy_loss"]["privacy_unit_details"]


def test_keys_that_were_chosen_privately_are_not_called_unprotected() -> None:
    made = released()
    steps = [*made.guarantee.mechanism.steps, KeySelection(Budget(0.5, 1e-9))]
    chosen = ss.Guarantee(1.5, 1e-9, SALE, Mechanism(steps))
    release = ss.PrivateSketch(P, made.values, made.noise, chosen, release_ids=made.release_ids)
    told = release.explain().to_registry()
    assert told["entry"]["deployment"]["dp_variant"]["unprotected_quantities"] is None
    assert "dp_variant.unprotected_quantities" in told["to_fill"]


def test_too_little_noise_is_a_warning_in_the_entry() -> None:
    made = released()
    wrong = ss.Guarantee(0.5, 0.0, SALE, made.guarantee.mechanism)
    release = ss.PrivateSketch(P, made.values, made.noise, wrong, release_ids=made.release_ids)
    said = release.explain().to_registry()["entry"]["deployment"]["implementation"]["mechanisms"]
    assert "WARNING: " in said
