"""Bad rows are left out together: which they are, in which order, and how often their batch is tried."""

import datetime as dt
import itertools
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.agreement.casts import cast, misfits, numbers
from streamsketch.agreement.columns import Column
from streamsketch.core.numbers import Ints
from streamsketch.data.arrow_messages import most_unpacked, unpacked_size
from streamsketch.data.readers.json_lines import json_batch
from streamsketch.data.windows import micros_in, readable_times
from streamsketch.intake.columns import BadRowsError, add_readable

TEXTS = [
    *["2026-11-22", "2026-11-22T10:00:00Z", "2026-11-22 10:00", "2026-11-22T10", "2026-11-22T10:00:00.123456+05:30"],
    *["2026-02-30", "2024-02-29", "2026-13-01", "2026-11-22T25:00", "2026-11-22T10:00:61", "2026-11-22T10:00 Z"],
    *[
        "soon",
        "",
        " 2026-11-22",
        "2026-11-22 ",
        "1700000000123",
        "20261122",
        "+2026-11-22",
        "12026-11-22",
        "\uff12026-11-22",
    ],
    *["2026-W47-7", "2026-326", "2026-11", "0000-01-01", "9999-12-31T23:59:59Z", "2026-11-22T10:00:00.1234567Z"],
    *["29/02/2024", "30/02/2024"],
]


@given(st.lists(st.sampled_from(TEXTS) | st.datetimes().map(dt.datetime.isoformat) | st.text(max_size=12), max_size=12))
def test_times_are_judged_as_each_is_read_by_itself(texts: list[str]) -> None:
    column = pa.array(texts, pa.string())
    for form in (None, "%d/%m/%Y"):
        for kind in (column, column.cast(pa.large_string()), column.dictionary_encode()):
            expected = []
            for place in range(len(texts)):
                try:
                    micros_in(kind.slice(place, 1), "at", form)
                except ss.InvalidInputError:
                    expected.append(False)
                else:
                    expected.append(True)
            assert readable_times(kind, form).tolist() == expected


@pytest.mark.parametrize("column", [Column("n", "integer"), Column("n", "boolean"), Column("n", "decimal(2)"), None])
def test_misfits_are_refused_by_the_cast_as_well(column: Any) -> None:
    """One that a cast takes must not be marked: it would be lost."""
    texts = [
        "7",
        "+7",
        "-7.0",
        "7.25",
        ".5",
        "5.",
        "x",
        "",
        "1e3",
        "true",
        "FALSE",
        "0",
        "1",
        "nan",
        " 7",
        "7 ",
        "٣",
        "9" * 30,
    ]
    marked = misfits(pa.array(texts), column)
    for text, wrong in zip(texts, marked, strict=True):
        one = pa.array([text])
        try:
            _ = numbers(one, "n", 1, [0]) if column is None else cast(one, column, [0])  # type: ignore[arg-type]
        except ss.InvalidInputError:
            continue
        assert not wrong, text
    assert marked[texts.index("x")]


@pytest.mark.parametrize("names_its_rows", [True, False])
def test_bad_rows_are_left_out_wherever_they_are(*, names_its_rows: bool) -> None:
    for number in range(6):
        for size in range(number + 1):
            for bad in itertools.combinations(range(number), size):
                _check(number, bad, names_its_rows=names_its_rows)


def _check(number: int, bad: tuple[int, ...], *, names_its_rows: bool) -> None:
    added: list[tuple[list[int], list[int]]] = []
    left: list[int] = []
    calls = 0

    def add(rows: pa.RecordBatch, places: Ints) -> None:
        nonlocal calls
        calls += 1
        values = rows.column("value").to_pylist()
        if wrong := [at for at, value in enumerate(values) if value in bad]:
            if names_its_rows:
                raise BadRowsError("bad", dict.fromkeys(wrong, "bad"))
            raise ss.InvalidInputError("bad")
        if values:
            added.append((places.tolist(), values))

    batch = pa.RecordBatch.from_pydict({"value": pa.array(range(number), pa.int64())})
    count = add_readable(add, batch, lambda place, _: left.append(place))
    kept = [value for _, values in added for value in values]
    assert kept == [value for value in range(number) if value not in bad]
    assert count == len(kept)
    assert left == list(bad)
    assert all(places == values for places, values in added)
    assert not names_its_rows or calls <= 2


def test_each_line_of_json_is_parsed_once_and_bad_ones_are_named() -> None:
    rows: list[Any] = [
        {"item": "tea", "sold": 1},
        {"item": "jam"},
        [],
        {"item": 7, "sold": "x"},
        {"item": "oil", "sold": 2.5},
    ]
    lines = [b"no", *(json.dumps(row).encode() for row in rows), b" ", b'{"item": "\\ud800", "sold": 1}']
    bad: dict[int, str] = {}
    batch = json_batch(lines, "a log", ["item", "sold"], ["item"], 5, on_bad=bad.__setitem__)
    assert batch.column("item").to_pylist() == ["tea", "oil"]
    assert list(bad) == [5, 7, 8, 9, 12]
    assert all(why.startswith(f"line {number} of a log is not a JSON object") for number, why in bad.items())
    with pytest.raises(ss.InvalidInputError, match="line 5 of a log"):
        json_batch(lines, "a log", ["item", "sold"], ["item"], 5)


def test_small_messages_do_not_unpack_to_much() -> None:
    assert most_unpacked(0, 1 << 40) == most_unpacked(1000, 1 << 40) == 1 << 26
    assert most_unpacked(1 << 20, 1 << 40) == 100 << 20
    assert most_unpacked(1 << 30, 1000) == 1000
    word = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1000, np.int32)), pa.array(["x" * 1000]))
    assert unpacked_size(pa.RecordBatch.from_arrays([word], ["a"])) >= 10**6, "as long as its rows are, decoded"
