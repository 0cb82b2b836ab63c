"""Rows of people become sound events on the grid: malformed rows are dropped, heavy ones cut, mistakes refused."""

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.intake.objects import is_malformed
from streamsketch.intake.units import column_events
from streamsketch.sketching.bounding.contributions import Contributions, concatenated
from streamsketch.sketching.bounding.digests import UnitDigests
from tests.sketching.bounding.reading import SECRET, read_columns, read_rows

HASHED = ss.SJLT(sketch_dim=16, sparsity=4, seed=3, resolution="1/2")
SMALL = ss.SJLT(dim=10, sketch_dim=16, sparsity=4, seed=3)
HEAVY = (1 << 62) - 1


def events(found: Contributions) -> list[tuple[Any, int, int]]:
    return sorted(
        (
            (found.slots[code], index, step)
            for code, index, step in zip(
                found.codes.tolist(), found.indices.tolist(), found.steps.tolist(), strict=True
            )
        ),
        key=repr,
    )


def read(value: Any, *, unit: Any = None, key: Any = None, index: Any = None) -> Contributions:
    n = len(value)
    columns = (["u"] * n if unit is None else unit, ["k"] * n if key is None else key)
    return read_columns(HASHED, *columns, [["i"] * n if index is None else index], value)


@pytest.mark.parametrize(
    "values",
    [
        [1, -2, 3],
        [1.0, -2.2, 3.4],
        np.array([1, -2, 3], dtype=np.int8),
        [Decimal(1), Decimal("-2.2"), Decimal("3.4")],
        pa.array([1, -2, 3]).dictionary_encode(),
    ],
    ids=["int", "float", "int8", "decimal", "dictionary"],
)
def test_values_meet_the_grid(values: Any) -> None:
    assert read(values).steps.tolist() == [2, -4, 6]


@pytest.mark.parametrize(
    "heavy",
    [
        [1e300, -1e300],
        [2**63 - 1, -(2**63)],
        [Decimal(10) ** 25, -(Decimal(10) ** 25)],
        np.array([1e30, -1e30], np.float32),
        [2**61, -(2**61)],
    ],
    ids=["float", "int", "decimal", "float32", "first"],
)
def test_values_beyond_62_bits_are_clipped_to_them(heavy: Any) -> None:
    assert read(heavy).steps.tolist() == [HEAVY, -HEAVY]


@pytest.mark.parametrize("resolution", ["1", "1/2", "3"])
@pytest.mark.parametrize("kind", [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)])
def test_the_ends_of_every_integer_type_are_read_exactly(kind: str, resolution: str) -> None:
    ends = np.iinfo(kind)
    values = [int(ends.min), int(ends.min) + 1, 0, int(ends.max)]
    projection = HASHED.replace(resolution=resolution)
    expected = [max(-HEAVY, min(HEAVY, math.trunc(Fraction(value) / projection.grid))) for value in values]
    for column in (np.array(values, dtype=kind), pa.array(values, getattr(pa, kind)())):
        found = read_columns(projection, ["u"] * 4, ["k"] * 4, [["i"] * 4], column)
        assert found.steps.tolist() == expected


def test_unsigned_values_beyond_signed_integers_are_cut() -> None:
    assert read(np.array([2**64 - 1, 1], dtype=np.uint64)).steps.tolist() == [HEAVY, 2]


def test_without_a_value_column_each_event_counts_one() -> None:
    found = read_columns(HASHED, ["u", "v"], ["k", "k"], [["i", "j"]], None, 9)
    assert found.steps.tolist() == [2, 2]
    assert found.slots == [("k", 9)]
    assert not (found.units[0] == found.units[1]).all()


NAN = float("nan")


