"""Rows of JSON that are read together are those that are read one by one."""

import json
import random
from typing import Any

import pyarrow as pa
import pytest
from apache_beam.pvalue import TaggedOutput
from apache_beam.utils.timestamp import Timestamp

from streamsketch import SJLT, Agreement
from streamsketch.beam.streams import DecodeMessages
from streamsketch.beam.streams.messages import plain_types, read_plain
from streamsketch.intake import Intake
from streamsketch.jobs.payloads import Malformed, Message, Payloads

PROJECTION = SJLT(sketch_dim=64, sparsity=4, seed=7)
AGREEMENT = Agreement(PROJECTION, key="unit", index="unit", value="value", missing="drop")
INTEGERS = Agreement(PROJECTION, key="unit", index={"value": "integer"}, missing="refuse")
TIME = b'"time":60000000'
PLAIN = [b'{"unit":"a","value":1,' + TIME + b"}", b'{"unit":"\\u00e9","value":-0,"x":"y",' + TIME + b"}"]
ODD = [
    *(
        b'{"unit":"b","value":%s,%s}' % (value, TIME)
        for value in (b"1.0", b'"1"', b"null", b"true", b"1e2", b"-", b"01")
    ),
    *(
        b'{"unit":%s,"value":3,%s}' % (unit, TIME)
        for unit in (b"5", b'"\\ud800"', b'"\xff"', b'"\\x"', b'"a{b"', b'"[c"')
    ),
    *(
        b'{"x":%s,"value":4,%s}' % (other, TIME)
        for other in (b"NaN", b"Inf", b'"\xff"', b"[1]", b"{}", b"nul", b"1e999")
    ),
    b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"," + TIME + b"}",
    b'{"x":' + b"1" * 5000 + b',"unit":"long",' + TIME + b"}",
    b'{"unit":"c","unit":"d","value":5,' + TIME + b"}",
    PLAIN[0] + PLAIN[0],
    PLAIN[0] + b" " + PLAIN[0],
    PLAIN[0] + b"," + PLAIN[0],
    PLAIN[0] + b"\0",
    b'{"unit":"opens","value":6,' + TIME + b',"x":{}',
    b'{"unit":"e","x":"open}',
    b'open","value":7}',
    b'{"x":[{}',
    b"{}]}",
    b"{}",
    b"7",
    b"",
    b" " + PLAIN[0] + b"\r",
    b"\xef\xbb\xbf" + PLAIN[0],
    b'{"unit":"late","value":8,"time":1}',
    b'{"unit":"f","value":8,"time":"1970-01-01T00:01:02Z"}',
    b'{"unit":"g","value":9223372036854775808,' + TIME + b"}",
    b'{"unit":null,"value":10,"time":null}',
    PLAIN[0] + b"\n" + PLAIN[1] + b"\n7",
]


def decoded(messages: list[bytes], agreement: Agreement, *, together: bool) -> list[str]:
    step = DecodeMessages(agreement, time="time", size=60, format="json")._step
    if not together:
        step._plain = None
    step.start_bundle()
    found = []
    for one in [*step.process(messages, Timestamp(60)), *step.finish_bundle()]:
        tag, timed = (one.tag, one.value) if isinstance(one, TaggedOutput) else ("", one)
        rows = timed.value.to_pylist() if isinstance(timed.value, pa.RecordBatch) else [timed.value]
        found += [f"{tag} {row}" for row in rows]
    return sorted(found)


@pytest.mark.parametrize("agreement", [INTEGERS, AGREEMENT])
@pytest.mark.parametrize("seed", range(40))
def test_whatever_stands_beside_a_row_it_is_read_as_if_it_were_alone(seed: int, agreement: Agreement) -> None:
    picked = random.Random(seed)  # noqa: S311 - which lines a test takes
    lines = [
        bytes(bytearray(line)) for line in picked.choices(PLAIN, k=4) + picked.choices(ODD, k=seed % 4)
    ]  # each its own
    picked.shuffle(lines)
    alone = sorted(row for line in lines for row in decoded([line], agreement, together=False))
    assert decoded(lines, agreement, together=True) == alone


@pytest.mark.parametrize("line", ODD)
def test_a_line_is_the_same_alone_and_among_plain_ones(line: bytes) -> None:
    lines = [*PLAIN, line, *PLAIN]
    assert decoded(lines, INTEGERS, together=True) == decoded(lines, INTEGERS, together=False)


def test_plain_rows_are_read_together() -> None:
    types = plain_types(INTEGERS, "time")
    assert types is not None
    found = read_plain(PLAIN * 3, types)
    assert found is not None and found.num_rows == 6  # noqa: PT018 - a type guard


def test_columns_of_other_types_are_read_row_by_row() -> None:
    assert plain_types(AGREEMENT.replace(index={"share": "decimal(2)"}), "time") is None


CELLS = ["7", "7.0", "7.50", "1e2", "true", "false", '"7"', '"7.0"', "-0", "0.29", "0.1234567890123", "1e400", "1E-7"]


@pytest.mark.parametrize("kind", ["text", "integer", "decimal(2)"])
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("name", ["item", "sold"])
def test_a_row_of_json_is_the_same_on_one_machine(name: str, cell: str, kind: str) -> None:
    agreement = Agreement(
        PROJECTION.replace(resolution="1/100"), key="shop", index={"item": kind}, value="sold", missing="drop"
    )
    fields = {"shop": '"n"', "item": '"7"', "sold": "3", "at": '"1970-01-01T00:01:00.123456789Z"'} | {name: cell}
    message = f"{{{', '.join(f'{json.dumps(one)}: {text}' for one, text in fields.items())}}}".encode()
    step = DecodeMessages(agreement, time="at", size=60, format="json")._step
    step.start_bundle()
    on_beam, alone = list[Any](), list[Any]()

    def add(rows: pa.RecordBatch, found: list[Any]) -> None:
        events = Intake(agreement).read(rows)
        found += zip(events.indices.tolist(), events.steps.tolist(), strict=True)

    for one in [*step.process([message], Timestamp(60)), *step.finish_bundle()]:
        if not isinstance(one, TaggedOutput):
            add(one.value, on_beam)
    Payloads(agreement, "at", "json", Malformed(None)).add(
        0, [Message(0, 0, message)], lambda rows, _: add(rows, alone)
    )
    assert on_beam == alone
