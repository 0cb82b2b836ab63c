"""Rows of CSV: where they end, and which a strict parser refuses, whatever they hold."""

import csv
import io
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.agreement.casts import Rows
from streamsketch.data.readers.rows import split_rows, strict_until, whole_rows
from streamsketch.intake import BadLines, RowReader
from streamsketch.intake.lines import Lines
from streamsketch.intake.rows import rows_from
from streamsketch.kernels.csv_rows import strict_rows

TEXTS = st.text('",\n\rx;', max_size=30).map(str.encode)


def strict(data: bytes, delimiter: str = ",") -> list[list[str]] | None:
    """Return the rows of a strict parser; None if it refuses the bytes."""
    try:
        return list(csv.reader(io.StringIO(data.decode(), newline=""), delimiter=delimiter, strict=True))
    except csv.Error:
        return None


@given(TEXTS, st.sampled_from(",;"))
def test_a_line_is_a_row_if_a_strict_parser_takes_it_alone(data: bytes, delimiter: str) -> None:
    data += b"\n"
    end = strict_until(data, delimiter)
    good, bad = data[:end].split(b"\n")[:-1], data[end:].split(b"\n")[:-1]
    assert all(len(strict(line + b"\n", delimiter) or []) == 1 for line in good if b"\r" not in line)
    for line in bad[:1]:  # the first one that is refused
        assert strict(line + b"\n", delimiter) is None or b"\r" in line.rstrip(b"\r")


@given(TEXTS, st.sampled_from(",;"))
def test_rows_over_several_lines_are_those_of_a_strict_parser(data: bytes, delimiter: str) -> None:
    data += b"\n"
    end = strict_until(data, delimiter, multiline=True)
    rows = strict(data[:end], delimiter)
    assert rows is not None
    found = list(split_rows(data[:end], delimiter, multiline=True))
    assert b"".join(found) == data[:end]
    if b"\r" not in data:
        assert [strict(row, delimiter) for row in found] == [[row] for row in rows]
        assert (strict(data, delimiter) is None) == (end < len(data))


@given(blocks=st.lists(TEXTS, max_size=4), multiline=st.booleans())
def test_rows_do_not_depend_on_the_borders_of_blocks(blocks: list[bytes], *, multiline: bool) -> None:
    data, rest, found = b"".join(blocks), b"", b""
    for block in [*filter(None, blocks), b""]:  # an empty block marks the end
        whole, rest = whole_rows(rest, block, multiline=multiline, ended=not block)
        found += whole
        if strict_until(found, multiline=multiline) < len(found):  # which ends the reading
            break
        assert multiline or not whole or whole.endswith(b"\n")
    end = strict_until(found, multiline=multiline)
    expected = data if data.endswith(b"\n") or not data else data + b"\n"
    assert end == strict_until(expected, multiline=multiline)
    assert found[:end] == expected[:end]


PIECES = st.lists(st.sampled_from(['"', '""', '"x"', ",", '",', ',"', "x", "\n", '\n"', "\r", "\r\n"]), max_size=16)


@given(PIECES.map("".join), st.sampled_from(",;"))
def test_megabytes_are_read_as_few_bytes_are(text: str, delimiter: str) -> None:
    data = text.replace(",", delimiter).encode() + b"\n"
    for multiline in (False, True):
        end = strict_rows(np.frombuffer(data, np.uint8), ord(delimiter), multiline)
        assert end == strict_until(data, delimiter, multiline=multiline)


@pytest.mark.parametrize("multiline", [False, True])
def test_a_bad_row_is_found_behind_megabytes(*, multiline: bool) -> None:
    good = b'1,"a, ""b"""\r\n,x"y\n' * 80_000
    assert strict_until(good, multiline=multiline) == len(good)
    assert strict_until(good + b'1,"a\nb"\n"', multiline=multiline) == len(good) + 8 * multiline


