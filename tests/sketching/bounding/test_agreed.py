"""Bounding under an agreement: what `bound_units` does, on rows of any library, cast to the agreed types."""

import types

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.sketching.bounding import units

PROJECTION = ss.SJLT(sketch_dim=32, sparsity=4, seed=11)
AGREEMENT = ss.Agreement(
    PROJECTION,
    key="land",
    index={"item": "integer", "day": "date"},
    value="sold",
    unit={"customer": "integer"},
    neighbours=ss.L1(10, unit="customer", max_keys=2),
    missing="drop",
)
ROWS = {
    "customer": ["1", "1", "1", "2", "2", "", "3"],
    "land": ["D", "D", "F", "D", "F", "F", "F"],
    "item": ["007", "7", "8", "9", "9", "9", "9"],
    "day": ["2025-03-01"] * 7,
    "sold": ["80995", "-80995", "5", "40", "20", "3", "-11"],
}


@pytest.fixture(autouse=True)
def _one_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "os", types.SimpleNamespace(urandom=lambda _: bytes(range(32))))


@pytest.mark.parametrize("make", [pa.table, pd.DataFrame, pl.DataFrame, lambda rows: pl.DataFrame(rows).lazy()])
@pytest.mark.parametrize("clip", ["scale", "cut"])
def test_rows_of_every_library_give_the_sketch_of_bounded_columns(clip: str, make: object) -> None:
    summary, expected_summary = ss.bounding.BoundingSummary(), ss.bounding.BoundingSummary()
    found = ss.bound(make(ROWS), AGREEMENT, clip=clip, summary=summary)  # type: ignore[operator, arg-type]
    whole = {
        name: [cell for cell, named in zip(cells, ROWS["customer"], strict=True) if named]
        for name, cells in ROWS.items()
    }
    columns = (
        pa.array(whole["land"]),
        (pa.array([int(item) for item in whole["item"]]), pa.array(whole["day"]).cast(pa.date32())),
        pa.array([int(value) for value in whole["sold"]]),
        pa.array([int(unit) for unit in whole["customer"]]),
    )
    bounds = {"neighbours": AGREEMENT.neighbours, "clip": clip, "summary": expected_summary}
    expected = ss.bounding.bound_units([columns], PROJECTION, **bounds)  # type: ignore[arg-type]
    assert {key: found[key].state().tolist() for key in found} == {
        key: expected[key].state().tolist() for key in expected
    }
    assert found.agreement == AGREEMENT
    assert summary.rows_blank == 1
    assert (summary.units, summary.units_over_bound) == (expected_summary.units, expected_summary.units_over_bound)
    assert found["F"].mass <= 4 * (5 + 10 + 10)


def test_relations_of_duckdb_are_rows_too() -> None:
    duckdb = pytest.importorskip("duckdb")
    rows = pa.table(ROWS)
    with duckdb.connect() as connection:
        relation = connection.from_arrow(rows)
        found = ss.bound(relation, AGREEMENT)
    assert found == ss.bound(rows, AGREEMENT)


def test_without_a_key_there_is_one_sketch() -> None:
    single = AGREEMENT.replace(key=None, neighbours=ss.L1(10, unit="customer"))
    found = ss.bound(pa.table(ROWS), single)
    assert isinstance(found, ss.Sketch)
    assert found.agreement == single
    assert isinstance(ss.bound(pa.table(ROWS).slice(0, 0), single), ss.Sketch)


def test_public_keys_are_cast_as_keys_are() -> None:
    numbered = AGREEMENT.replace(
        key={"customer": "integer"}, unit={"item": "integer"}, neighbours=ss.L1(10, unit="item")
    )
    assert list(ss.bound(pa.table(ROWS), numbered, public_keys=["2"])) == [2]


def test_a_release_guarantees_what_was_agreed_on_and_does_not_warn(recwarn: pytest.WarningsRecorder) -> None:
    table = ss.bound(pa.table(ROWS), AGREEMENT)
    assert isinstance(table, ss.SketchTable)
    assert AGREEMENT.neighbours is not None
    released = table.release(epsilon=1.0, neighbours=AGREEMENT.neighbours, public_keys=["D", "F"])
    assert released.guarantee.neighbours == AGREEMENT.neighbours
    assert not [one for one in recwarn if issubclass(one.category, ss.errors.BoundExceededWarning)]


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"unit": None}, "no column of units"), ({"neighbours": None}, r"no bound \(neighbours")],
)
def test_an_agreement_without_units_or_bound_bounds_nothing(changes: dict[str, None], said: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=said):
        ss.bound(pa.table(ROWS), AGREEMENT.replace(**changes))
    with pytest.raises(TypeError, match="must be an Agreement"):
        ss.bound(pa.table(ROWS), PROJECTION)  # type: ignore[arg-type]


def test_a_release_of_counted_units_refuses_what_is_no_relation() -> None:
    rows = pa.table({"item": ["tea"], "customer": ["Ann"]})
    agreed = ss.agree(rows, ss.CountSketch(sketch_dim=64, seed=7), index="item", unit="customer")
    with pytest.raises(TypeError, match=r"neighbours must be .* got a str"):
        ss.bound(rows, agreed).release(epsilon=1.0, delta=1e-6, neighbours="customer")  # type: ignore[arg-type]
