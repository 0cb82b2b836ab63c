"""Agreements from names alone give what columns passed by hand give to `update` and `bound_units`."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import streamsketch as ss

HASHED = ss.SJLT(sketch_dim=32, sparsity=4, seed=7, resolution="1/100")
FEW = HASHED.replace(dim=100)
DAYS = [dt.date(2026, 1, 1), dt.date(1960, 2, 29), dt.date(2026, 1, 1)]
TIMES = [dt.datetime(2026, 1, 1, hour) for hour in (1, 2, 1)]  # noqa: DTZ001 - a time without a zone
INDICES: dict[str, tuple[pa.Array, Any]] = {
    "text, of which one is blank": (pa.array(["a", "", "a"]), ["a", "", "a"]),
    "repeated text": (pa.array(["a", "", "a"]).dictionary_encode(), ["a", "", "a"]),
    "views": (pa.array(["a", "", "a"], pa.string_view()), ["a", "", "a"]),
    "integers": (pa.array([7, -1, 7]), ["7", "-1", "7"]),
    "integers of 64 bits": (pa.array([2**64 - 1] * 3, pa.uint64()), [str(2**64 - 1)] * 3),
    "dates": (pa.array(DAYS), [str(day) for day in DAYS]),
    "days in milliseconds": (pa.array(DAYS, pa.date64()), [str(day) for day in DAYS]),
    "times": (pa.array(TIMES), TIMES),
}
VALUES: dict[str, pa.Array] = {
    "integers": pa.array([3, -4, 5]),
    "decimals": pa.array([Decimal("0.29"), Decimal("1.1"), Decimal("-0.57")]),
    "floats, below their multiples of the grid": pa.array([0.29, 0.57, 1.1]),
    "half floats": pa.array([0.5, 0.25, 1.5], pa.float32()).cast(pa.float16()),
}


def named(rows: pa.Table, projection: ss.projections.Projection = HASHED, **columns: Any) -> Any:
    return ss.sketch(rows, ss.Agreement.of(projection, **columns))


@pytest.mark.filterwarnings("ignore::streamsketch.errors.TruncationWarning")
@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("name", INDICES)
def test_rows_enter_as_their_text_does(name: str, values: str) -> None:
    column, texts = INDICES[name]
    rows = pa.table({"what": column, "where": ["x", "y", ""], "much": VALUES[values]})
    one, two, keyed = HASHED.sketch(), HASHED.sketch(), HASHED.table()
    given = VALUES[values].cast(pa.float32()) if values == "half floats" else VALUES[values]
    one.update(texts, given)
    two.update(HASHED.indices_of(texts, ["x", "y", ""]), given)
    keyed.update(["x", "y", ""], texts, given)
    assert named(rows, index="what", value="much") == one
    assert named(rows, index=["what", "where"], value="much") == two
    assert named(rows, index="what", key="where", value="much") == keyed


@pytest.mark.parametrize("numbers", [pa.array([7, 8, 7]), pa.array(["7", "8", "7"]), pa.array([7.0, 8.0, 7.0])])
def test_an_index_of_a_small_dim_is_an_integer(numbers: pa.Array) -> None:
    wanted = FEW.sketch()
    wanted.update([7, 8, 7])
    assert named(pa.table({"what": numbers}), FEW, index="what") == wanted


LACKING: dict[str, tuple[str, pa.Array]] = {
    "a null": ("what", pa.array(["a", None, "c"])),
    "a null of a dictionary": ("what", pa.array(["a", None, "c"]).dictionary_encode()),
    "a null in a dictionary": ("what", pa.DictionaryArray.from_arrays([0, 1, 2], ["a", None, "c"])),
    "a null value": ("much", pa.array([1, None, 3])),
    "a null key": ("where", pa.array(["x", None, "z"])),
}
FULL = pa.table({"what": ["a", "b", "c"], "where": ["x", "y", "z"], "much": [1, 2, 3], "who": ["u", "v", "w"]})


@pytest.mark.parametrize("name", LACKING)
def test_nulls_are_refused_or_dropped_where_units_are_bounded(name: str) -> None:
    column, cells = LACKING[name]
    rows = FULL.set_column(FULL.schema.get_field_index(column), column, cells)
    agreement = ss.Agreement.of(
        HASHED, index="what", key="where", value="much", unit="who", neighbours=ss.L1(9, unit="person")
    )
    with pytest.raises(ss.InvalidInputError, match=rf"the column {column} has nulls \(1 of 3 rows read together\)"):
        ss.sketch(rows, agreement)
    summary = ss.bounding.BoundingSummary()
    assert ss.bound(rows, agreement, summary=summary) == ss.sketch(FULL.take([0, 2]), agreement)
    assert (summary.rows_read, summary.rows_blank, summary.rows_malformed) == (3, 1, 0)


def test_bounded_rows_are_those_of_bound_units() -> None:
    five = ss.L1(5, unit="person")
    columns: dict[str, Any] = {
        "where": pa.array(["x", "", "x", "x", "x", None]),
        "what": pa.array([7, 8, 7, 7, 9, 7]),
        "much": pa.array([0.29, 4.0, float("nan"), float("inf"), 1.0, 1.0]),
        "who": pa.array(["u", "v", "u", "u", "", "u"]),
    }
    by_hand, summaries = (
        dict(columns, what=columns["what"].cast(pa.string())),
        [ss.bounding.BoundingSummary() for _ in "ab"],
    )
    batch = tuple(by_hand[name] for name in ("where", "what", "much", "who"))
    wanted = ss.bounding.bound_units([batch], HASHED, neighbours=five, summary=summaries[0])
    agreement = ss.Agreement.of(HASHED, index="what", key="where", value="much", unit="who", neighbours=five)
    assert ss.bound(pa.table(columns), agreement, summary=summaries[1]) == wanted
    assert {key: wanted[key].mass for key in wanted} == {"x": 28, "": 400}
    assert summaries[0].to_dict() == summaries[1].to_dict()


def test_what_is_no_number_is_refused_as_it_is_by_hand() -> None:
    for bad in (float("nan"), float("inf")):
        with pytest.raises(ss.InvalidInputError, match="the column much, rows 1 to 2"):
            named(pa.table({"what": ["a", "b"], "much": [1.0, bad]}), index="what", value="much")


def test_text_is_no_column_of_values_whatever_its_rows_hold() -> None:
    rows = FULL.set_column(2, "much", pa.array(["1", "2", "3"]))
    agreement = ss.Agreement.of(HASHED, index="what", value="much", unit="who", neighbours=ss.L1(9, unit="person"))
    for sketched in (ss.sketch, ss.bound):
        with pytest.raises(ss.InvalidInputError, match="the column much holds string, but the agreement needs numbers"):
            sketched(rows, agreement)


def test_it_is_an_agreement_like_any_other() -> None:
    agreement = ss.Agreement.of(HASHED, index=["what", "day"], key="where", value="much", unit="who")
    assert ss.Agreement.from_json(agreement.to_json()) == agreement
    assert [str(column) for column in agreement.index] == ["what:text", "day:text"]
    assert agreement.missing == "keep"
    with pytest.raises(ss.errors.IncompatibleAgreementsError, match="missing"):
        agreement.check_same(agreement.replace(missing="drop"))