@pytest.mark.parametrize(
    ("field", "column"),
    [
        ("unit", pa.array(["a", None, "c"])),
        ("unit", pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["a", None]))),
        ("unit", pa.array([b"a", b"\xff", b"c"]).view(pa.string())),
        ("unit", pa.array(["a", "", "c"])),
        ("unit", pa.array(["a", "", "c"]).dictionary_encode()),
        ("unit", pa.array([b"a", b"", b"c"], pa.binary())),
        ("key", pa.array([1, None, 3])),
        ("key", pa.array([b"a", b"\xff", b"c"]).view(pa.string())),
        ("key", pa.array([b"a", b"\xff", b"c"]).view(pa.string()).dictionary_encode()),
        ("index", pa.array(["a", None, "c"])),
        ("index", pa.array([b"a", b"\xc0\x80", b"c"]).view(pa.string())),
        ("value", pa.array([1.0, NAN, 2.0])),
        ("value", pa.array([1.0, float("-inf"), 2.0])),
        ("value", pa.array([1, None, 2])),
        ("value", pa.array([Decimal(1), None, Decimal(2)])),
    ],
)
def test_a_malformed_row_is_dropped_and_its_neighbours_stay(field: str, column: pa.Array) -> None:
    fields = {"value": [1, 1, 1]} | {field: column}
    found = read(fields.pop("value"), **fields)
    sound = read(
        *([column.take([0, 2])] if field == "value" else [[1, 1]]),
        **({} if field == "value" else {field: column.take([0, 2])}),
    )
    assert events(found) == events(sound)
    assert len(found) == 2


def test_rows_are_counted_for_the_operator_alone() -> None:
    summary = ss.bounding.BoundingSummary()
    units = pa.array(["a", "", None, "b", "c", "d"])
    values = pa.array([1.25, 1.0, 1.0, float("nan"), None, -3.0])
    (events,) = column_events(HASHED, units, ["k"] * 6, [["i"] * 6], values)
    assert events.steps.tolist() == [2, -6]
    summary.note(events, HASHED)
    assert (summary.rows_read, summary.rows_malformed) == (6, 1)
    assert (summary.rows_blank, summary.rows_truncated, summary.largest_value) == (3, 1, 3.0)
    summary.note(*column_events(HASHED, ["a"], ["k"], [["i"]], None), HASHED)
    assert (summary.rows_blank, summary.rows_truncated, summary.largest_value) == (3, 1, 3.0)
    thirds = ss.SJLT(sketch_dim=64, sparsity=4, seed=7, resolution="0.3")
    summary.note(*column_events(thirds, ["a", "b"], ["k"] * 2, [["i"] * 2], None), thirds)
    assert (summary.rows_truncated, summary.largest_value) == (3, 3.0)


def test_indices_out_of_range_are_dropped() -> None:
    found = read_columns(SMALL, ["u"] * 5, ["k"] * 5, [pa.array([0, 9, 10, -1, None])], None)
    assert found.indices.tolist() == [0, 9]
    wide = np.array([3, 2**63], dtype=np.uint64)
    assert read_columns(SMALL, ["u"] * 2, ["k"] * 2, [wide], None).indices.tolist() == [3]


def test_a_column_of_nulls_alone_leaves_nothing() -> None:
    assert len(read(pa.nulls(3))) == 0
    assert len(read([1, 1, 1], unit=pa.nulls(3))) == 0
    assert len(read([1, 1, 1], index=pa.nulls(3))) == 0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"unit": [1.5, 2.5]}, "the unit column must hold text.*got double"),
        ({"key": [1.5, 2.5]}, "the key column must hold text, bytes or integers, got double"),
        ({"key": [dt.date(2020, 1, 1)] * 2}, "the key column must hold text, bytes or integers, got date32"),
        ({"index": [True, False]}, "the index column must hold"),
        ({"value": ["1", "2"]}, "the value column must hold integers, floats or decimals, got string"),
        ({"value": [True, False]}, "the value column must hold"),
        ({"unit": ["a"]}, "must have one length, got 1, 2"),
        ({"unit": "ab"}, "the unit column must be a list"),
    ],
)
def test_a_column_of_a_wrong_type_is_a_mistake_not_a_malformed_row(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=message):
        read(**{"value": [1, 1]} | fields)


