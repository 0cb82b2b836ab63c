"""Messages become rows: a row that is unsound is dropped alone, and its message is set aside."""

import json
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.utils.timestamp import Timestamp

import streamsketch as ss
from streamsketch.beam.streams import DecodeMessages, encoded_batch

SCHEMA = pa.schema({"key": pa.string(), "amount": pa.int64(), "time": pa.timestamp("us", "UTC")})
MOMENT = Timestamp(60)
Row = tuple[Any, Any, float]


def decoded(message: bytes, **how: Any) -> tuple[list[Row], list[Row], list[bytes]]:
    """Return the rows on time, the late ones, and the messages set aside."""
    given: dict[str, Any] = {"schema": SCHEMA, "time": "time", "size": 60} | how
    on_time, late, malformed = [], [], []
    for element in DecodeMessages(given.pop("schema"), **given)._step.process(message, MOMENT):
        if not isinstance(element, beam.pvalue.TaggedOutput):
            on_time += rows_of(element)
        elif element.tag == "late":
            late += rows_of(element.value.value)
        else:
            malformed.append(element.value.value)
    return on_time, late, malformed


def rows_of(batch: pa.RecordBatch) -> list[Row]:
    batch.validate(full=True)
    return [(row["key"], row["amount"], row["time"].timestamp()) for row in batch.to_pylist()]


def message(keys: Any, amounts: Any, times: Any) -> bytes:
    columns = [keys, amounts, pa.array([at * 10**6 for at in times], pa.timestamp("us", "UTC"))]
    return encoded_batch(pa.RecordBatch.from_arrays([pa.array(one) for one in columns], names=SCHEMA.names))


def text(*values: bytes) -> pa.Array:
    """Return text that may not be UTF-8, as another program may write it."""
    plain = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(plain), plain.buffers())


LINES = [
    json.dumps({"key": key, "amount": amount, "time": time})
    for key, amount, time in [("a", 1, 60_000_000), ("b", 2, "1970-01-01T00:01:01Z"), ("late", 3, 59_000_000)]
]


def test_rows_of_both_formats_are_read_and_late_ones_set_apart() -> None:
    expected = ([("a", 1, 60.0), ("b", 2, 61.0)], [("late", 3, 59.0)], [])
    assert decoded(message(["a", "b", "late"], [1, 2, 3], [60, 61, 59])) == expected
    assert decoded("\n".join(LINES).encode(), format="json") == expected
    assert decoded(b"") == ([], [], []), "a heartbeat"


@pytest.mark.parametrize(
    ("keys", "amounts"),
    [
        (["a", "x", "b"], ["1", "many", "2"]),
        (["a", "x", "b"], [1.0, 1.5, 2.0]),
        (text(b"a", b"\xff", b"b"), [1, 7, 2]),
        (pa.DictionaryArray.from_arrays([0, 2, 1], text(b"a", b"b", b"\xff")), [1, 7, 2]),
        (pa.DictionaryArray.from_arrays([0, 9, 1], text(b"a", b"b"), safe=False), [1, 7, 2]),
    ],
    ids=["a text", "a fraction", "not UTF-8", "a word that is not UTF-8", "a word that is not there"],
)
def test_one_unsound_row_takes_no_other_with_it(keys: Any, amounts: Any) -> None:
    whole = message(keys, amounts, [60, 61, 62])
    assert decoded(whole) == ([("a", 1, 60.0), ("b", 2, 62.0)], [], [whole])


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        "7",
        '{"key": [5], "time": 60000000}',
        '{"key": "c", "amount": 1.5, "time": 60000000}',
        '{"time": "noon"}',
        "[" * 10**5,
    ],
)
def test_one_unsound_line_takes_no_other_with_it(line: str) -> None:
    whole = "\n".join([LINES[0], line, LINES[1]]).encode()
    assert decoded(whole, format="json") == ([("a", 1, 60.0), ("b", 2, 61.0)], [], [whole])
    broken = LINES[0].encode() + b"\n\xff\n"
    assert decoded(broken, format="json") == ([("a", 1, 60.0)], [], [broken])


@pytest.mark.parametrize(
    "whole",
    [
        b"nothing of Arrow's",
        message(["a"], [1], [60])[:-20],
        encoded_batch(pa.RecordBatch.from_pydict({"key": ["a"], "time": [None]})),
        message([[1]], [1], [60]),
    ],
)
def test_a_message_of_another_kind_is_set_aside(whole: bytes) -> None:
    assert decoded(whole) == ([], [], [whole])


def test_the_schema_has_a_time() -> None:
    with pytest.raises(ss.InvalidInputError, match="needs a column 'amount' of Arrow timestamps"):
        DecodeMessages(SCHEMA, time="amount", size=60)
