"""Releases under an agreement with terms: three verbs, one budget, and no exit that says otherwise."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.agreement import Selected, Terms
from streamsketch.errors import (
    IncompatibleAgreementsError,
    InvalidInputError,
    LedgerError,
    ReleasedAgainWarning,
    WireFormatError,
)
from streamsketch.privacy import Budget
from streamsketch.privacy.bounds import Bounds
from streamsketch.privacy.key_selection import key_threshold
from streamsketch.release.agreed_publisher import PUBLISHERS, publisher_of
from streamsketch.release.key_choice import KeyChoice
from streamsketch.signs import SignSketch, SignTable
from streamsketch.sketching.exact import ExactSums

SHOPS = ["north", "south"]
PEOPLE = 60
ROWS = pa.table(
    {
        "shop": [SHOPS[person % 2] for person in range(PEOPLE) for _ in range(3)] + ["tiny"],
        "item": [f"item {person * place % 7}" for person in range(PEOPLE) for place in range(3)] + ["tea"],
        "sold": [1 + person % 3 for person in range(PEOPLE) for _ in range(3)] + [1],
        "customer": [f"person {person}" for person in range(PEOPLE) for _ in range(3)] + ["Ann"],
    }
)
PROJECTION = ss.SJLT(sketch_dim=64, sparsity=4, seed=7)
OPORP = ss.projections.OPORP(dim=1 << 12, sketch_dim=256, seed=7)
BOUNDS: dict[str, Any] = {
    "sketch-l2": {},
    "L1": {"neighbours": ss.L1(6, unit="customer")},
    "L1 in two keys": {"neighbours": ss.L1(6, unit="customer", max_keys=2), "key": "shop", "keys": SHOPS},
    "sketch-l2 with keys": {"key": "shop", "keys": SHOPS},
    "sketch-l2 in two keys": {"key": "shop", "max_keys": 2, "keys": "public"},
}


def agreed(**fields: Any) -> ss.Agreement:
    given: dict[str, Any] = {"index": "item", "value": "sold", "unit": "customer", "epsilon": 1, "delta": 1e-6}
    return ss.agree(ROWS, fields.pop("projection", PROJECTION), **given | fields)


@pytest.mark.parametrize("bound", BOUNDS)
def test_one_call_releases_what_bound_and_release_do(bound: str) -> None:
    agreement = agreed(**BOUNDS[bound])
    released = agreement.release(ROWS)
    listed = agreement.keys if isinstance(agreement.keys, tuple) else None
    exact = ss.bound(ROWS, agreement, public_keys=listed)
    assert agreement.sketch(ROWS).bounds == exact.bounds
    keys: dict[str, Any] = {} if agreement.key is None else {"public_keys": listed, "keys_are_public": listed is None}
    by_hand = exact.release(epsilon=1.0, delta=1e-6, neighbours=agreement.neighbours, **keys)
    assert released.guarantee == by_hand.guarantee
    assert released.guarantee.basis == "enforced"
    assert type(released) is type(by_hand)
    if agreement.key is not None:
        assert list(released) == list(by_hand)
    assert {row.agreement for row in getattr(released, "rows", (released,))} == {agreement.fingerprint}


def test_the_three_verbs_answer_a_question(tmp_path: Path) -> None:
    agreement = agreed()
    agreement.save(tmp_path / "agreement.json")
    for name in ("web", "shops"):
        ss.Agreement.load(tmp_path / "agreement.json").release(ROWS).save(tmp_path / f"{name}.sketch")
    ours, theirs = agreement.load(tmp_path / "web.sketch"), agreement.load(tmp_path / "shops.sketch")
    low, high = ss.cosine(ours, theirs).interval(0.9999)
    assert low <= 1 <= high + 1e-9
    with pytest.raises(WireFormatError, match="agreement"):
        agreed(epsilon=2).load(tmp_path / "web.sketch")


def test_sums_of_parts_are_released_as_their_rows_are() -> None:
    agreement = agreed()
    parts = [agreement.sketch(ROWS.slice(0, 90)), agreement.sketch(ROWS.slice(90))]
    parts[0].merge(parts[1], disjoint_units=True)
    released = agreement.release(parts[0])
    assert released.guarantee.conditions == ("no customer is in two of the parts that were merged",)
    assert released.guarantee.budget == agreement.release(ROWS).guarantee.budget


@pytest.mark.parametrize("name", ["DP-SignOPORP-RR", "DP-SignRP-RR-smooth", "DP-Sign-logistic"])
def test_signs_are_published_by_name(name: str) -> None:
    rows = pa.table({"shop": ["a", "b"] * 8, "place": np.arange(16), "person": np.arange(16)})
    bound = ss.OneCoordinate(1, unit="person") if "OPORP" in name else ss.L1(1, unit="person")
    fields: dict[str, Any] = {"index": "place", "neighbours": bound, "terms": Terms(epsilon=2, mechanism=name)}
    agreement = ss.Agreement(OPORP, **fields)
    released = agreement.release(rows)
    assert isinstance(released, SignSketch)
    assert released.guarantee.epsilon == 2
    table = ss.Agreement(OPORP, key="shop", keys=["a", "b"], **fields).release(rows)
    assert isinstance(table, SignTable)
    assert list(table) == ["a", "b"]


def test_every_mechanism_of_signs_may_be_named() -> None:
    publisher_of(
        ss.Agreement(OPORP, index="place", neighbours=ss.L1(1), terms=Terms(epsilon=1, mechanism="DP-Sign-logistic"))
    )
    assert sorted(PUBLISHERS) == [
        "DP-Sign-logistic", "DP-SignOPORP-RR", "DP-SignOPORP-RR-smooth", "DP-SignRP-RR-smooth",
    ]  # fmt: skip
    unknown = ss.Agreement(OPORP, index="place", neighbours=ss.L1(1), terms=Terms(epsilon=1, mechanism="DP-Dice"))
    with pytest.raises(InvalidInputError, match=r"DP-Dice.*unknown here; known: .*, DP-Sign-logistic"):
        unknown.release(ROWS)


# --- keys ------------------------------------------------------------------------------------------------------


def test_keys_that_are_selected_spend_a_share_of_the_whole() -> None:
    share = Selected(epsilon="1.5", delta="0.0000005")
    agreement = agreed(key="shop", max_keys=2, keys=share, epsilon=3)
    released = agreement.release(ROWS)
    assert list(released) == SHOPS  # thirty customers in each; one in the third shop
    assert released.guarantee.budget == Terms(epsilon=3, delta=1e-6).budget
    assert "keys" in str(released.guarantee.mechanism)
    noise = publisher_of(agreement).guarantee(agreement.projection)
    assert (noise.epsilon, noise.delta) == (1.5, 5e-7)


def test_where_no_key_is_chosen_the_budget_is_spent(tmp_path: Path) -> None:
    share = Selected(epsilon="0.01", delta="0.0000005")
    agreement = agreed(key="shop", max_keys=2, keys=share)
    ledger = ss.Ledger(tmp_path / "ledger.sqlite")
    ledger.dataset("sales", unit="customer", epsilon=2.0, delta=1e-5)
    with pytest.raises(InvalidInputError, match="no key has enough units"):
        agreement.release(ROWS, ledger=ledger, dataset="sales")
    assert len(list(ledger.entries())) == 2


def test_a_release_is_charged_before_keys_are_chosen(tmp_path: Path) -> None:
    agreement = agreed(key="shop", max_keys=2, keys=Selected(epsilon="0.5", delta="0.0000005"), epsilon=2)
    ledger = ss.Ledger(tmp_path / "ledger.sqlite")
    ledger.dataset("sales", unit="customer", epsilon=1.9, delta=1e-5)
    with pytest.raises(LedgerError):
        agreement.release(ROWS, ledger=ledger, dataset="sales")


def counted(counts: list[int], bounds: Bounds) -> ss.SketchTable:
    names = [f"shop {place:03}" for place in range(len(counts))]
    cells, masses = np.zeros((len(counts), 64), np.int64), np.zeros(len(counts), np.int64)
    pairs = np.array([[count, 0] for count in counts])
    return ss.SketchTable.from_state(PROJECTION, names, ExactSums.of(cells, pairs), masses, bounds=bounds)


def test_a_choice_is_for_all_keys_that_a_unit_may_be_in() -> None:
    """Units that were bounded over several keys together are in as many."""
    budget = Budget(0.5, 1e-6)
    for max_keys, together in ((1, 1), (3, 1), (1, 3), (1, 7)):
        bounds = Bounds(ss.L1(6, unit="customer", max_keys=max_keys), "scale", together, counted=True)
        choice = KeyChoice.of(counted([1, 2], bounds), budget)
        assert choice.threshold == key_threshold(budget, max(max_keys, together))


def test_keys_without_units_are_never_chosen() -> None:
    bounds = Bounds(ss.L1(6, unit="customer"), "scale", counted=True)
    choice = KeyChoice.of(counted([0] * 60, bounds), Budget(0.01, 0.4))  # noise alone would choose 24 of them
    assert choice.draw() == []


def test_a_second_choice_of_the_same_data_is_warned_of() -> None:
    agreement = agreed(key="shop", max_keys=2, keys=Selected(epsilon="1.5", delta="0.0000005"), epsilon=3)
    exact = agreement.sketch(ROWS)
    agreement.release(exact)
    with pytest.warns(ReleasedAgainWarning, match="2 releases with ε = 6"):
        agreement.release(exact)


# --- exits -----------------------------------------------------------------------------------------------------


def test_exits_take_what_is_agreed() -> None:
    agreement = agreed()
    exact = agreement.sketch(ROWS)
    assert exact.release().guarantee == agreement.release(ROWS).guarantee
    table = agreed(key="shop", max_keys=2, keys=SHOPS)
    assert table.sketch(ROWS).release().guarantee == table.release(ROWS).guarantee


OTHERWISE: dict[str, dict[str, Any]] = {
    "another epsilon": {"epsilon": 2.0, "delta": 1e-6},
    "a smaller epsilon": {"epsilon": 0.5, "delta": 1e-6},
    "another delta": {"epsilon": 1.0, "delta": 1e-7},
    "another noise": {"epsilon": 1.0, "delta": 1e-6, "mechanism": "laplace"},
    "other keys": {"public_keys": ["north"]},
    "all keys": {"keys_are_public": True},
}


@pytest.mark.parametrize("otherwise", OTHERWISE)
def test_exits_that_say_otherwise_are_refused(otherwise: str) -> None:
    exact = agreed(key="shop", max_keys=2, keys=SHOPS).sketch(ROWS)
    with pytest.raises(IncompatibleAgreementsError, match=r"call agreement\.release"):
        exact.release(**OTHERWISE[otherwise])


def test_signs_are_refused_where_noise_is_agreed_and_the_other_way_round() -> None:
    noisy = agreed(neighbours=ss.L1(6, unit="customer")).sketch(ROWS)
    with pytest.raises(IncompatibleAgreementsError, match="publishes by"):
        ss.signs.DPSignLogistic(epsilon=1.0, neighbours=ss.L1(6, unit="customer")).release(noisy)
    signs = ss.Agreement(
        OPORP, index="place", neighbours=ss.L1(1), terms=Terms(epsilon=1, mechanism="DP-Sign-logistic")
    ).sketch(pa.table({"place": [1]}))
    with pytest.raises(IncompatibleAgreementsError, match="publishes by"):
        signs.release(epsilon=1.0)
    with pytest.raises(InvalidInputError, match=r"which agreement\.release"):
        signs.release()


def test_keys_of_a_private_choice_are_released_by_the_agreement_alone() -> None:
    agreement = agreed(key="shop", max_keys=2, keys=Selected(epsilon="0.5", delta="0.0000005"), epsilon=2)
    with pytest.raises(IncompatibleAgreementsError, match="chooses keys privately"):
        agreement.sketch(ROWS).release(epsilon=1.5, delta=5e-7, public_keys=SHOPS)
    with pytest.raises(IncompatibleAgreementsError, match="chooses keys privately"):
        agreement.sketch(ROWS).sketch_of("north").release(epsilon=1.5, delta=5e-7)
    with pytest.raises(IncompatibleAgreementsError, match="chooses keys privately"):
        agreement.release(agreement.sketch(ROWS).sketch_of("north"))


def test_neighbours_may_be_left_out_for_bounded_data_alone() -> None:
    agreement = agreed(epsilon=None, delta=0)
    exact = ss.bound(ROWS, agreement)
    assert exact.release(epsilon=1.0, delta=1e-6).guarantee.neighbours == agreement.neighbours
    with pytest.raises(InvalidInputError, match="state how much one unit can change"):
        PROJECTION.sketch().release(epsilon=1.0)
    with pytest.raises(InvalidInputError, match="state what the release spends"):
        exact.release()


def test_what_does_not_follow_the_agreement_is_refused() -> None:
    agreement = agreed()
    with pytest.raises(InvalidInputError, match="does not say what a release spends"):
        agreed(epsilon=None, delta=0).release(ROWS)
    with pytest.raises(IncompatibleAgreementsError, match="follow no agreement"):
        agreement.release(PROJECTION.sketch())
    with pytest.raises(IncompatibleAgreementsError, match="terms"):
        agreement.release(agreed(epsilon=2).sketch(ROWS))
    with pytest.raises(InvalidInputError, match="were not bounded"):
        agreement.release(ss.sketch(ROWS, agreement))


def test_a_second_release_of_a_sketch_is_warned_of() -> None:
    agreement = agreed()
    exact = agreement.sketch(ROWS)
    agreement.release(exact)
    with pytest.warns(ReleasedAgainWarning, match="ε = 2"):
        agreement.release(exact)
