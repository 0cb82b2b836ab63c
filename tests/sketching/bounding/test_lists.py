"""Lists of Python objects with privacy units: a row's field decides about its row alone, whatever it is."""

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import streamsketch as ss
from tests.sketching.bounding.reading import read_columns

PROJECTION = ss.SJLT(sketch_dim=16, sparsity=4, seed=1, resolution="1/2")
SMALL = ss.CountSketch(dim=50, sketch_dim=16, seed=1)
NEIGHBOURS = ss.L1(1 << 58, unit="customer")
OTHERS = [("k", "tea", 5, "Ann"), ("k", "jam", 3, "Bob"), ("l", "tea", (1 << 53) + 1, "Cy")]
PLACES = {"key": 0, "index": 1, "value": 2, "unit": 3}

# what a field of one row may be, in columns of text or of integers: dropped as blank or malformed, or kept
NEVER = [(None, "blank"), (float("nan"), "malformed"), (True, "malformed"), ([1], "malformed"), ((1, 2), "malformed")]
NAMES = [
    *NEVER,
    ("\ud800", "malformed"),
    (1.5, "malformed"),
    (pd.NaT, "malformed"),
    (1 << 70, "malformed"),
    (7, "kept"),
]
FIELDS = {
    "key": [*NAMES, (b"k", "kept"), (dt.date(2026, 11, 22), "malformed")],
    "index": [*NAMES, (-1, "malformed"), (b"k", "kept"), (dt.date(2026, 11, 22), "kept")],
    "unit": [*NAMES, ("", "blank"), (b"k", "kept"), (np.datetime64("2026-11-22"), "malformed")],
    "value": [
        *NEVER,
        *((field, "malformed") for field in ("1", float("inf"), Decimal("nan"), Decimal("snan"))),
        *((field, "kept") for field in (1 << 70, 0.5, Decimal("1e999999"), Fraction(4, 3), np.int8(3))),
    ],
}  # fmt: skip
CASES = [(name, field, fate) for name, fields in FIELDS.items() for field, fate in fields]


def objects(column: list[Any]) -> Any:
    """Return a NumPy array of objects."""
    found = np.empty(len(column), dtype=object)
    found[:] = column
    return found


CONTAINERS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "array": objects,
    "series": lambda column: pd.Series(objects(column), dtype=object),
}


def bounded(rows: list[Any], make: Callable[[list[Any]], Any]) -> tuple[ss.SketchTable, ss.bounding.BoundingSummary]:
    keys, indices, values, units = (make(list(column)) for column in zip(*rows, strict=True))
    summary = ss.bounding.BoundingSummary()
    indices = list(indices) if isinstance(indices, tuple) else indices  # a tuple of indices is one of columns
    return ss.bounding.bound_units(
        [(keys, indices, values, units)], PROJECTION, neighbours=NEIGHBOURS, summary=summary
    ), summary


@pytest.mark.parametrize(("name", "field", "fate"), CASES, ids=[f"{name}: {field!r:.20}" for name, field, _ in CASES])
def test_one_row_decides_about_itself_alone(name: str, field: Any, fate: str) -> None:
    row = ["eve", "gin", 1, "Eve"]
    row[PLACES[name]] = field
    if name != "key":
        row[PLACES["key"]] = "eve"
    without, _ = bounded(OTHERS, list)
    for label, make in CONTAINERS.items():
        for at in (0, 2):
            found, summary = bounded([*OTHERS[:at], tuple(row), *OTHERS[at:]], make)
            for key in without:
                assert np.array_equal(found[key].state(), without[key].state()), (label, key)
            assert (len(found) > len(without)) is (fate == "kept"), label
            counts = (summary.rows_read, summary.rows_blank, summary.rows_malformed)
            assert counts == (4, int(fate == "blank"), int(fate == "malformed")), label


def test_a_list_beside_typed_columns_and_indices_of_several() -> None:
    keys, values = pa.array(["a", "a", None, "b"]).dictionary_encode(), np.array([1.0, np.nan, 1.0, 2.0])
    days, items = pa.array([1, 2, 3, 4], pa.date32()), ["tea", "jam", "gin", 7]
    summary = ss.bounding.BoundingSummary()
    table = ss.bounding.bound_units(
        [(keys, (items, days), values, ["Ann", "Bob", "Bob", "Cy"])], PROJECTION, neighbours=NEIGHBOURS, summary=summary
    )
    assert {key: table[key].mass for key in table} == {"a": 2, "b": 4}, "in half units"
    told = PROJECTION.sketch()
    told.update(PROJECTION.indices_of([7], [dt.date(1970, 1, 5)]), [2])
    assert np.array_equal(table["b"].state(), told.state())
    assert (summary.rows_blank, summary.rows_malformed) == (1, 1)


def test_groups_of_types_are_read_as_if_each_were_a_column() -> None:
    """Integers beyond 2^53 stay exact beside a float, and a number is another key than its text."""
    large = (1 << 53) + 1
    table, _ = bounded([(7, 7, large, 7), ("7", "7", 0.5, "7"), (b"7", b"7", Decimal("1.5"), b"7")], list)
    assert {key: table[key].mass for key in table} == {7: 2 * large, "7": 1, b"7": 3}, "in half units"


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ((["k", "k"], ["i", "i"], ["1", None], ["u", "u"]), "the value column must hold numbers, got str"),
        (
            (["k", "k"], [0.5, None], [1, 1], ["u", "u"]),
            "the index column must hold text, bytes or integers, got float",
        ),
        (
            ([True, (1,)], ["i", "i"], [1, 1], ["u", "u"]),
            "the key column must hold text, bytes or integers, got bool, tup",
        ),
        ((["k", None], ["i", "i"], [1, 1], ["u"]), "the columns must have one length, got 1, 2"),
        ((["k", None], pa.array([0.5, 1]), [1, 1], ["u", "u"]), "the index column must hold"),
    ],
)
def test_a_column_in_which_no_row_fits_is_a_mistake(columns: Any, said: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=said):
        ss.bounding.bound_units([columns], PROJECTION, neighbours=NEIGHBOURS)


def test_text_among_the_integers_of_a_small_domain_is_dropped() -> None:
    found = read_columns(SMALL, ["a", "b", "c"], ["k"] * 3, [[1, "two", 49]], None)
    assert found.indices.tolist() == [1, 49]
    with pytest.raises(ss.InvalidInputError, match="hashed"):
        read_columns(SMALL, ["a", None], ["k"] * 2, [pa.array(["one", "two"])], None)


@pytest.mark.parametrize("values", [[1 << 70, -(1 << 70)], [1 << 70] * 2, [1 << 70] * 3, [1 << 70] * 5, [1 << 70, -5]])
def test_nets_are_sums_modulo_2_to_the_64_of_rows_clipped_to_62_bits(values: list[int]) -> None:
    """As Theory 4.2 says: rows are clipped one by one, then cells wrap around."""
    net = sum(max(-(1 << 62) + 1, min((1 << 62) - 1, 2 * value)) for value in values)
    wrapped = (net + (1 << 63)) % (1 << 64) - (1 << 63)
    (found,) = ss.bounding.unit_totals([(None, ["tea"] * len(values), values, ["Ann"] * len(values))], PROJECTION)
    assert found == abs(wrapped) / 2
