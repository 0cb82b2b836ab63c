"""Equal tables give equal sketches, also where bytes that belong together lie on a border of a reader's blocks."""

import bz2
import gzip
import io
import itertools
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.beam import read_batches
from streamsketch.data.readers import opening
from streamsketch.data.readers.rows import pieces_of_rows
from streamsketch.intake import BadLines, Log, RowReader
from streamsketch.intake.lines import pipe_blocks

BLOCK = 16
TEXTS = ["a\r\nb", '""', 'x"y', "é", "漢字", "😀", "a\nb", "a\r\rb", "comma, quoted", "\ufeff"]
AGREEMENT = ss.Agreement.of(ss.CountSketch(sketch_dim=256, seed=5), index="note", value="n")
AGREED = ss.Agreement(ss.CountSketch(sketch_dim=256, seed=5), index={"note": "text"}, value="n", missing="drop")


def zst(data: bytes) -> bytes:
    return bytes(pa.compress(data, "zstd", asbytes=True))


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": zst,
}


def csv_of(rows: list[tuple[str, int]], end: str) -> bytes:
    """Return rows as CSV with quotes, but for a byte order mark, which then begins its row."""
    quoted = ["\ufeff" if note == "\ufeff" else '"' + note.replace('"', '""') + '"' for note, _ in rows]
    lines = ["note,n", *(f"{note},{n}" for note, (_, n) in zip(quoted, rows, strict=True))]
    return end.join([*lines, ""]).encode()


def lines_of(rows: list[tuple[str, int]], end: str) -> bytes:
    return "".join(json.dumps({"note": note, "n": n}, ensure_ascii=False) + end for note, n in rows).encode()


def table_of(rows: list[tuple[str, int]], agreement: ss.Agreement) -> ss.Sketch:
    found = ss.Sketch(agreement)
    found.update_rows(pa.table({"note": [note for note, _ in rows], "n": [n for _, n in rows]}))
    return found


def by_reader(path: Path, agreement: ss.Agreement, **options: Any) -> ss.Sketch:
    found = ss.Sketch(agreement)
    RowReader(agreement, block_bytes=BLOCK, **options).read(path, lambda batch, _: found.update_rows(batch))
    return found


def by_lenient_reader(path: Path, agreement: ss.Agreement) -> ss.Sketch:
    with BadLines("skip") as bad:
        found = by_reader(path, agreement, bad=bad)
    assert not bad.count
    return found


def by_pipe(path: Path, agreement: ss.Agreement) -> ss.Sketch:
    """Read the bytes as standard input is read, in blocks as they were written."""
    found, reader = ss.Sketch(agreement), RowReader(agreement)
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb", buffering=0) as pipe:
            data = path.read_bytes()
            for start in range(0, len(data), BLOCK):
                pipe.write(data[start : start + BLOCK])

    thread = threading.Thread(target=write)
    thread.start()
    lines = reader.lines("standard input", "csv" if ".csv" in path.name else "jsonl", is_whole=True)
    for piece in lines.pieces(reader.transcoded(_each(reading), "standard input")):
        lines.read(piece, lambda batch, _: found.update_rows(batch))
    thread.join()
    os.close(reading)
    return found


def _each(descriptor: int) -> Iterator[bytes | None]:
    """Yield blocks of a pipe, cut to the size of a block, which the system may have joined."""
    for block in pipe_blocks(descriptor):
        assert block is not None
        yield from [block[start : start + BLOCK] for start in range(0, len(block), BLOCK)] or [b""]


def by_log(path: Path, agreement: ss.Agreement) -> ss.Sketch:
    found, reader = ss.Sketch(agreement), RowReader(agreement, block_bytes=BLOCK)
    with path.open("rb") as file, Log(file, reader, "csv" if ".csv" in path.name else "jsonl") as log:
        for piece in log.pieces():
            log.read(piece, lambda batch, _: found.update_rows(batch))
    return found