def test_text_indices_on_a_small_domain_are_a_mistake() -> None:
    for index in ([["a"]], [[1], [2]]):
        with pytest.raises(ss.InvalidInputError, match="dim=10"):
            read_columns(SMALL, ["u"], ["k"], index, [1])


def test_rows_with_text_indices_on_a_small_domain_are_dropped() -> None:
    assert len(read_rows(SMALL, [("u", "k", "i", 1)])) == 0


# --- rows -----------------------------------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(
            st.text("abc", max_size=2),
            st.text("kl", min_size=1, max_size=1),
            st.integers(-2, 12),
            st.floats(-5, 5),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_rows_are_read_as_columns_are(rows: list[Any]) -> None:
    columns = [list(column) for column in zip(*rows, strict=True)]
    by_rows = concatenated([read_rows(SMALL, [row]) for row in rows])
    by_columns = read_columns(SMALL, columns[0], columns[1], [columns[2]], columns[3])
    assert events(by_rows) == events(by_columns)
    assert sorted(by_rows.units.tolist()) == sorted(by_columns.units.tolist())


@pytest.mark.parametrize(
    ("row", "step"),
    [
        (("u", "k", "i", Fraction(9, 4)), 4),
        (("u", "k", "i", Decimal("1e30")), HEAVY),
        (("u", "k", "i", -(10**30)), -HEAVY),
        ((dt.date(2020, 1, 1), b"k", dt.datetime(2020, 1, 1, tzinfo=dt.UTC), 1.75), 3),
        ((7, 8, 9, 1), 2),
    ],
)
def test_rows_of_every_type(row: Any, step: int) -> None:
    found = read_rows(HASHED, [row])
    assert found.steps.tolist() == [step]
    assert found.slots == [(row[1], 0)]


@pytest.mark.parametrize(
    "row",
    [
        ("\ud800", "k", "i", 1),
        ("u", "\ud800", "i", 1),
        ("u", "k", "\ud800", 1),
        (2**70, "k", "i", 1),
        ("u", 2**70, "i", 1),
    ],
)
def test_rows_that_cannot_be_read_are_dropped(row: Any) -> None:
    sound = tuple(type(field)(1) if isinstance(field, int) else "a" for field in row[:3])
    found = read_rows(HASHED, [(*sound, 1), row, (*sound, 1)])
    assert len(found) == 2


@pytest.mark.parametrize(
    "value", [None, NAN, np.nan, float("inf"), Decimal("NaN"), Decimal("sNaN"), Decimal("-Infinity"), pd.NaT, pd.NA]
)
def test_missing_and_infinite_values_are_malformed(value: Any) -> None:
    assert is_malformed(("u", "k", "i", value))
    if not isinstance(value, Decimal | float) or value is NAN:
        assert is_malformed((value, "k", "i", Decimal(1)))


def test_a_sound_row_is_not_malformed() -> None:
    for value in (0, 1.5, Decimal("0.1"), -(2**80), np.float32(3)):
        assert not is_malformed(("u", "k", "i", value))


@pytest.mark.parametrize(
    "row", [(1.5, "k", "i", 1), ("u", 1.5, "i", 1), ("u", "k", (1, 2), 1), ("u", "k", "i", "1"), ("u", "k", "i", True)]
)
def test_rows_of_a_wrong_type_are_dropped(row: Any) -> None:
    assert len(read_rows(HASHED, [row])) == 0


# --- units ----------------------------------------------------------------------------------------------------


def test_units_are_told_apart_by_value_and_type_and_hidden_by_the_secret() -> None:
    units = [read_rows(HASHED, [(unit, "k", "i", 1)]).units[0].tolist() for unit in ("1", 1, b"1")]
    assert len({tuple(unit) for unit in units}) == 3
    other = read_rows(HASHED, [("1", "k", "i", 1)], secret=b"\1" * 32).units[0].tolist()
    assert other not in units


