"""Equal tables give equal sketches under one agreement, whatever they come from and whatever types they have there."""

import datetime as dt
import itertools
import json
import math
import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch import InvalidInputError
from streamsketch.agreement.casts import numbers, text_numbers
from streamsketch.intake import Intake

PROJECTION = ss.SJLT(sketch_dim=64, sparsity=4, seed=7, resolution="1/100")
DAYS = [dt.date(2026, 1, 1), dt.date(1960, 2, 29), dt.date(2026, 1, 1), *[dt.date(2030, 12, 31)] * 3]
MIDNIGHT = dt.datetime.fromisoformat("2026-01-01")
TIMES = [MIDNIGHT + dt.timedelta(seconds=37_800.25 + second) for second in (0, 1, 2, 3, 3, 3)]
TEXTS = ["007", "milk, fresh", "é", "milk, fresh", " x", "NA"]
WHOLE = [7, -3, 0, 120, 7, 7]
PRICES = [Decimal(text) for text in ("0.29", "-1.10", "7", "0.07", "120.00", "0.29")]
PAID = [True, False, True, True, False, True]
VALUES = ["0.29", "-0.57", "3", "1.1", "0.07", "100"]


def read_csv(text: str, tmp_path: Path) -> pa.Table:
    """Return CSV as the command reads it: every column as text."""
    path = tmp_path / "rows.csv"
    path.write_text(text)
    names = text.split("\n", 1)[0].split(",")
    types = dict.fromkeys(names, pa.string())
    return pa_csv.read_csv(path, convert_options=pa_csv.ConvertOptions(column_types=types, strings_can_be_null=False))


def csv_of(column: list[Any]) -> pa.Array:
    return pa.array([f"{cell}" for cell in column])


def sketched(rows: Any, kind: str) -> Any:
    agreement = ss.Agreement(PROJECTION, index={"what": kind, "where": "text"}, value="much")
    return ss.sketch(rows, agreement)


