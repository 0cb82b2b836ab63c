"""Sketches, raw files and releases carry their agreement, and whatever brings two of them together checks it."""

import copy
import itertools
import pickle
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.errors import BoundExceededWarning
from streamsketch.storage.sketches import RawSketch
from streamsketch.wire.releases import RELEASES, frame
from tests.tampering import raw_bytes, raw_from_bytes, with_fields

PROJECTION = ss.SJLT(sketch_dim=64, sparsity=4, seed=7)
SALES = ss.Agreement(PROJECTION, index="item", value="sold", title="Sales")
RETURNS = SALES.replace(title="Returns")
BY_SHOP = SALES.replace(key="shop")
ROWS = pa.table({"shop": ["N", "S", "N"], "item": ["milk", "milk", "pears"], "sold": [3, -4, 1]})
LAPLACE: dict[str, Any] = {"epsilon": 1e5, "neighbours": ss.L1(4)}


def bare() -> ss.Sketch:
    sketch = PROJECTION.sketch()
    sketch.update_rows(ROWS, index="item", value="sold")
    return sketch


def release(agreement: ss.Agreement | None) -> ss.PrivateSketch:
    return (bare() if agreement is None else ss.sketch(ROWS, agreement)).release(**LAPLACE)


# --- exact sketches -------------------------------------------------------------------------------------------------


def test_sketches_keep_their_agreement_and_largest_value_through_copies_and_pickles() -> None:
    for sketch in (ss.sketch(ROWS, SALES), ss.sketch(ROWS, BY_SHOP), ss.sketch(ROWS, BY_SHOP)["N"]):
        agreement = SALES if isinstance(sketch, ss.Sketch) and sketch.mass == 8 else BY_SHOP
        for one in (sketch, copy.copy(sketch), copy.deepcopy(sketch), pickle.loads(pickle.dumps(sketch))):  # noqa: S301
            assert (one.agreement, one.largest) == (agreement, 4)


def test_merging_sketches_of_two_agreements_is_refused_and_changes_nothing() -> None:
    for agreements in ((SALES, RETURNS), (BY_SHOP, BY_SHOP.replace(missing="drop"))):
        one, other = (ss.sketch(ROWS, agreement) for agreement in agreements)
        before = copy.copy(one)
        with pytest.raises(ss.errors.IncompatibleAgreementsError, match="the agreements differ: "):
            one.merge(other)  # type: ignore[arg-type]
        assert (one, one.agreement) == (before, agreements[0])


def test_of_a_merge_with_what_says_nothing_nothing_is_known() -> None:
    one = ss.sketch(ROWS, SALES)
    one.merge(ss.sketch(ROWS, SALES))
    assert one.agreement == SALES
    one.merge(bare())
    assert one.agreement is None


def test_an_agreement_says_the_columns() -> None:
    sketch, table = ss.Sketch(SALES), ss.SketchTable(BY_SHOP)
    for call in (
        lambda: sketch.update_rows(ROWS, index="item"),
        lambda: sketch.update_rows(ROWS, value="sold"),
        lambda: table.update_rows(ROWS, key="shop"),
    ):
        with pytest.raises(ss.InvalidInputError, match=r"leave out (index|value|key)"):
            call()
    with pytest.raises(ss.InvalidInputError, match="has the key shop:text; sketch its rows in a SketchTable"):
        ss.Sketch(BY_SHOP).update_rows(ROWS)
    with pytest.raises(ss.InvalidInputError, match="has no key column, so there is no table"):
        ss.SketchTable(SALES).update_rows(ROWS)
    with pytest.raises(ss.InvalidInputError, match="name the columns of the index"):
        PROJECTION.sketch().update_rows(ROWS)
    with pytest.raises(ss.InvalidInputError, match="name the column of keys"):
        PROJECTION.table().update_rows(ROWS, index="item")
    with pytest.raises(TypeError, match="must be an Agreement"):
        ss.sketch(ROWS, PROJECTION)  # type: ignore[arg-type]


def test_rows_that_are_refused_change_nothing() -> None:
    sketch = ss.sketch(ROWS, SALES)
    before = copy.copy(sketch)
    bad = pa.table({"item": pa.chunked_array([["milk"], [None]]), "sold": pa.chunked_array([[1], [2]])})
    with pytest.raises(ss.InvalidInputError, match="row 2"):
        sketch.update_rows(bad)
    assert (sketch, sketch.mass) == (before, 8)