def text(names: list[bytes | None], layout: str) -> pa.Array:
    """Return names, UTF-8 or not, as a column of text."""
    if layout == "dictionary":
        distinct = sorted({name for name in names if name is not None})
        codes = pa.array([None if name is None else distinct.index(name) for name in names], pa.int8())
        return pa.DictionaryArray.from_arrays(codes, text([*distinct], "plain"))
    plain = pa.array(names, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(plain), plain.buffers(), plain.null_count)


layouts = st.sampled_from(["plain", "dictionary"])
bad_names = st.sampled_from([b"k", b"l", b"\xff", None])
good_names = st.sampled_from([b"k", b"l"])


@settings(max_examples=2 * settings.default.max_examples)
@given(st.data())
def test_what_one_unit_sends_takes_nothing_from_the_others(data: st.DataObject) -> None:
    rows = [
        (b"u", data.draw(good_names), data.draw(good_names), 1.0)
        if data.draw(st.booleans())
        else (b"Eve", data.draw(bad_names), data.draw(bad_names), data.draw(st.sampled_from([1.0, None, float("nan")])))
        for _ in range(data.draw(st.integers(1, 9)))
    ]

    def others(rows: list[Any]) -> list[Any]:
        if not rows:
            return []
        units, keys, indices, values = zip(*rows, strict=True)
        found = read_columns(
            HASHED,
            text(list(units), data.draw(layouts)),
            text(list(keys), data.draw(layouts)),
            [text(list(indices), data.draw(layouts))],
            pa.array(values, pa.float64()),
        )
        return events(found.rows((found.units == UnitDigests(SECRET).of(pa.array(["u"]))).all(axis=1)))

    cut = data.draw(st.integers(0, len(rows)))
    assert others(rows[:cut]) + others(rows[cut:]) == [
        event for part in (rows[:cut], rows[cut:]) for event in others([row for row in part if row[0] == b"u"])
    ]


@pytest.mark.parametrize(
    ("value", "step"),
    [("1E+30000000", HEAVY), ("-1E+999999999", -HEAVY), ("1E-30000000", 0), ("0E+30000000", 0), ("-0E-99999999", 0)],
)
def test_a_decimal_with_a_huge_exponent_is_read_at_once(value: str, step: int) -> None:
    found = read_rows(HASHED, [("u", "k", "i", Decimal(value))])
    assert found.steps.tolist() == [step]


def test_dates_of_any_layout_are_one_unit_and_those_out_of_range_are_malformed() -> None:
    days = [dt.date(1969, 12, 31), dt.date(2024, 3, 1)]
    in_days = read([1, 1], unit=pa.array(days, pa.date32()))
    in_ms = read([1, 1], unit=pa.array(days, pa.date64()))
    assert in_days.units.tolist() == in_ms.units.tolist()
    assert len(read([1, 1], unit=pa.array([0, (1 << 63) - 1], pa.int64()).view(pa.date64()))) == 1


def test_views_are_read_as_what_they_show() -> None:
    names = ["a", "b", "a name of more than twelve bytes"]
    found = read([1, 1, 1], key=pa.array(names, pa.string_view()), unit=pa.array(names, pa.string_view()))
    assert events(found) == events(read([1, 1, 1], key=names, unit=names))


def test_compact_events_are_the_same_events() -> None:
    found = read(list(range(100)), key=[f"key {number}" for number in range(100)])
    part = found.rows(np.array([2, 0]))
    assert events(part.compact()) == events(part)
    assert [key for key, _ in part.compact().slots] == ["key 0", "key 2"]


def test_parts_are_joined_slot_by_slot() -> None:
    one, other = read([1, 1], key=["a", "b"]), read([1, 1, 1], key=["b", "c", "a"])
    joined = concatenated([one, other])
    assert events(joined) == sorted(events(one) + events(other), key=repr)
    assert len(joined.slots) == 3