def rows_of(what: Any, much: Any = None) -> pa.Table:
    count = len(what)
    return pa.table(
        {
            "what": what,
            "where": pa.array(["here", "there"] * (count // 2)),
            "much": pa.array([Decimal(value) for value in VALUES[:count]]) if much is None else much,
        }
    )


TIME_TEXTS = [time.isoformat(" ") for time in TIMES]
ZONED = [f"{time + dt.timedelta(hours=2):%Y-%m-%dT%H:%M:%S.250}+02:00" for time in TIMES]
GRID: dict[str, list[Any]] = {
    "integer": [
        *(pa.array(WHOLE, kind) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
        pa.array(WHOLE, pa.decimal128(9, 0)),
        pa.array([Decimal(one) for one in WHOLE], pa.decimal128(9, 2)),
        pa.array(WHOLE, pa.float32()),
        pa.array(WHOLE, pa.float64()),
        pa.array(WHOLE).dictionary_encode(),
        csv_of(WHOLE),
        pa.array(["007", "-3", "+0", "120.0", "7.", "07"]),
        csv_of(WHOLE).dictionary_encode(),
        csv_of(WHOLE).cast(pa.large_string()),
        csv_of(WHOLE).cast(pa.string_view()),
    ],
    "text": [
        pa.array(TEXTS),
        pa.array(TEXTS, pa.large_string()),
        pa.array(TEXTS, pa.string_view()),
        pa.array(TEXTS).dictionary_encode(),
    ],
    "bytes": [
        pa.array([text.encode() for text in TEXTS], kind) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())
    ],
    "date": [
        pa.array(DAYS),
        pa.array(DAYS, pa.date64()),
        *(pa.array(DAYS).cast(pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")),
        pa.array(DAYS).dictionary_encode(),
        csv_of(DAYS),
    ],
    "timestamp": [
        *(pa.array(TIMES, pa.timestamp(unit)) for unit in ("ms", "us", "ns")),
        pa.array(TIMES, pa.timestamp("us")).cast(pa.timestamp("us", "UTC")),
        pa.array(TIMES, pa.timestamp("us", "UTC")).cast(pa.timestamp("us", "Asia/Tokyo")),
        pa.array(TIME_TEXTS),
        pa.array([text.replace(" ", "T") + "Z" for text in TIME_TEXTS]),
        pa.array(ZONED),
        pa.array([*ZONED[:3], *TIME_TEXTS[3:]]),
    ],
    "decimal(2)": [
        pa.array(PRICES),
        pa.array(PRICES, pa.decimal128(38, 12)),
        pa.array(PRICES, pa.decimal256(60, 2)),
        pa.array([float(price) for price in PRICES], pa.float64()),
        pa.array([float(price) for price in PRICES], pa.float32()),
        pa.array([f"{price}" for price in PRICES]),
        pa.array(["0.290", "-1.1", "+7.", ".07", "120", "00.29"]),
    ],
    "boolean": [
        pa.array(PAID),
        pa.array([int(paid) for paid in PAID], pa.int8()),
        csv_of(PAID),
        pa.array([f"{paid}".lower() for paid in PAID]),
        pa.array([f"{int(paid)}" for paid in PAID]),
    ],
}


@pytest.mark.parametrize(("kind", "place"), [(kind, place) for kind in GRID for place in range(1, len(GRID[kind]))])
def test_a_column_of_any_type_that_says_the_same_gives_the_same_sketch(kind: str, place: int) -> None:
    assert sketched(rows_of(GRID[kind][place]), kind) == sketched(rows_of(GRID[kind][0]), kind)


@pytest.mark.parametrize(
    "much",
    [
        pa.array([float(value) for value in VALUES]),
        pa.array([float(value) for value in VALUES], pa.float32()),
        pa.array([Decimal(value) for value in VALUES], pa.decimal128(38, 12)),
        pa.array(VALUES),
        pa.array(VALUES).dictionary_encode(),
        pa.array([f"+{value}" if value[0] != "-" else value for value in VALUES]),
    ],
    ids=str,
)
def test_values_of_any_type_give_the_same_sketch(much: pa.Array) -> None:
    assert sketched(rows_of(GRID["text"][0], much), "text") == sketched(rows_of(GRID["text"][0]), "text")


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int32(), pa.uint64(), pa.float16(), pa.decimal128(5, 0)])
def test_whole_values_of_any_width_give_the_same_sketch(kind: pa.DataType) -> None:
    whole = [3, 0, 7, 100, 1, 2]
    texts = GRID["text"][0]
    given = pa.array(np.array(whole, np.float16)) if kind == pa.float16() else pa.array(whole, kind)
    assert sketched(rows_of(texts, given), "text") == sketched(rows_of(texts, pa.array(whole)), "text")


FRAME = {
    "land": ["D", "F", "D", "F", "D", "D"],
    "item": TEXTS,
    "week": WHOLE,
    "day": DAYS,
    "price": PRICES,
    "paid": PAID,
    "sold": [3, -1, 2, 5, 80_995, -80_995],
    "buyer": [17, 17, 18, 19, 19, 20],
}
AGREEMENT = ss.Agreement(
    PROJECTION,
    key="land",
    index={"item": "text", "week": "integer", "day": "date", "price": "decimal(2)", "paid": "boolean"},
    value="sold",
    unit={"buyer": "integer"},
)


def sources(tmp_path: Path) -> dict[str, Any]:
    table = pa.table(FRAME)
    frame = pd.DataFrame(FRAME)
    pq.write_table(table, tmp_path / "rows.parquet")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    return {
        "arrow": table,
        "batches": table.to_reader(max_chunksize=2),
        "parquet": pq.read_table(tmp_path / "rows.parquet"),
        "parquet dictionaries": pq.read_table(tmp_path / "rows.parquet", read_dictionary=["item", "land"]),
        "csv": read_csv((tmp_path / "rows.csv").read_text(), tmp_path),
        "pandas": frame,
        "pandas, times and categories": frame.assign(
            day=pd.to_datetime(frame["day"]), item=frame["item"].astype("category"), week=frame["week"].astype("int16")
        ),
        "polars": pl.from_arrow(table),
        "polars, categories": pl.DataFrame(pl.from_arrow(table)).with_columns(pl.col("item").cast(pl.Categorical)),
        "duckdb": duckdb.read_parquet(str(tmp_path / "rows.parquet")),
        "duckdb of csv": duckdb.read_csv(str(tmp_path / "rows.csv"), all_varchar=True),
    }


def test_whole_tables_of_every_library_give_the_same_sketches(tmp_path: Path) -> None:
    found = {name: ss.sketch(rows, AGREEMENT) for name, rows in sources(tmp_path).items()}
    assert [name for name, table in found.items() if table != found["arrow"]] == []
    assert list(found["arrow"]) == ["D", "F"]


def test_another_order_of_index_columns_is_another_sketch() -> None:
    other = AGREEMENT.replace(index=dict(reversed([tuple(column) for column in AGREEMENT.index])))
    assert ss.sketch(pa.table(FRAME), other) != ss.sketch(pa.table(FRAME), AGREEMENT)


@pytest.mark.parametrize("kind", [pa.int8(), pa.int64(), pa.uint16(), pa.date32(), pa.date64()])
def test_text_takes_integers_and_dates_by_their_text(kind: pa.DataType) -> None:
    given = pa.array(DAYS if pa.types.is_date(kind) else [7, 3, 0, 120, 7, 7], kind)
    as_text = sketched(rows_of(csv_of(given.to_pylist())), "text")
    assert sketched(rows_of(given), "text") == as_text
    assert sketched(rows_of(given.dictionary_encode()), "text") == as_text


# --- what is missing ------------------------------------------------------------------------------------------------

MISSING = {
    "null text": pa.array(["a", None, "c", "d"]),
    "blank text": pa.array(["a", "", "c", "d"]),
    "a null of a dictionary": pa.array(["a", None, "c", "d"]).dictionary_encode(),
    "a blank of a dictionary": pa.array(["a", "", "c", "d"]).dictionary_encode(),
    "a null in a dictionary": pa.DictionaryArray.from_arrays([0, 1, 2, 3], ["a", None, "c", "d"]),
    "a blank view": pa.array(["a", "", "c", "d"], pa.string_view()),
}
FULL = pa.table({"name": ["a", "c", "d"], "much": [1, 3, 4]})


@pytest.mark.parametrize("name", MISSING)
def test_null_and_blank_are_missing_alike(name: str) -> None:
    agreement = ss.Agreement(PROJECTION, index="name", value="much")
    rows = pa.table({"name": MISSING[name], "much": [1, 2, 3, 4]})
    with pytest.raises(ss.InvalidInputError, match="column name is null or blank in row 2"):
        ss.sketch(rows, agreement)
    dropping = agreement.replace(missing="drop")
    assert ss.sketch(rows, dropping) == ss.sketch(FULL, dropping)
    assert [events.blank for events in Intake(dropping).batches(rows)] == [1]


@pytest.mark.parametrize(
    "much", [[1, None, 3, 4], [1.0, float("nan"), 3.0, 4.0], ["1", "", "3", "4"], [Decimal(1), None, Decimal(3), 4]]
)
def test_missing_values_and_units_are_missing_too(much: list[Any]) -> None:
    names = pa.array(["a", "b", "c", "d"])
    for column in ("value", "unit"):
        agreement = ss.Agreement(PROJECTION, index="name", missing="drop")
        agreement = agreement.replace(**{column: {"value": "much", "unit": {"much": "integer"}}[column]})
        rows = pa.table({"name": names, "much": pa.array(much, from_pandas=False)})
        assert ss.sketch(rows, agreement) == ss.sketch(FULL, agreement)


def test_ids_that_a_data_frame_holds_as_floats_because_one_is_missing_are_integers() -> None:
    frame = pd.DataFrame({"buyer": [12_346, None, 17_850], "item": ["a", "b", "c"]})
    assert frame["buyer"].dtype == "float64"
    agreement = ss.Agreement(PROJECTION, index={"buyer": "integer", "item": "text"}, missing="drop")
    assert ss.sketch(frame, agreement) == ss.sketch(
        pa.table({"buyer": ["12346", "17850.0"], "item": ["a", "c"]}), agreement
    )


# --- what does not fit ----------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[str, Any]] = {
    "text for an integer": ("integer", ["7", "8", "secret", "9"]),
    "an integer of 64 bits": ("integer", ["7", "8", str(2**63), "9"]),
    "an unsigned integer of 64 bits": ("integer", np.array([7, 8, 2**63, 9], np.uint64)),
    "a fraction for an integer": ("integer", [7.0, 8.0, 8.5, 9.0]),
    "a float beyond the whole numbers": ("integer", [7.0, 8.0, 2.0**60, 9.0]),
    "a decimal fraction for an integer": ("integer", [Decimal("7.0"), Decimal("8.0"), Decimal("8.5"), Decimal("9.0")]),
    "an infinity": ("decimal(2)", [1.0, 2.0, float("inf"), 3.0]),
    "a third place": ("decimal(2)", ["1", "2", "0.295", "3"]),
    "a third place of a float": ("decimal(2)", [1.0, 2.0, 0.295, 3.0]),
    "an exponent": ("decimal(2)", ["1", "2", "1e1", "3"]),
    "a time of day in a date": (
        "date",
        [MIDNIGHT] * 2 + [MIDNIGHT + dt.timedelta(hours=1), MIDNIGHT],
    ),
    "a date in another order": ("date", ["2026-01-31", "2026-01-31", "31.01.2026", "2026-01-31"]),
    "a date that is none": ("date", ["2026-01-31", "2026-01-31", "2026-02-30", "2026-01-31"]),
    "a time that is none": ("timestamp", ["2026-01-31 10:00:00"] * 2 + ["2026-01-31 25:00:00", "2026-01-31"]),
    "a word for a boolean": ("boolean", ["true", "false", "secret", "true"]),
    "a number for a boolean": ("boolean", [0, 1, 2, 0]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_value_that_does_not_fit_is_named_by_row_and_column_and_never_shown(name: str) -> None:
    kind, cells = REFUSED[name]
    rows = pa.table({"what": pa.array(cells)})
    with pytest.raises(ss.InvalidInputError) as raised:
        ss.sketch(rows, ss.Agreement(PROJECTION, index={"what": kind}))
    said = str(raised.value)
    assert f"column what holds {rows.schema.field('what').type}" in said
    assert "in row 3 a value" in said
    assert kind in said
    assert str(cells[2]) not in said
    dropped = pa.table({"what": pa.concat_arrays([pa.nulls(1, rows.schema.field("what").type), pa.array(cells)])})
    with pytest.raises(ss.InvalidInputError, match="in row 4 a value"):
        ss.sketch(dropped, ss.Agreement(PROJECTION, index={"what": kind}, missing="drop"))


@pytest.mark.parametrize(
    ("kind", "cells"),
    [
        ("text", pa.array([7.0])),
        ("text", pa.array([MIDNIGHT])),
        ("text", pa.array([b"x"])),
        ("text", pa.array([True])),
        ("integer", pa.array([True])),
        ("integer", pa.array([dt.date(2026, 1, 1)])),
        ("bytes", pa.array(["x"])),
        ("date", pa.array([7])),
        ("timestamp", pa.array([7])),
        ("boolean", pa.array([1.0])),
        ("text", pa.array([[1]])),
    ],
)
def test_types_that_mean_something_else_are_not_cast(kind: str, cells: pa.Array) -> None:
    with pytest.raises(ss.InvalidInputError, match=rf"column what holds .*, but the agreement has {kind}: cast it"):
        ss.sketch(pa.table({"what": cells}), ss.Agreement(PROJECTION, index={"what": kind}))


@pytest.mark.parametrize("cells", [["1", "2", "secret"], ["1", "2", "1e5"], ["1", "2", "0." + "1" * 13]])
def test_values_as_text_that_are_no_numbers_are_named_by_row(cells: list[str]) -> None:
    rows = pa.table({"what": ["a", "b", "c"], "much": cells})
    with pytest.raises(ss.InvalidInputError, match="column much holds text, and in row 3") as raised:
        ss.sketch(rows, ss.Agreement(PROJECTION, index="what", value="much"))
    assert cells[2] not in str(raised.value)


def test_values_that_are_no_numbers_are_refused() -> None:
    rows = pa.table({"what": ["a"], "much": [True]})
    with pytest.raises(ss.InvalidInputError, match="column much holds bool"):
        ss.sketch(rows, ss.Agreement(PROJECTION, index="what", value="much"))


def test_rows_are_counted_over_batches() -> None:
    batches = pa.table({"what": pa.chunked_array([["1", "2"], ["3"], ["4", "x"]])})
    with pytest.raises(ss.InvalidInputError, match="in row 5 a value"):
        ss.sketch(batches, ss.Agreement(PROJECTION, index={"what": "integer"}))


def test_a_table_without_rows_is_an_empty_sketch() -> None:
    empty = pa.table(FRAME).slice(0, 0)
    assert len(ss.sketch(empty, AGREEMENT)) == 0
    assert json.loads(AGREEMENT.to_json())["missing"] == "refuse"


@pytest.mark.parametrize("agreed", [True, False])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("grid", [Fraction(1, 10), Fraction(1, 100), Fraction(1, 3), Fraction(3, 8), Fraction(7)])
def test_floats_keep_to_the_steps_of_a_relation_on_the_numbers_that_are_read(
    grid: Fraction,
    kind: Any,
    agreed: bool,  # noqa: FBT001 - a parameter
) -> None:
    """A float is the multiple of the grid that rounds to it, or its exact value, and that is what is truncated."""
    near = np.array([float(number * grid) for number in range(-4, 5)], dtype=kind)
    values = np.unique([*near, *np.nextafter(near, kind(-np.inf)), *np.nextafter(near, kind(np.inf))])
    multiples = {kind(float(number * grid)): number * grid for number in range(-5, 6)}
    read = [multiples.get(value, Fraction(float(value))) if agreed else Fraction(float(value)) for value in values]
    cells = ss.projections.Identity(dim=len(values), resolution=grid)
    if agreed:
        agreement = ss.Agreement(cells, index={"cell": "integer"}, value="much")
        state = ss.sketch(pa.table({"cell": range(len(values)), "much": values}), agreement).state()
    else:
        sketch = cells.sketch()
        sketch.update(np.arange(len(values)), values)
        state = sketch.state()
    assert state.tolist() == [math.trunc(number / grid) for number in read]
    for (one, number), (other, more) in itertools.combinations(zip(state.tolist(), read, strict=True), 2):
        assert abs(other - one) <= ss.OneCoordinate(max(abs(more - number), Fraction(1, 10**9))).grid_steps(grid)


@pytest.mark.parametrize(
    "texts",
    [
        ["7", "-12", "007", "-0"],
        ["7", "+7", "1.50", ".5", "-3."],
        ["999999999999999999", "-999999999999999999"],
        ["9223372036854775808", "-9223372036854775809", "12345678901234567890123456"],
        ["1", "-"],
        ["1", ""],
        ["1-", "2"],
        ["1-2"],
        ["--1"],
        ["1", "-1-"],
        ["1", "/"],
        ["1", ":"],
        ["1", "123456789012345678901234567"],
    ],
    ids=repr,
)
def test_texts_of_digits_are_the_numbers_that_they_are_with_others(texts: list[str]) -> None:
    form = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)")
    fits = all(form.fullmatch(text) and abs(Decimal(text)) < 10**26 for text in texts)
    for column in (pa.array(texts), pa.array(["x", *texts, "y"])[1:-1], pa.array([*texts, "0.5"])):
        if fits:
            found = numbers(column, "much", Fraction(1), range(len(column)))
            assert found.type in (pa.int64(), text_numbers())
            assert found.cast(text_numbers()).to_pylist() == [Decimal(text) for text in column.to_pylist()]
        else:
            with pytest.raises(InvalidInputError, match="a plain decimal number"):
                numbers(column, "much", Fraction(1), range(len(column)))
