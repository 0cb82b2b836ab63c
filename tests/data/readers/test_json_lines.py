"""JSON lines read by Arrow, where that is the same, and by Python."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.data.readers import json_lines
from streamsketch.data.readers.json_lines import by_arrow, json_batch, line_by_line

COLUMNS, TEXT = ["key", "index", "value"], ["key", "index"]

# What the two libraries read differently, and what is near it
NUMBERS = ["7", "-0", "007", "1.50", "-0.0", "1e2", "1e-13", "1E+30", "0e99", "9" * 26, "9" * 27, f"0.{'1' * 12}0"]
NUMBERS += [
    f"0.{'1' * 13}",
    f"1.{'0' * 40}",
    "9223372036854775808",
    "NaN",
    "Infinity",
    "-Inf",
    "1e999999999999999999999",
    "1E-999999999999999999999",
    "-",
]
OTHERS = [
    "null",
    "true",
    '"1"',
    '""',
    '"a b"',
    '"2024-01-01"',
    '"é"',
    '"\\u00e9"',
    '"\\ud800"',
    '"\\n"',
    '"a\tb"',
    "[]",
]
OTHERS += ['{"key": 1}', "[[[]]]", '"{"', '"}"', '"value": 1', "", '"\x00"', '"\x7f"', '"\ufeff"', "\x0b", '"' * 3]
NAMES = [*COLUMNS, "other", "k\\u0065y", "Key", ""]


@st.composite
def objects(draw: st.DrawFn) -> str:
    plain = draw(st.booleans())
    if plain:
        key, number = draw(st.sampled_from(['"a"', '"7"', "7", "-3", '"ß"'])), draw(st.sampled_from(NUMBERS[:4]))
        fields = [("key", key), ("index", '"x"'), ("value", number)]
    else:
        fields = draw(st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NUMBERS + OTHERS)), max_size=5))
    space = draw(st.sampled_from(["", " ", "\t", "\r", "\x0b", "\n"]))
    return "{" + ",".join(f'"{name}"{space}:{space}{value}' for name, value in fields) + "}"


def pieces() -> st.SearchStrategy[bytes]:
    junk = st.sampled_from(
        ["", " ", "\r", "\x0b", "\x0c", "{", "}", "{}", "[]", "1", "\ufeff", "\x00", ",", "//", '"', "\\"]
    )
    parts = st.lists(objects() | junk, max_size=4).map("".join)
    return st.lists(objects() | parts, max_size=6).map(lambda lines: "\n".join(lines).encode("utf-8", "surrogatepass"))


def read(how: Any, *arguments: Any) -> Any:
    try:
        return how(*arguments)
    except ss.InvalidInputError as error:
        return str(error)


@given(pieces())
@settings(max_examples=4 * settings.default.max_examples)
def test_arrow_reads_what_python_reads_or_nothing(data: bytes) -> None:
    for lines in (data.split(b"\n"), data.replace(b'"a"', b'"\xff"').split(b"\n")):
        found = by_arrow(lines, COLUMNS, TEXT)
        if found is not None:
            assert found.equals(line_by_line(lines, "a file", COLUMNS, TEXT, 1))
        both = (json_batch, line_by_line)
        assert read(both[0], lines, "a file", COLUMNS, TEXT, 1) == read(both[1], lines, "a file", COLUMNS, TEXT, 1)


@pytest.mark.parametrize("value", [*NUMBERS, *OTHERS])
@pytest.mark.parametrize("name", ["key", "value", "other"])
def test_every_value_is_read_alike(name: str, value: str) -> None:
    fields = {"key": '"a"', "index": "5", "value": "1.5", "other": "0"}
    for sample in ({**fields, name: value}, {"other": "{}", **fields, name: value}):
        good = ",".join(f'"{field}": {text}' for field, text in fields.items())
        bad = ",".join(f'"{field}": {text}' for field, text in sample.items())
        for text in (f"{{{bad}}}\n{{{good}}}", f"{{{good}}}\n{{{bad}}}", f"{{{good},{bad}}}", f"{{{bad}}}{{{good}}}\n"):
            lines = text.encode().split(b"\n")
            found = by_arrow(lines, COLUMNS, TEXT)
            assert found is None or found.equals(read(line_by_line, lines, "a file", COLUMNS, TEXT, 1))


@pytest.mark.parametrize("around", ["", " ", "\t", "\r", "\x0b", "\x0c", "\xa0", "\ufeff"])
def test_what_is_around_an_object_is_judged_beside_any_other_line(around: str) -> None:
    good = '{"key": "a", "index": "5", "value": 1.5}'
    behind = "" if around == "\ufeff" else around
    line, odd = f"{around}{good}{behind}".encode(), f"{around}{good} {behind}".encode()
    for lines in ([line], [odd], [line, good.encode()]):
        beside = [*lines, good.replace("5", "\\u0035").encode()]
        together = json_batch(beside, "a file", COLUMNS, TEXT, on_bad=lambda *_: None).num_rows
        alone = [json_batch([one], "a file", COLUMNS, TEXT, on_bad=lambda *_: None).num_rows for one in beside]
        assert together == sum(alone)


def test_plain_lines_are_arrows(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"key": f"k{place}", "more": None, "index": place, "value": place / 4} for place in range(1000)]
    lines = [json.dumps(row).encode() for row in rows]
    expected = line_by_line(lines, "a file", COLUMNS, TEXT, 1)
    monkeypatch.setattr(json_lines, "line_by_line", None)
    assert json_batch([*lines, b"", b" \r"], "a file", COLUMNS, TEXT).equals(expected)
    assert expected.schema.field("index").type == pa.string()
