"""Lines of CSV or JSON as batches of rows, even if some lines are bad."""

import codecs
import os
import re
import select
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeAlias

import numpy as np

from streamsketch.agreement.casts import Rows
from streamsketch.core.files import open_secret, write_all
from streamsketch.core.numbers import Ints
from streamsketch.data.readers.delimited import Dialect, csv_header, csv_piece
from streamsketch.data.readers.json_lines import json_batch
from streamsketch.data.readers.rows import LONGEST_ROW, first_row, not_a_row, split_rows, strict_until, whole_rows
from streamsketch.errors import InvalidInputError
from streamsketch.intake.columns import add_readable

if TYPE_CHECKING:
    from streamsketch.core.libraries import pa

BLOCK_BYTES = 1 << 20
_NUMBERS = re.compile(r"\d[\d,]*")
_MOST_REASONS = 16

LineFormat: TypeAlias = Literal["csv", "jsonl"]
Add: TypeAlias = Callable[["pa.RecordBatch", int | Rows], None]
"""Called with a batch of rows, and with the number of the first one or, where lines are left out, those of all."""


class BadLines:
    """How to treat lines that cannot be read: stop, leave them out and count them, or also keep them in a file.

    Parameters
    ----------
    mode
        ``"stop"``, ``"skip"``, or the name of a file to keep the lines in. Only its owner can read that file: bad lines
        are as secret as the data.
    append
        Whether lines may be added to an existing file. Otherwise the file must be new.

    Raises
    ------
    InvalidInputError
        If the file exists, and ``append`` is False.

    Examples
    --------
    >>> with BadLines("skip") as bad:
    ...     bad.take(b"no, such, line", "row 7 has 3 cells")
    >>> str(bad)
    '1 bad line left out'
    """

    def __init__(self, mode: str = "stop", *, append: bool = False) -> None:
        self.stops = mode == "stop"
        self.count = 0
        """How many lines were left out."""
        self.rows = 0
        """How many rows were read."""
        self._reasons: dict[str, tuple[str, int]] = {}
        self.path = None if mode in ("stop", "skip") else Path(mode)
        if self.path is not None and self.path.exists() and not append:
            raise InvalidInputError(f"{self.path} already exists; name a new file for bad lines")

    def __enter__(self) -> Self:
        if self.path is not None:
            self._file = open_secret(self.path)
            self._end_torn_line(self.path)
        return self

    def _end_torn_line(self, path: Path) -> None:
        """End a line of which a full disk took only a part, so that the next one is a line of its own."""
        if self._file.tell():
            with path.open("rb") as file:
                file.seek(-1, os.SEEK_END)
                if file.read() != b"\n":
                    write_all(self._file, b"\n")

    def __exit__(self, *_: object) -> None:
        if self.path is not None:
            empty = not self._file.tell()
            self._file.close()
            if empty:
                self.path.unlink(missing_ok=True)

    def take(self, line: bytes, reason: str, header: bytes = b"") -> None:
        """Leave out a line; a file of bad CSV lines gets ``header`` first.

        Raises
        ------
        InvalidInputError
            With the reason, if the mode is ``"stop"``.
        OSError
            If the line cannot be kept.
        """
        if self.stops:
            raise InvalidInputError(reason)
        if self.path is not None:
            first = header + b"\n" if header and not self._file.tell() else b""
            write_all(self._file, first + line.removesuffix(b"\n") + b"\n")
        self.count += 1
        kind = _NUMBERS.sub("#", reason)  # of rows, cells and lines: what is wrong is the same
        if kind not in self._reasons and len(self._reasons) >= _MOST_REASONS:
            kind = ""
        example, count = self._reasons.get(kind, (reason, 0))
        self._reasons[kind] = example, count + 1

    @property
    def share(self) -> float:
        """The share of the lines that were left out, of all that were read; 0 if none was."""
        return self.count / (self.count + self.rows) if self.count else 0.0

    @property
    def reasons(self) -> list[tuple[str, int]]:
        """Why lines were left out, the most frequent reason first: that of its first line, and the number of lines.

        After sixteen different reasons all others count together, under the first of them.
        """
        return sorted(self._reasons.values(), key=lambda each: -each[1])

    def __str__(self) -> str:
        where = "left out" if self.path is None else f"left out and written to {self.path} (secret)"
        return f"{self.count:,} bad line{'' if self.count == 1 else 's'} {where}"