def _add(found: list[str], batch: pa.RecordBatch, _: int) -> None:
    found += batch.column("item").to_pylist()


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_line_that_is_too_long_is_left_out_up_to_its_newline(form: str, size: int) -> None:
    """Wherever blocks end: the rest of it is no row, whatever it holds."""
    good = [b"a,1\n", b"b,2\n"] if form == "csv" else [b'{"item": "a", "n": 1}\n', b'{"item": "b", "n": 2}\n']
    header = b"item,n\n" if form == "csv" else b""
    for more in (1, 3, 18, 19, 20, 40, 80):
        line = b"x" * more + good[0].strip()  # ends like a row
        data = header + good[0] + line + b"\n" + good[1]
        marked: list[bytes] = []
        found: list[str] = []
        bad = BadLines("skip")
        columns: Any = {"columns": ["item", "n"], "text": ["item", "n"]}
        lines = Lines("the log", form, bad=bad, longest=22, mark=marked.append, **columns)  # type: ignore[arg-type]
        blocks = [data[at : at + size] for at in range(0, len(data), size)]
        for piece in lines.pieces(iter([*blocks, b""])):
            lines.read(piece, partial(_add, found))
        is_short_row = form == "csv" and len(line) <= 22
        assert found == ["a", *([line[:-2].decode()] if is_short_row else []), "b"]
        assert bad.count == (not is_short_row)
        assert b"".join(marked) == data


@pytest.mark.parametrize("size", [1, 2, 1000])
@pytest.mark.parametrize("start", ["\n", "\r\n", "\ufeff\n\r\n"])
def test_empty_lines_before_the_header_are_no_rows(start: str, size: int, tmp_path: Path) -> None:
    """As in whole files whose bad lines are not left out."""
    data = f"{start}item,n\na,1\n\nb,x\n".encode()
    (tmp_path / "rows.csv").write_bytes(data)
    agreement = ss.Agreement(ss.CountSketch(sketch_dim=64, seed=7), index={"item": "text"}, value="n")
    whole = ss.Sketch(agreement)
    with pytest.raises(ss.InvalidInputError, match="not a plain decimal number"):
        RowReader(agreement).read(tmp_path / "rows.csv", lambda batch, _: whole.update_rows(batch))
    found: list[str] = []
    bad = BadLines("skip")
    lines = RowReader(agreement, bad=bad).lines("the log", "csv")
    blocks = [data[at : at + size] for at in range(0, len(data), size)]
    for piece in lines.pieces(iter([*blocks, b""])):
        lines.read(piece, partial(_add, found))
    assert (found, bad.count, lines.position) == (["a", "b"], 0, (4, b"item,n"))


def test_a_row_of_blanks_is_a_row_wherever_pieces_end() -> None:
    columns: Any = {"columns": ["item"], "text": ["item"]}
    for pieces in ([b"item\n \n\t\n"], [b"item\n", b" \n", b"\t\n"]):
        found: list[str] = []
        lines = Lines("the log", "csv", bad=BadLines("skip"), **columns)
        for piece in lines.pieces(iter([*pieces, b""])):
            lines.read(piece, partial(_add, found))
        assert found == [" ", "\t"]


@pytest.mark.parametrize("mode", ["stop", "skip"])
def test_lines_of_json_have_their_numbers_whatever_is_left_out_before_them(mode: str) -> None:
    lines = [b'{"n":"0"}', b"", b'{"n":"2"}', b"no object" if mode == "skip" else b" ", b'{"n":"4"}', b'{"n":"5"}']
    found: list[tuple[list[str], list[int]]] = []
    reader = Lines("a log", "jsonl", ["n"], ["n"], BadLines(mode))

    def add(batch: pa.RecordBatch, first: int | Rows) -> None:
        found.append((batch.column("n").to_pylist(), [*rows_from(first, batch)]))

    reader.read(b"\n".join(lines) + b"\n", add)
    reader.read(b'{"n":"6"}\n', add)
    assert found == [(["0", "2", "4", "5"], [1, 3, 5, 6]), (["6"], [7])]


@pytest.mark.parametrize("left", [b"", b"item,n\ntea,many\n", b"item,n\ntea,ma"])
def test_a_bad_line_is_a_line_of_its_own_after_one_that_was_torn(left: bytes, tmp_path: Path) -> None:
    """As a full disk leaves it: the run that continues adds to the file."""
    kept = tmp_path / "bad.csv"
    kept.write_bytes(left)
    with BadLines(str(kept), append=True) as bad:
        bad.take(b"milk,few\n", "no number", b"item,n")
    whole = left + (b"\n" if left and not left.endswith(b"\n") else b"")
    assert kept.read_bytes() == (whole or b"item,n\n") + b"milk,few\n"
