"""Terms of agreements: budgets as the decimals that were written, mechanisms, and published keys."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.agreement import Selected, Terms
from streamsketch.errors import IncompatibleAgreementsError, InvalidInputError

PROJECTION = ss.SJLT(sketch_dim=64, sparsity=4, seed=7)
SALES = pa.table({"item": ["milk"], "shop": ["north"], "customer": ["Ann"]})
decimals = st.decimals(min_value="0.000001", max_value="99", places=6)


def agreed(**terms: Any) -> ss.Agreement:
    return ss.agree(SALES, PROJECTION, index="item", key="shop", unit="customer", max_keys=2, **terms)


@given(decimals, st.decimals(min_value="0.000000001", max_value="0.0009", places=9))
def test_a_budget_is_the_decimal_that_was_written(epsilon: Decimal, delta: Decimal) -> None:
    written = Terms(epsilon=str(epsilon), delta=str(delta))
    assert written == Terms(epsilon=epsilon, delta=delta) == Terms(epsilon=float(epsilon), delta=float(delta))
    assert Terms.from_dict(written.to_dict()) == written
    assert (Decimal(written.epsilon), Decimal(written.delta)) == (epsilon, delta)
    assert (written.budget.epsilon, written.budget.delta) == (float(epsilon), float(delta))


@pytest.mark.parametrize(
    ("epsilon", "said"),
    [
        (True, "is a decimal number"), ("one", "is a decimal number"), (None, "is a decimal number"),
        ("nan", "finite decimal"), (float("inf"), "finite decimal"), ("0.1234567890123456", "at most 15"),
        (0, "epsilon must be a finite number > 0"), ("1e9", "epsilon must be"),
    ],
)  # fmt: skip
def test_other_budgets_are_refused(epsilon: Any, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        Terms(epsilon=epsilon)


@pytest.mark.parametrize(
    "fields",
    [
        {}, {"noise": "auto"}, {"epsilon": "1"}, {"noise": "auto", "epsilon": 1}, {"noise": "auto", "epsilon": "1.0"},
        {"noise": "auto", "epsilon": "1", "delta": "0"}, {"noise": "DP-SignRP-RR", "epsilon": "1"},
        {"signs": "auto", "epsilon": "1"}, {"noise": "auto", "signs": "x", "epsilon": "1"},
        {"noise": "auto", "epsilon": "1", "rho": "1"}, {"noise": "auto", "epsilon": "1e0"},
        [], "auto", None,
    ],
)  # fmt: skip
def test_json_that_is_not_written_is_refused(fields: Any) -> None:
    with pytest.raises(InvalidInputError):
        Terms.from_dict(fields)


@pytest.mark.parametrize(
    "keys",
    [["south", "north"], "public", Selected(epsilon="0.1", delta="0.0000001")],
    ids=["listed", "public", "selected"],
)
def test_an_agreement_with_terms_survives_its_json(keys: Any) -> None:
    agreement = agreed(epsilon=1, delta=1e-6, keys=keys)
    again = ss.Agreement.from_json(agreement.to_json())
    assert again == agreement
    assert again.fingerprint == agreement.fingerprint
    assert "released with ε = 1, δ = 1e-06, noise auto" in str(agreement)


def test_parties_cannot_differ_in_what_is_published() -> None:
    known: dict[str, Any] = {"delta": 1e-6, "keys": ["north"]}
    agreement = agreed(epsilon=1, **known)
    others = [
        agreed(epsilon=2, **known),
        agreed(epsilon=1, delta=1e-7, keys=["north"]),
        agreed(epsilon=1, delta=1e-6, keys="public"),
    ]
    others += [
        agreed(epsilon=1, delta=1e-6, keys=["south"]),
        agreed(),
        agreed(epsilon=1, **known, mechanism="gaussian"),
    ]
    assert len({one.fingerprint for one in [agreement, *others]}) == 1 + len(others)
    for other in others:
        with pytest.raises(IncompatibleAgreementsError, match=r"terms|keys"):
            agreement.check_same(other)


def test_agreements_without_terms_keep_their_text() -> None:
    assert not {"release", "keys"} & agreed().to_dict().keys()


def test_listed_keys_are_cast_sorted_and_there_once() -> None:
    dates = ss.Agreement(
        PROJECTION, index="item", key={"day": "date"}, neighbours=ss.L1(3), keys=["2026-02-01", "2026-01-31"]
    )
    assert dates.keys == (dt.date(2026, 1, 31), dt.date(2026, 2, 1))
    assert dates.to_dict()["keys"] == {"listed": ["2026-01-31", "2026-02-01"]}
    assert ss.Agreement.from_json(dates.to_json()) == dates
    codes = ss.Agreement(PROJECTION, index="item", key={"code": "bytes"}, neighbours=ss.L1(3), keys=[b"b", b"a", b"b"])
    assert codes.to_dict()["keys"] == {"listed": ["61", "62"]}
    assert ss.Agreement.from_json(codes.to_json()) == codes


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        ({"epsilon": 1, "delta": 1e-6}, "which keys have data is private"),
        ({"epsilon": 1, "keys": "public"}, "meant for Gaussian noise"),
        ({"epsilon": 1, "mechanism": "gaussian", "keys": "public"}, "delta"),
        ({"delta": 1e-6}, "also pass epsilon"),
        ({"mechanism": "laplace"}, "also pass epsilon"),
        ({"keys": Selected(epsilon=0.1, delta=1e-7)}, "share of a budget"),
        ({"epsilon": 1, "delta": 1e-6, "keys": Selected(epsilon=1, delta=1e-7)}, "give it a smaller share"),
        ({"epsilon": 1, "delta": 1e-6, "keys": Selected(epsilon=0.1, delta=1e-5)}, "give it a smaller share"),
        ({"epsilon": 1, "delta": 1e-6, "keys": []}, "empty list"),
        ({"epsilon": 1, "delta": 1e-6, "keys": "north"}, r"single|collection|several"),
        ({"epsilon": 1, "delta": 1e-6, "keys": [7.5]}, "holds double"),
    ],
)  # fmt: skip
def test_terms_that_no_release_could_keep_are_refused(terms: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        agreed(**terms)


def test_terms_need_somebody_to_protect_and_keys_a_column() -> None:
    with pytest.raises(InvalidInputError, match="protects somebody"):
        ss.agree(SALES, PROJECTION, index="item", epsilon=1)
    with pytest.raises(InvalidInputError, match="no key column"):
        ss.agree(SALES, PROJECTION, index="item", unit="customer", keys="public")
    with pytest.raises(InvalidInputError, match="number of their units"):
        ss.agree(
            SALES,
            PROJECTION,
            index="item",
            key="shop",
            neighbours=ss.L1(3),
            epsilon=1,
            delta=1e-6,
            keys=Selected(epsilon=0.1, delta=1e-7),
        )


def test_a_bound_for_several_keys_needs_no_column_of_keys() -> None:
    """Noise covers as many sketches of one unit, of which this release is one."""
    fields: dict[str, Any] = {"index": "item", "unit": "customer", "terms": Terms(epsilon=1)}
    one, two = (ss.Agreement(PROJECTION, neighbours=ss.L1(1, "customer", max_keys=many), **fields) for many in (1, 2))
    assert ss.Agreement.from_json(two.to_json()) == two
    noises = [agreement.release(SALES).noise for agreement in (one, two)]
    assert noises[1].k2 == pytest.approx(4 * noises[0].k2, rel=0.1), "of twice the scale"


def test_a_choice_of_keys_needs_a_delta() -> None:
    with pytest.raises(InvalidInputError, match="delta = 0"):
        Selected(epsilon=0.1, delta=0)
