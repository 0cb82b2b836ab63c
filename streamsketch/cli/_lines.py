"""Lines of CSV or JSON as batches of events, also where some of the lines are bad."""

import codecs
import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

import streamsketch as ss
from streamsketch.core import write_whole
from streamsketch.data import csv_header, csv_piece, json_batch

LONGEST_LINE = 1 << 24


class BadLines:
    """What becomes of lines that cannot be read: they end the reading, or are left out and counted, or kept in a file.

    Parameters
    ----------
    how
        ``stop``, ``skip`` or the name of a new file, for its owner's eyes only.
    more
        Whether a file that is there is added to.
    """

    def __init__(self, how: str, *, more: bool = False) -> None:
        self.stops = how == "stop"
        self.count = 0
        self.path = None if how in ("stop", "skip") else Path(how)
        if self.path is not None and self.path.exists() and not more:
            raise ss.InvalidInputError(f"{self.path} already exists; bad lines are written to a new file")

    def __enter__(self) -> Self:
        if self.path is not None:
            if not self.path.exists():
                write_whole(self.path, b"", secret=True)
            self._file = self.path.open("ab", buffering=0)
        return self

    def __exit__(self, *_: object) -> None:
        if self.path is not None:
            empty = not self._file.tell()
            self._file.close()
            if empty:
                self.path.unlink(missing_ok=True)

    def take(self, line: bytes, why: str, header: bytes = b"") -> None:
        """Take a bad line, or raise `InvalidInputError`; a file of them begins with the header of CSV."""
        if self.stops:
            raise ss.InvalidInputError(why)
        if self.path is not None:
            self._file.write(
                (header + b"\n" if header and not self._file.tell() else b"") + line.removesuffix(b"\n") + b"\n"
            )
        self.count += 1

    def __str__(self) -> str:
        kept = "left out" if self.path is None else f"left out, kept in {self.path}, secret"
        return f"{self.count:,} bad line{'' if self.count == 1 else 's'} {kept}"