# --- raw files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agreement", [SALES, BY_SHOP, None])
def test_raw_files_keep_agreement_and_largest_value(agreement: ss.Agreement | None, tmp_path: Path) -> None:
    path = tmp_path / "one.raw-sketch"
    ss.storage.save_raw(bare() if agreement is None else ss.sketch(ROWS, agreement), path)
    raw = ss.storage.load_raw(path)
    assert (raw.agreement, raw.state.agreement, raw.state.largest) == (agreement, agreement, 4)


def test_a_raw_file_of_an_agreement_about_another_projection_is_refused() -> None:
    other = SALES.replace(projection=PROJECTION.replace(seed=8))
    data = raw_bytes(RawSketch(ss.sketch(ROWS, SALES)))
    with pytest.raises(ss.errors.WireFormatError, match="seed"):
        raw_from_bytes(with_fields(data, agreement=other.to_json()))


# --- releases -------------------------------------------------------------------------------------------------------


def test_releases_carry_the_fingerprint_and_their_bytes_too() -> None:
    table = ss.sketch(ROWS, BY_SHOP).release(**LAPLACE, public_keys=["N", "W"])
    assert isinstance(table, ss.PrivateTable)
    flips = ss.signs.DPSignLogistic(epsilon=1.0, neighbours=ss.L1(4))
    signs = ss.Agreement(ss.projections.Rademacher(sketch_dim=64, seed=7), index="item", value="sold")
    for made, agreement in (
        (release(SALES), SALES),
        (table, BY_SHOP),
        (table["W"], BY_SHOP),
        (flips.release(ss.sketch(ROWS, signs)), signs),  # type: ignore[arg-type]
    ):
        again = type(made).from_bytes(made.to_bytes())
        assert made.agreement == again.agreement == agreement.fingerprint
        assert again == made


def test_bytes_of_a_release_without_an_agreement_are_as_they_were() -> None:
    released = release(SALES)
    without = released.with_agreement(None)
    assert without != released
    assert without == ss.PrivateSketch.from_bytes(without.to_bytes())
    assert len(released.to_bytes()) - len(without.to_bytes()) == 18
    assert bytes.fromhex(SALES.fingerprint) not in without.to_bytes()


@pytest.mark.parametrize("length", [0, 15, 17])
def test_other_fingerprints_on_the_wire_are_refused(length: int) -> None:
    payload = release(None).to_bytes()[17:-16]
    forged = frame(RELEASES.magic, payload + bytes([9 << 3 | 2, length]) + bytes(length))
    with pytest.raises(ss.errors.WireFormatError, match="16 bytes in hexadecimal"):
        ss.PrivateSketch.from_bytes(forged)


BROUGHT_TOGETHER: dict[str, Callable[[Any, Any], Any]] = {
    "distance": ss.squared_distance,
    "inner product": ss.inner_product,
    "cosine": ss.cosine,
    "pairwise": lambda x, y: ss.pairwise([x, y]),
    "profiles": lambda x, y: ss.pairwise([x, y], by="profile"),
    "combine": lambda x, y: x.combine(y, populations="disjoint"),
    "subtract": lambda x, y: x.subtract(y, populations="overlapping"),
    "a table": lambda x, y: ss.PrivateTable({"x": x, "y": y}),
}


@pytest.mark.parametrize("name", BROUGHT_TOGETHER)
def test_whatever_brings_two_agreements_together_is_refused(name: str) -> None:
    x, y, z = release(SALES), release(RETURNS), release(SALES)
    with pytest.raises(ss.errors.IncompatibleAgreementsError) as raised:
        BROUGHT_TOGETHER[name](x, y)
    assert f"{SALES.fingerprint} here, {RETURNS.fingerprint} there" in str(raised.value)
    assert BROUGHT_TOGETHER[name](x, z) is not None


def test_sketches_and_releases_of_two_agreements_are_refused_too() -> None:
    with pytest.raises(ss.errors.IncompatibleAgreementsError, match=r"title \('Sales' here, 'Returns' there\)"):
        ss.squared_distance(ss.sketch(ROWS, SALES), ss.sketch(ROWS, RETURNS))  # type: ignore[arg-type]
    with pytest.raises(ss.errors.IncompatibleAgreementsError, match="fingerprint"):
        ss.squared_distance(ss.sketch(ROWS, SALES), release(RETURNS))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [name for name in BROUGHT_TOGETHER if name != "a table"])
def test_what_says_nothing_is_refused_beside_what_follows_an_agreement(name: str) -> None:
    """The same rows: an integer under the agreement, text without one, and so other indices."""
    x, y = release(SALES), release(None)
    for one, other in itertools.permutations([x, y]):
        with pytest.raises(
            ss.errors.IncompatibleAgreementsError, match=f"one follows the agreement {SALES.fingerprint}, and"
        ):
            BROUGHT_TOGETHER[name](one, other)
    assert BROUGHT_TOGETHER[name](y, release(None)) is not None
    assert BROUGHT_TOGETHER[name](x, y.with_agreement(SALES.fingerprint)) is not None  # the assertion