def by_beam(path: Path, agreement: ss.Agreement) -> ss.Sketch:
    found = ss.Sketch(agreement)
    for batch in read_batches([str(path)], agreement):
        found.update_rows(batch)
    return found


ALL = {"reader": by_reader, "lenient": by_lenient_reader, "beam": by_beam}
UNPACKED = ALL | {"pipe": by_pipe, "log": by_log}
FORMS = {"csv": csv_of, "jsonl": lines_of}
ENDS = ["\n", "\r\n"]
EVERY = list(itertools.product(range(BLOCK), ENDS))  # so that each byte of each text ends a block and begins one
ALTERNATING = [(shift, ENDS[shift % 2]) for shift in range(BLOCK)]
PLACES = [(form, packed, reader) for form in FORMS for packed in PACKED for reader in (ALL if packed else UNPACKED)]


@pytest.mark.parametrize(
    ("form", "packed", "reader", "worlds"),
    [
        *((*place, ALTERNATING[:: 5 if place[1] else 1]) for place in PLACES),  # what was unpacked goes the same way
        *(pytest.param(*place, EVERY, marks=pytest.mark.long) for place in PLACES),
    ],
    ids=lambda one: str(len(one) if isinstance(one, list) else one),
)
def test_rows_do_not_depend_on_where_blocks_end(
    form: str, packed: str, reader: str, worlds: list[tuple[int, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "_READ_BYTES", BLOCK)  # of Beam, which has no parameter for it
    path = tmp_path / f"notes.{form}{packed}"
    read: Callable[..., ss.Sketch] = UNPACKED[reader]
    # a record of a log ends with its line
    texts = [text for text in TEXTS if (reader, form) != ("log", "csv") or not set(text) & set("\r\n")]
    for shift, end in worlds:
        agreement = AGREED if shift // 2 % 2 else AGREEMENT
        start, has_end = (b"", True) if end == "\n" else (b"\xef\xbb\xbf", reader in ("log", "pipe"))
        rows = [("z" * shift, 3), *((text, place) for place, text in enumerate(texts, 1))]
        data = start + FORMS[form](rows, end)
        path.write_bytes(PACKED[packed](data if has_end else data.removesuffix(end.encode())))
        assert read(path, agreement) == table_of(rows, agreement), (shift, end)


@pytest.mark.parametrize("shift", range(-1, 2))
@pytest.mark.parametrize(("name", "bits"), [("notes.csv", 20), ("notes.csv", 22), ("notes.csv.gz", 22)])
def test_a_line_end_in_quotes_keeps_both_bytes_on_the_border_of_a_block_of_the_default_size(
    name: str, bits: int, shift: int, tmp_path: Path
) -> None:
    rows = [("z" * ((1 << bits) - len(b'note,n\n"') - 1 + shift) + "\r\nsecond line", 3), ("plain", 1)]
    data = csv_of(rows, "\n")
    (tmp_path / name).write_bytes(gzip.compress(data, 1) if name.endswith("gz") else data)
    found = ss.Sketch(AGREEMENT)
    RowReader(AGREEMENT).read(tmp_path / name, lambda batch, _: found.update_rows(batch))
    assert found == table_of(rows, AGREEMENT)
    assert by_beam(tmp_path / name, AGREEMENT) == table_of(rows, AGREEMENT)


@pytest.mark.parametrize("multiline", [False, True])
def test_a_row_without_an_end_takes_no_memory_without_a_bound(*, multiline: bool) -> None:
    class Endless(io.RawIOBase):
        start = b'"' if multiline else b""

        def read(self, size: int = -1) -> bytes:
            start, self.start = self.start, b""
            return start + b"z" * (size - len(start))

    says = "more than 16,777,216 bytes, the limit" + ("; if a quote is not closed" if multiline else "$")
    with pytest.raises(ss.InvalidInputError, match=says):
        list(pieces_of_rows(Endless(), "x.csv", ",", 1 << 22, multiline=multiline))