class Stop(Protocol):
    """A request to stop reading, checked between two blocks; for example a signal."""

    wakes: int
    """A file descriptor that becomes readable when reading should stop."""

    def is_set(self) -> bool:
        """Return whether reading should stop."""


@dataclass
class Lines:
    """The lines of a stream of CSV or JSON objects, as batches of rows.

    A newline ends a row, also within quotes: what one row holds cannot decide where another begins. A line that is too
    long is left out up to its newline.

    Parameters
    ----------
    name
        Name of the stream, for errors.
    format
        ``"csv"``, with a header line, or ``"jsonl"``.
    columns, text
        The columns to read, and which of them are text.
    bad
        What to do with lines that cannot be read.
    dialect
        How the cells of CSV are written.
    any_text
        Whether numbers, booleans and nulls of JSON are read as text too, for an agreement to cast.
    lenient
        Text columns, those of features, in which JSON may hold anything.
    multiline
        Whether cells of CSV may hold line breaks within quotes. Bytes that are not CSV are then an error: where the
        next row begins is not known.
    longest
        Bytes of the longest line that is read.
    """

    name: str
    format: LineFormat
    columns: list[str]
    text: list[str]
    bad: BadLines
    dialect: Dialect = Dialect()  # noqa: RUF009 - it is not changed
    any_text: bool = False
    lenient: Sequence[str] = ()
    multiline: bool = False
    longest: int = LONGEST_ROW
    mark: Callable[[bytes], None] | None = None
    """Called with the bytes of whole lines before they are yielded, and with those of lines that are left out."""
    is_inside: bool = False
    """Whether what comes next is the rest of a line that was left out, up to its newline."""
    _first: bytes = b""
    _header: list[str] | None = None
    _number: int = field(default=1)
    """Number of the next line; in CSV, of the next row that is not empty."""

    def pieces(self, blocks: Iterator[bytes | None]) -> Iterator[bytes]:
        """Yield the whole lines in the blocks of a stream, without the header; empty bytes for a block of None.

        An empty block marks the end of the stream. Without it, an unfinished last line is not read.
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
            data = rest + (self._after_left_out(block) if self.is_inside else block)
            start = len(codecs.BOM_UTF8) if self._number == 1 and data.startswith(codecs.BOM_UTF8) else 0
            whole, rest = whole_rows(b"", data[start:], self.dialect.delimiter, multiline=self._spans, ended=ended)
            if not (whole or ended):
                rest = data  # with its byte order mark
            self._mark(data[: len(data) - len(rest)])
            yield self._without_header(whole)
            if len(rest) > self.longest:
                self._leave_out(rest[: self.longest])
                self._mark(rest)
                self.is_inside, rest = True, b""
        if self.format == "csv" and self._header is None:  # its writer has failed
            raise InvalidInputError(
                f"{self.name} ended before its header line; CSV must begin with the names of columns"
            )

    @property
    def position(self) -> tuple[int, bytes]:
        """The number of the next line, and the header of CSV: the arguments of `go_on`."""
        return self._number, self._first

    @property
    def _spans(self) -> bool:
        return self.multiline and self.format == "csv"

    def _mark(self, data: bytes) -> None:
        if self.mark is not None:
            self.mark(data)

    def _after_left_out(self, block: bytes) -> bytes:
        """Return what follows the line that is left out."""
        _, newline, after = block.partition(b"\n")
        self.is_inside = not newline
        self._mark(block[: len(block) - len(after)])
        return after

    def _without_header(self, whole: bytes) -> bytes:
        if self._number > 1 or not whole or self.format != "csv":
            return whole
        whole = whole.lstrip(b"\r\n")  # empty lines are no rows
        row, after = first_row(whole, self.dialect.delimiter, multiline=self._spans)
        if not row:
            return whole
        first = row.removesuffix(b"\n")
        if not self._is_header(first):
            return whole
        self.go_on(2, first)
        return after

    def go_on(self, number: int, header: bytes, *, is_inside: bool = False) -> None:
        """Continue from a line that is not the first, or from within one that was left out."""
        self.is_inside = is_inside
        if self.format == "csv" and header:
            self._header = csv_header(header, self.name, self.columns, self.dialect.delimiter)
        self._number, self._first = number, header

    def _is_header(self, line: bytes) -> bool:
        """Return whether the first line of a file is a header, and no row as after rotation: it names all columns."""
        if self._header is None:
            return True
        try:
            csv_header(line, self.name, self.columns, self.dialect.delimiter)
        except InvalidInputError:
            return False
        return True

    def read(self, data: bytes, add: Add) -> None:
        """Pass the rows of whole lines to ``add``: all at once if possible, otherwise without the bad ones.

        ``add`` is called with a batch and the number of its first line, or those of all its lines. Lines for which it
        raises `InvalidInputError` are bad; it must raise before it changes anything.
        """
        if len(data) > self.longest + 1 and not self._spans:
            for part in self._without_long_lines(data):
                self.read(part, add)
            return
        if self.format == "jsonl":
            self._read_lines(data, add)
            return
        while data:
            end = strict_until(data, self.dialect.delimiter, multiline=self.multiline)
            self._read_lines(data[:end], add)
            if end < len(data):
                bad, newline, data = data[end:].partition(b"\n")
                why = f"{self._where} of {self.name} {not_a_row(multiline=self.multiline, whole=self.multiline)}"
                if self.multiline:  # a row may begin anywhere after it
                    raise InvalidInputError(why)
                self.refuse(bad + newline, why)
            else:
                data = b""

    def _without_long_lines(self, data: bytes) -> Iterator[bytes]:
        """Yield the lines of data, some at a time, but for those that are too long."""
        start, at = 0, 0
        while at < len(data):
            end = data.index(b"\n", at) + 1
            if end - at > self.longest + 1:
                yield data[start:at]
                self._leave_out(data[at:end])
                start = end
            elif end - start > self.longest + 1:
                yield data[start:at]
                start = at
            at = end
        yield data[start:]

    def _leave_out(self, line: bytes) -> None:
        why = f"{self._where} of {self.name} is longer than {self.longest:,} bytes, the limit"
        if self._spans or (self.format == "csv" and self._header is None):  # no row, or no header, is known to follow
            raise InvalidInputError(why)
        self.refuse(line, why)

    def _read_lines(self, data: bytes, add: Add) -> None:
        """Pass rows to ``add``, without those that cannot be read or added."""
        if not data.strip(b"\r\n" if self.format == "csv" else None):
            self._number += data.count(b"\n") if self.format == "jsonl" else 0
            return
        if self.format == "jsonl" and not self.bad.stops:
            self._read_objects(data, add)
            return
        waiting = [[data]]  # a stack of consecutive parts, the next one on top
        while waiting:
            part = waiting.pop()
            whole = b"".join(part)
            try:
                batch = self._read(whole)
            except InvalidInputError as error:
                why = str(error)
            else:
                try:
                    add(batch, self._numbers(whole, batch.num_rows))
                except InvalidInputError as error:
                    why = f"{self._where} of {self.name}: {error}"
                else:
                    self.bad.rows += batch.num_rows
                    self._number += batch.num_rows if self.format == "csv" else whole.count(b"\n")
                    continue
            if part == [data]:
                rows = split_rows(data, self.dialect.delimiter, multiline=self._spans)
                part = [row for row in rows if self.format == "jsonl" or row.strip(b"\r\n")]
            if len(part) > 1:
                waiting += [part[len(part) // 2 :], part[: len(part) // 2]]
            else:
                self.refuse(whole, why)

    def _numbers(self, data: bytes, count: int) -> int | Rows:
        """Return the number of the first of some lines with so many rows, or the numbers of those that have a row."""
        if self.format == "csv" or data.count(b"\n") == count:
            return self._number
        lines = enumerate(data.split(b"\n"), self._number)
        return _first_or_all(np.array([number for number, line in lines if line.strip()], dtype=np.int64))

    def _read_objects(self, data: bytes, add: Add) -> None:
        """Pass rows of JSON to ``add`` without bad ones, each line parsed once."""
        first, lines, reasons = self._number, data.removesuffix(b"\n").split(b"\n"), dict[int, str]()
        batch = self._of_json(lines, reasons.__setitem__)
        numbers = [number for number, line in enumerate(lines, first) if line.strip() and number not in reasons]

        def refuse(place: int, error: Exception) -> None:
            reasons[numbers[place]] = f"line {numbers[place]:,} of {self.name}: {error}"

        line_numbers = np.array(numbers, dtype=np.int64)
        self.bad.rows += add_readable(
            lambda rows, places: add(rows, _first_or_all(line_numbers[places])), batch, refuse
        )
        for number in sorted(reasons):
            self._number = number
            self.refuse(lines[number - first] + b"\n", reasons[number])
        self._number = first + data.count(b"\n")

    def _of_json(self, lines: list[bytes], on_bad: Callable[[int, str], object] | None = None) -> "pa.RecordBatch":
        options: dict[str, Any] = {"any_text": self.any_text, "lenient": self.lenient, "on_bad": on_bad}
        return json_batch(lines, self.name, self.columns, self.text, self._number, **options)

    def _read(self, data: bytes) -> "pa.RecordBatch":
        if self._header is None:
            return self._of_json(data.split(b"\n"))
        return csv_piece(data, self._header, self.name, self.columns, self.text, self.dialect, self._number)

    @property
    def _where(self) -> str:
        return f"{'row' if self.format == 'csv' else 'line'} {self._number:,}"

    def refuse(self, line: bytes, why: str) -> None:
        """Leave out the next line, or raise, depending on `bad`."""
        self.bad.take(line, why, self._first)
        self._number += 1


def _first_or_all(numbers: Ints) -> int | Rows:
    """Return the first of ascending numbers if they follow one another, else all."""
    follow = numbers.size and numbers[-1] - numbers[0] == numbers.size - 1
    return int(numbers[0]) if follow else numbers


def file_blocks(stream: Any, path: str, size: int = BLOCK_BYTES) -> Iterator[bytes]:
    """Yield the blocks of a file, then an empty one."""
    try:
        while block := stream.read(size):
            yield block
        yield b""
    except OSError as error:
        if error.errno is not None:  # of the file system
            raise
        raise InvalidInputError(
            f"{path} cannot be decompressed: it is damaged or truncated; pass the complete file"
        ) from None


def pipe_blocks(
    descriptor: int, stop: Stop | None = None, wait: Callable[[], float | None] = lambda: None
) -> Iterator[bytes | None]:
    """Yield blocks of a pipe as they arrive, then an empty one; None after ``wait()`` seconds without data.

    ``stop`` ends it early, without the empty block.
    """
    waking = [] if stop is None else [stop.wakes]
    while True:
        ready, _, _ = select.select([descriptor, *waking], [], [], wait())
        if stop is not None and stop.is_set():
            return
        if descriptor not in ready:
            yield None
        else:
            yield (block := os.read(descriptor, BLOCK_BYTES))
            if not block:
                return