@dataclass
class Lines:
    """How the lines of a stream are read.

    Parameters
    ----------
    name
        Of the stream, for errors.
    form
        ``csv`` or ``jsonl``.
    columns, text
        The columns to read, and those of them that are text.
    bad
        What becomes of lines that cannot be read.
    delimiter
        Of CSV.
    any_text
        Whether JSON's numbers, booleans and nulls are text, too, for an agreement to cast.
    """

    name: str
    form: str
    columns: list[str]
    text: list[str]
    bad: BadLines
    delimiter: str = ","
    any_text: bool = False
    mark: Callable[[bytes], None] | None = None
    """Gets the bytes of all whole lines, as they are yielded."""
    _first: bytes = b""
    _header: list[str] | None = None
    _number: int = field(default=1)
    """Of the next line; in CSV, of the next row that is not empty."""

    def pieces(self, blocks: Iterator[bytes | None]) -> Iterator[bytes]:
        """Yield whole lines, as the blocks of a stream bring them, without the header; none where none came.

        The last block is empty; where it does not come, a line that is not finished is not taken.
        """
        rest, ended = b"", False
        while not ended:
            try:
                block = next(blocks)
            except StopIteration:
                return
            if block is None:
                yield b""
                continue
            ended = not block
            data = rest + block
            whole, rest = whole_lines(data, self.form, self.delimiter, ended=ended)
            while len(rest) > LONGEST_LINE:
                line, _, after = rest.partition(b"\n")
                why = f"{self._place} of {self.name} is longer than {LONGEST_LINE:,} bytes"
                self._refuse(line, why)
                whole, rest = whole_lines(after, self.form, self.delimiter, ended=ended)
            if self.mark is not None:
                self.mark(data[: len(data) - len(rest)])
            if self._number == 1:
                whole = whole.removeprefix(codecs.BOM_UTF8)
            if self.form == "csv" and self._header is None and whole:
                first, _, whole = whole.partition(b"\n")
                self.go_on(2, first)
            yield whole
        if self.form == "csv" and self._header is None:  # what should have written it failed
            raise ss.InvalidInputError(f"{self.name} ended before its header line")

    @property
    def place(self) -> tuple[int, bytes]:
        """The number of the next line, and the header of CSV: what `go_on` takes."""
        return self._number, self._first

    def go_on(self, number: int, header: bytes) -> None:
        """Go on from a line that is not the first."""
        if self.form == "csv" and header:
            self._header = csv_header(header, self.name, self.columns, self.delimiter)
        self._number, self._first = number, header

    def add(self, data: bytes, add: Callable[[pa.RecordBatch, int], None]) -> None:
        """Pass the events of whole lines on, all together if possible, and without the bad ones if not.

        ``add`` takes a batch and the number of its first line; it must change nothing when it raises
        `InvalidInputError`.
        """
        if not data.strip():
            self._number += data.count(b"\n") if self.form == "jsonl" else 0
            return
        waiting = [[data]]  # parts that follow each other, the first one last
        while waiting:
            part = waiting.pop()
            whole = b"".join(part)
            try:
                batch = self._read(whole)
            except ss.InvalidInputError as error:
                why = str(error)
            else:
                try:
                    add(batch, self._number)
                except ss.InvalidInputError as error:
                    why = f"{self._place} of {self.name}: {error}"
                else:
                    self._number += batch.num_rows if self.form == "csv" else whole.count(b"\n")
                    continue
            if part == [data]:
                part = rows(data, self.form, self.delimiter)
            if len(part) > 1:
                waiting += [part[len(part) // 2 :], part[: len(part) // 2]]
                continue
            line, end, after = whole.partition(b"\n")
            if after and is_open(whole, self.form, self.delimiter):
                waiting += [rows(after, self.form, self.delimiter)]
                whole = line + end
            self._refuse(whole, why)

    def _read(self, data: bytes) -> pa.RecordBatch:
        if self._header is None:
            lines = data.split(b"\n")
            return json_batch(lines, self.name, self.columns, self.text, self._number, any_text=self.any_text)
        return csv_piece(
            data, self._header, self.name, self.columns, self.text, delimiter=self.delimiter, first=self._number
        )

    @property
    def _place(self) -> str:
        return f"{'row' if self.form == 'csv' else 'line'} {self._number:,}"

    def _refuse(self, line: bytes, why: str) -> None:
        self.bad.take(line, why, self._first)
        self._number += 1


def whole_lines(data: bytes, form: str, delimiter: str = ",", *, ended: bool) -> tuple[bytes, bytes]:
    """Split off what follows the last line that is whole: in CSV, one whose quotes are closed."""
    if ended:
        return data if data.endswith(b"\n") or not data else data + b"\n", b""
    end = after = 0
    if form == "csv" and b'"' in data:
        for quoted in _quoted(delimiter).finditer(data):
            end = max(end, data.rfind(b"\n", after, quoted.start()) + 1)
            after = quoted.end()
    end = max(end, data.rfind(b"\n", after) + 1)
    return data[:end], data[end:]


def rows(data: bytes, form: str, delimiter: str = ",") -> list[bytes]:
    """Return whole lines one by one, each with its end: in CSV, those within quotes belong to their row."""
    if form != "csv":
        return data.splitlines(keepends=True) if b"\r" not in data else [one + b"\n" for one in data.split(b"\n")[:-1]]
    found, start, after = [], 0, 0
    for first, last in [*(one.span() for one in _quoted(delimiter).finditer(data)), (len(data), len(data))]:
        while (end := data.find(b"\n", after, first)) >= 0:
            found.append(data[start : end + 1])
            start = after = end + 1
        after = last
    found.append(data[start:])
    return [row for row in found if row.strip(b"\r\n")]


def is_open(row: bytes, form: str, delimiter: str = ",") -> bool:
    """Return whether a row of CSV ends within quotes."""
    if form != "csv":
        return False
    *_, last = [b"", *(one[0] for one in _quoted(delimiter).finditer(row))]
    return last != b"" and (len(last) == 1 or last.count(b'"') % 2 == 1)


@functools.cache
def _quoted(delimiter: str) -> "re.Pattern[bytes]":
    # RFC 4180, and Arrow: a quote opens a field only at its start, and is a letter like any other within or after one
    return re.compile(rb'(?:\A|(?<=[%b\r\n]))"[^"]*+(?:""[^"]*+)*+(?:"|\Z)' % re.escape(delimiter.encode()))


def blocks_of(stream: Any, path: str, size: int) -> Iterator[bytes]:
    """Yield the blocks of a file, an empty one last."""
    try:
        while block := stream.read(size):
            yield block
        yield b""
    except OSError as error:
        if error.errno is not None:  # of the file system
            raise
        raise ss.InvalidInputError(f"{path} is not sound, or cut off: it cannot be uncompressed") from None
