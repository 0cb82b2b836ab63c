"""Messages become rows: a row that is unsound is dropped alone, and its message is set aside."""

import json
import struct
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp

import streamsketch as ss
from streamsketch.beam import TumblingWindows
from streamsketch.beam.streams import DecodeMessages, encoded_batch
from streamsketch.data.windows import Tumbling
from streamsketch.intake import Intake
from streamsketch.intake.clock import AheadLimit
from tests.beam.streams.prism import BASE, MINUTE, log, run, with_minute

COUNTS = ss.Agreement(
    ss.SJLT(sketch_dim=64, sparsity=4, seed=7), key="key", index={"amount": "integer"}, missing="refuse"
)
NAMES = [*COUNTS.names, "time"]
MOMENT = Timestamp(60)
Row = tuple[Any, Any, float]


def decoded(message: bytes, **how: Any) -> tuple[list[Row], list[Row], list[bytes]]:
    """Return the rows on time, the late ones, and the messages set aside."""
    given: dict[str, Any] = {"time": "time", "size": 60} | how
    on_time, late, malformed = [], [], []
    for element in elements_of(DecodeMessages(COUNTS, **given), message):
        if not isinstance(element, beam.pvalue.TaggedOutput):
            on_time += rows_of(element.value)
        elif element.tag == "late":
            late += rows_of(element.value.value)
        else:
            malformed.append(element.value.value)
    return on_time, late, malformed


def elements_of(decode: DecodeMessages, message: bytes) -> list[Any]:
    """Return what comes of a bundle with one message."""
    decode._step.start_bundle()
    return [*decode._step.process(message, MOMENT), *decode._step.finish_bundle()]


def rows_of(batch: pa.RecordBatch) -> list[Row]:
    batch.validate(full=True)
    return [(row["key"], row["amount"], row["time"].timestamp()) for row in batch.to_pylist()]


def message(keys: Any, amounts: Any, times: Any) -> bytes:
    columns = [keys, amounts, pa.array([at * 10**6 for at in times], pa.timestamp("us", "UTC"))]
    return encoded_batch(pa.RecordBatch.from_arrays([pa.array(one) for one in columns], names=NAMES))


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


def test_a_row_is_judged_by_its_own_time_and_the_watermark_before_its_message() -> None:
    """So no other row of the message has a say, nor has the time of the message."""
    limit = AheadLimit(Tumbling(60 * 10**6), 2)
    rows = ["over", "open", "now", "reach", "far"], [1, 2, 3, 4, 5], [59, 60, 119, 264, 265]
    for moment, late, ahead in ((Timestamp(119), ["over"], ["far"]), (MIN_TIMESTAMP, [], [])):
        step = DecodeMessages(COUNTS, time="time", size=60, delay=25, limit=limit)._step
        step.start_bundle()
        found = list(step.process(message(*rows), moment))
        kept, *others = found
        assert kept.timestamp == moment
        tagged = {one.tag: [row[0] for row in rows_of(one.value.value)] for one in others}
        assert tagged == {tag: keys for tag, keys in (("late", late), ("malformed", ahead)) if keys}
        assert [row[0] for row in rows_of(kept.value)] == [key for key in rows[0] if key not in [*late, *ahead]]


def test_json_is_decoded_together_and_each_message_that_has_unsound_rows_is_set_aside_once() -> None:
    step = DecodeMessages(COUNTS, time="time", size=60, format="json")._step
    step.start_bundle()
    sound = [line.encode() for line in LINES[:2]]
    spoilt = b'{"key": "c", "amount": 1.5, "time": 60}\n' + LINES[0].encode() + b'\n{"key": '
    for content in [*sound, spoilt, *sound]:
        assert list(step.process(content, MOMENT)) == []
    elements = list(step.finish_bundle())
    together = [rows_of(one.value) for one in elements if not isinstance(one, beam.pvalue.TaggedOutput)]
    assert sorted(row[0] for rows in together for row in rows) == ["a", "a", "a", "b", "b"]
    assert len(together) < 5
    assert [one.value.value for one in elements if isinstance(one, beam.pvalue.TaggedOutput)] == [spoilt]


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