def test_exact_sketches_are_refused_too_and_what_is_merged_says_nothing() -> None:
    with pytest.raises(ss.errors.IncompatibleAgreementsError, match="no agreement is known"):
        ss.squared_distance(bare(), release(SALES))
    ours = ss.sketch(ROWS, SALES)
    assert isinstance(ours, ss.Sketch)
    ours.merge(bare())
    with pytest.raises(ss.errors.IncompatibleAgreementsError, match="no agreement is known"):
        ss.squared_distance(ours, release(SALES))


def test_sums_and_multiples_follow_the_agreement_of_their_parts() -> None:
    total = release(SALES).combine(release(SALES), populations="disjoint")
    assert total.scaled(Fraction(1, 2)).agreement == SALES.fingerprint
    assert release(None).combine(release(None), populations="disjoint").agreement is None


def test_a_table_may_be_asserted_to_follow_an_agreement() -> None:
    table = ss.PrivateTable({"x": release(None)})
    found = table.with_agreement(SALES.fingerprint)
    assert (found["x"].agreement, found["x"].with_agreement(None)) == (SALES.fingerprint, table["x"])
    assert table.with_agreement(None) == table


def test_a_table_is_of_one_agreement() -> None:
    with pytest.raises(ss.InvalidInputError, match="one release of one agreement"):
        ss.PrivateTable({"x": release(SALES), "y": release(None)})


def test_signs_of_two_agreements_are_refused() -> None:
    agreement = ss.Agreement(ss.projections.Rademacher(sketch_dim=64, seed=7), index="item", value="sold")
    flips = ss.signs.DPSignLogistic(epsilon=1.0, neighbours=ss.L1(4))
    x, y = (
        flips.release(ss.sketch(ROWS, one))  # type: ignore[arg-type]
        for one in (agreement, agreement.replace(title="other"))
    )
    with pytest.raises(ss.errors.IncompatibleAgreementsError):
        ss.signs.hamming_distance(x, y)
    with pytest.raises(ss.errors.IncompatibleAgreementsError):
        ss.signs.cosine(x, y)
    with pytest.raises(ss.errors.IncompatibleAgreementsError, match="no agreement is known"):
        ss.signs.hamming_distance(x, x.with_agreement(None))


# --- more than the bound --------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("default::streamsketch.errors.BoundExceededWarning")
@pytest.mark.parametrize("made", [bare, lambda: ss.sketch(ROWS, BY_SHOP), lambda: ss.sketch(ROWS, SALES)])
def test_a_release_for_less_than_the_largest_value_warns_the_operator_and_is_made(made: Callable[[], Any]) -> None:
    state = made()
    keys = {"public_keys": ["N"]} if isinstance(state, ss.SketchTable) else {}
    with pytest.warns(BoundExceededWarning, match="larger than the bound of 3 for one sale") as caught:
        released = state.release(epsilon=1.0, neighbours=ss.L1(3, unit="sale"), **keys)
    assert [one.filename for one in caught] == [__file__]
    assert released.guarantee.epsilon == 1
    assert b"larger" not in released.to_bytes()


@pytest.mark.filterwarnings("error::streamsketch.errors.BoundExceededWarning")
def test_a_release_for_the_largest_value_does_not_warn() -> None:
    bare().release(**LAPLACE)
    ss.sketch(ROWS, BY_SHOP).release(**LAPLACE, public_keys=["N"])
    grid = ss.SJLT(dim=100, sketch_dim=64, sparsity=4, seed=7, resolution="1/100").sketch()
    grid.update([1, 2], [0.5, -1.0])
    grid.update(3, "1.00".__len__() / 4)
    assert grid.largest == 100
    grid.release(epsilon=1.0, neighbours=ss.L1(1))


def test_the_largest_value_is_that_of_all_updates_single_and_in_batches() -> None:
    sketch = ss.SJLT(dim=100, sketch_dim=64, sparsity=4, seed=7).sketch()
    assert sketch.largest == 0
    sketch.update(1, -9)
    assert sketch.largest == 9
    sketch.update([1, 2, 3], [4, -(2**63) + 1, 5])
    assert sketch.largest == 2**63 - 1
    other = ss.SJLT(dim=100, sketch_dim=64, sparsity=4, seed=7).sketch()
    other.update(5)
    other.merge(sketch)
    assert other.largest == 2**63 - 1