WORDS = [f"w{number}" for number in range(77)]


def words_message(count: int = 77, *, compression: str | None = None) -> bytes:
    codes = pa.array([place % 77 for place in range(count)], pa.int8())
    batch = pa.RecordBatch.from_arrays(
        [
            pa.DictionaryArray.from_arrays(codes, WORDS),
            *(pa.array([70 * 10**6] * count, kind) for kind in (pa.int64(), pa.timestamp("us", "UTC"))),
        ],
        NAMES,
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


@pytest.mark.parametrize("length", [-1, -77, -(1 << 63), 78, 1 << 40, (1 << 63) - 1])
def test_a_dictionary_of_another_length_than_its_words_does_not_end_the_stream(length: int) -> None:
    """Arrow takes negative lengths, and Python's ``len`` of such an array is a ``SystemError``."""
    sound = words_message(76)
    assert len(decoded(sound)[0]) == 76
    bad = sound.replace(struct.pack("<q", 77), struct.pack("<q", length))
    assert decoded(bad) == ([], [], [bad])


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_a_message_unpacks_to_no_more_than_the_limit(compression: str) -> None:
    sound = words_message(20_000, compression=compression)
    assert len(sound) < 100_000
    assert len(decoded(sound)[0]) == 20_000
    with ss.limits.reading_limits(max_bytes=200_000):
        assert decoded(sound) == ([], [], [sound])


def test_few_bytes_that_stand_for_many_are_set_aside() -> None:
    """A long word that each row names, and rows of nulls alone, which take nothing."""
    times = pa.array([70 * 10**6] * 10_000, pa.timestamp("us", "UTC"))
    long = pa.DictionaryArray.from_arrays(np.zeros(10_000, np.int8), pa.array(["w" * 10_000], pa.large_string()))
    columns = [long, pa.array([1] * 10_000), times]
    nulls = pa.RecordBatch.from_arrays([pa.nulls(1 << 30)] * 3, NAMES)
    for batch in (pa.RecordBatch.from_arrays(columns, NAMES), nulls):
        bomb = encoded_batch(batch)
        assert len(bomb) < 1 << 18
        with ss.limits.reading_limits(max_bytes=1 << 24):
            assert decoded(bomb) == ([], [], [bomb])


# --- under an agreement ---------------------------------------------------------------------------------------------

PROJECTION = ss.SJLT(sketch_dim=64, sparsity=4, seed=7, resolution="1/100")
AGREEMENT = ss.Agreement(
    PROJECTION,
    key="key",
    index={"price": "decimal(2)"},
    value="paid",
    unit="unit",
    neighbours=ss.L1(10),
    missing="drop",
)


def agreed_rows(message: bytes, agreement: ss.Agreement = AGREEMENT, **how: Any) -> tuple[list[Any], int]:
    """Return the rows as an agreement casts them, and how many messages are set aside."""
    found, aside = [], 0
    for element in elements_of(DecodeMessages(agreement, time="time", size=60, **how), message):
        if isinstance(element, beam.pvalue.TaggedOutput):
            aside += 1
        else:
            assert element.value.equals(Intake(agreement).cast(element.value)), "it is cast once"
            found += [(row["key"], row["price"], row["time"].timestamp()) for row in element.value.to_pylist()]
    return found, aside


ROWS = [  # key, price, paid, unit, time
    {"key": "a", "price": 0.29, "paid": 1.5, "unit": "u", "time": 61},
    {"key": None, "price": 0.5, "paid": 1.0, "unit": "u", "time": 62},
    {"key": "b", "price": 0.07, "paid": 2.0, "unit": "v", "time": 63},
    {"key": "c", "price": 0.001, "paid": 2.0, "unit": "v", "time": 64},
    {"key": "d", "price": 1.0, "paid": 2.0, "unit": "v", "time": 65},
]
GOOD = [("a", 29, 61.0), ("b", 7, 63.0), ("d", 100, 65.0)]


@pytest.mark.parametrize("form", ["arrow", "json"])
def test_rows_that_break_an_agreement_fall_alone_and_times_stay_with_theirs(form: Any) -> None:
    stamped = [row | {"time": row["time"] * 10**6} for row in ROWS]
    table = pa.RecordBatch.from_pylist(stamped)
    typed = table.set_column(4, "time", table.column("time").cast(pa.timestamp("us")))
    whole = encoded_batch(typed) if form == "arrow" else "\n".join(map(json.dumps, stamped)).encode()
    found, aside = agreed_rows(whole, format=form)
    assert (sorted(found), aside) == (GOOD, 1)
    refusing = AGREEMENT.replace(missing="refuse")
    found, aside = agreed_rows(whole, refusing, format=form)
    assert (sorted(found), aside) == (GOOD, 1)


def test_a_row_in_which_something_is_missing_is_dropped_where_that_is_agreed() -> None:
    whole = json.dumps(ROWS[1]).encode()
    assert agreed_rows(whole, format="json") == ([], 0)
    assert agreed_rows(whole, AGREEMENT.replace(missing="refuse"), format="json") == ([], 1)


def test_a_message_cannot_say_that_it_was_cast() -> None:
    rows = {
        "key": ["a"],
        "price": [0.29],
        "paid": [1.5],
        "unit": ["u"],
        "time": pa.array([61 * 10**6], pa.timestamp("us")),
    }
    table = pa.RecordBatch.from_pydict(rows)
    metadata = Intake(AGREEMENT).cast(table).schema.metadata
    assert agreed_rows(encoded_batch(table.replace_schema_metadata(metadata))) == (GOOD[:1], 0)


def test_an_agreed_time_is_a_timestamp() -> None:
    by_time = AGREEMENT.replace(index={"price": "decimal(2)", "time": "timestamp"})
    rows = pa.RecordBatch.from_pylist([ROWS[0] | {"time": 61 * 10**6}])
    rows = rows.set_column(4, "time", rows.column("time").cast(pa.timestamp("us", "UTC")))
    (element,) = elements_of(DecodeMessages(by_time, time="time", size=60), encoded_batch(rows))
    batch = element.value
    assert batch.schema.names == by_time.names
    for wrong in (AGREEMENT.replace(index={"time": "date"}), AGREEMENT.replace(value="time")):
        with pytest.raises(ss.InvalidInputError, match="the column 'time' must hold times"):
            DecodeMessages(wrong, time="time", size=60)


def test_rows_of_json_reach_their_windows(prism: list[str], tmp_path: Path) -> None:
    lines = [
        (at, json.dumps({"key": "a", "amount": at, "time": (BASE + at) * 10**6}).encode()) for at in range(0, 180, 7)
    ]
    spoilt = b'{"key": "b", "amount": 1.5, "time": 1}'

    def build(pipeline: beam.Pipeline) -> dict[str, beam.PCollection]:
        decode = DecodeMessages(COUNTS, time="time", size=MINUTE, format="json")
        batches, late, malformed = pipeline | log([*lines, (181, spoilt)], 0) | decode
        rows = batches | TumblingWindows(MINUTE, column="time") | beam.FlatMap(rows_of)
        return {
            "rows": rows | beam.Map(lambda row: ("", row[1])) | beam.Map(with_minute),
            "late": late,
            "bad": malformed,
        }

    found = run(prism, build, tmp_path / "out")
    assert sorted((start, amount) for _, start, amount in found["rows"]) == [
        (at // MINUTE * MINUTE, at) for at, _ in lines
    ]
    assert found["late"] == []
    assert found["bad"] == [spoilt]
