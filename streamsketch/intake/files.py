"""Read files and pipes of rows under an agreement, even if some lines are bad."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamsketch.agreement.agreement import Agreement
from streamsketch.agreement.casts import Rows
from streamsketch.core.ahead import one_ahead
from streamsketch.data.readers.delimited import Dialect, csv_dialect
from streamsketch.data.readers.formats import Format, batches, format_of, parts_of
from streamsketch.data.readers.opening import open_file, uncompressed
from streamsketch.data.readers.rows import LONGEST_ROW
from streamsketch.data.readers.streams import Decoder
from streamsketch.errors import InvalidInputError
from streamsketch.intake.events import Events
from streamsketch.intake.framing import QUOTED
from streamsketch.intake.lines import BLOCK_BYTES, Add, BadLines, LineFormat, Lines, Stop, file_blocks, pipe_blocks
from streamsketch.intake.rows import Intake
from streamsketch.intake.seen import Seen

_FIRST = {"csv": 2}  # the header is row 1
_WORTH_A_THREAD = 1 << 22  # bytes of a file; a smaller one is hardly more than one piece
_CORRECT = "correct the row or leave it out"  # as errors of casts say
_OTHERS = "; `streamsketch check FILE --agreement FILE` counts all such rows"


@dataclass(frozen=True)
class RowReader:
    r"""Reads the columns of an agreement from files, pipes and logs, without casting them.

    Parameters
    ----------
    agreement
        The agreement, which gives the columns to read.
    time
        Another column to read, which holds the times of events.
    format
        Format of all inputs; by default, the file's name decides.
    delimiter
        Delimiter of CSV.
    bad
        How to treat lines of CSV or JSON that cannot be read. Other formats cannot leave anything out.
    encoding
        Encoding of CSV, JSON lines and text, by default UTF-8. They are transcoded while they are read.
    decimal
        Decimal point of numbers in CSV, ``"."`` or ``","``. With a comma, a number with a point is malformed: it may
        be one of thousands, which ``thousands`` permits.
    thousands
        The mark that may stand between groups of three digits of numbers in CSV: ``","``, ``"."``, ``" "`` (also
        no-break spaces), ``"'"`` (also U+2019), ``"_"``, or None. Other places of the mark are malformed.
    null_values
        Cells of CSV, as they are written, that are missing values, such as ``["NA", "-"]``.
    block_bytes
        How many bytes of CSV, JSON lines and text are read at a time, by default some megabytes. Rows do not depend on
        it.
    multiline
        Whether cells of CSV in whole files may hold line breaks within quotes. By default, they may if the agreement
        names no column of units. Otherwise a line is a row, and a quote that its line does not close is an error: it
        could swallow the rows of other units. If units are bounded and ``multiline`` is True, their guarantee states
        the condition that the file's writer quotes such cells and doubles quotes in them. In a `Log`, a newline always
        ends a row.

    Examples
    --------
    >>> from streamsketch import Agreement, CountSketch, Sketch
    >>> agreement = Agreement(CountSketch(sketch_dim=64, seed=7), index="item", value="sold")
    >>> path = getfixture("tmp_path") / "sales.csv"
    >>> _ = path.write_text("item,sold\nmilk,3\npears,many\nmilk,2\n")
    >>> sketch = Sketch(agreement)
    >>> with BadLines("skip") as bad:
    ...     RowReader(agreement, bad=bad).read(path, lambda batch, first: sketch.update_rows(batch))
    >>> sketch.mass, str(bad)
    (5, '1 bad line left out')
    """

    agreement: Agreement
    time: str | None = None
    format: Format | None = None
    delimiter: str = ","
    bad: BadLines = field(default_factory=BadLines)
    encoding: str | None = None
    decimal: str = "."
    block_bytes: int | None = None
    multiline: bool | None = None
    thousands: str | None = None
    null_values: Sequence[str] = ()
    seen: Seen = field(default_factory=Seen, compare=False, repr=False)
    """What an operator should know of the files that were read; secret."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "encoding", self._dialect().encoding)

    @property
    def columns(self) -> list[str]:
        """The names of all columns that are read."""
        return list(dict.fromkeys([*self.agreement.names, *([] if self.time is None else [self.time])]))

    @property
    def spans_lines(self) -> bool:
        """Whether cells of CSV in whole files may hold line breaks."""
        return self.agreement.unit is None if self.multiline is None else self.multiline

    @property
    def options(self) -> dict[str, Any]:
        """Arguments for `data.batches`; formats without types read columns that the agreement casts as text."""
        any_text, columns = self.agreement.missing != "keep", self.columns
        text = columns if any_text else [name for name in columns if name != self.agreement.value]
        lenient = list(getattr(self.agreement.features, "columns", ()))
        return {
            "columns": columns,
            "text": text,
            "dialect": self._dialect(),
            "any_text": any_text,
            "lenient": lenient,
            "multiline": self.spans_lines,
        }

    def _dialect(self) -> Dialect:
        return csv_dialect(self.delimiter, self.encoding, self.decimal, self._numbers, self.thousands, self.null_values)

    @property
    def _numbers(self) -> tuple[str, ...]:
        """The names of columns of which all cells are numbers."""
        agreed = self.agreement
        whole = [column.name for column in agreed.columns if column.type == "integer" or column.places is not None]
        features = [] if agreed.features is None else agreed.features.numeric
        return tuple(dict.fromkeys([*whole, *features, *([] if agreed.value is None else [agreed.value])]))

    def batches(self, path: str | os.PathLike[str], on_read: Callable[[int], None] = lambda _: None) -> Iterator[Any]:
        """Yield the batches of a file; call ``on_read`` with the number of bytes read so far.

        Raises
        ------
        InvalidInputError
            If the file is damaged, has a bad line or lacks a column. The message names the file.
        OSError
            If the file cannot be read.
        """
        file, name = open_file(path), str(path)
        self.seen.rows.setdefault(name, 0)
        placed = self._placed(file, name)
        for batch, place in one_ahead(placed) if file.size() >= _WORTH_A_THREAD else placed:
            self.seen.add(name, batch, self.agreement.unit)
            yield batch
            if place is not None:
                on_read(place)

    def _placed(self, file: Any, name: str) -> Iterator[tuple[Any, int | None]]:
        """Yield the batches of an open file, each with the place in the file behind it, None behind the last."""
        for part in range(parts_of(file, name, self.format)):
            for batch in batches(file, name, part, form=self.format, block_bytes=self.block_bytes, **self.options):
                yield batch, None if file.closed else file.tell()

    def noting(self, add: Add, name: str) -> Add:
        """Return a function that passes batches to ``add`` and then notes them in `seen`."""
        self.seen.rows.setdefault(name, 0)

        def noted(batch: object, first: int | Rows) -> None:
            add(batch, first)
            self.seen.add(name, batch, self.agreement.unit)

        return noted

    def check_utf8(self, name: str) -> None:
        """Raise `InvalidInputError` if the encoding of a log is another one: positions count its bytes."""
        if self.encoding is not None:
            raise InvalidInputError(
                f"{name} is a log, of which the place in its bytes is kept, and logs are read in UTF-8, not "
                f"{self.encoding}: have its writer write UTF-8, or pass it through iconv"
            )

    def transcoded(self, blocks: Iterator[bytes | None], name: str) -> Iterator[bytes | None]:
        """Yield the blocks of a stream in UTF-8; an empty one marks its end, and None a wait, as `pipe_blocks` does."""
        if self.encoding is None:
            yield from blocks
            return
        decoder = Decoder(self.encoding, name)
        for block in blocks:
            if block:
                if data := decoder.decode(block):  # which is empty within a character
                    yield data
                continue
            if block is not None and (last := decoder.decode(b"", final=True)):
                yield last
            yield block

    def lines(self, name: str, form: LineFormat, *, is_whole: bool = False, longest: int = LONGEST_ROW) -> Lines:
        """Return a reader of the lines of a stream, which error messages call ``name``.

        In a stream, a newline ends a row. If it ``is_whole``, it is read to its end at once, as a file is. Lines of
        more than ``longest`` bytes are bad.
        """
        options = self.options | {"multiline": is_whole and self.spans_lines, "longest": longest}
        return Lines(name, form, bad=self.bad, **options)

    def read(
        self,
        path: str | os.PathLike[str],
        add: Add,
        on_read: Callable[[int], None] = lambda _: None,
        stop: Stop | None = None,
    ) -> None:
        """Pass the rows of a file, or of a pipe until its end, to ``add`` in batches.

        Parameters
        ----------
        path
            Path of a file, or of a named pipe of CSV or JSON lines.
        add
            A function that is called with a batch and the number of its first row or line, or those of all its rows.
            If bad lines are left out, so are rows for which it raises `InvalidInputError`; it must raise before it
            changes anything.
        on_read
            A function that is called with the number of bytes read so far.
        stop
            A request to stop, which ends the reading of a pipe early; an unfinished line is not read.

        Raises
        ------
        InvalidInputError
            As in `batches`, and for rows that ``add`` refuses. The message names the file and the rows.
        OSError
            If the file cannot be read.
        """
        path = Path(path)
        if not path.is_file():
            self._read_pipe(path, add, stop)
            return
        form = self.format or format_of(str(path))
        if form in ("csv", "jsonl") and not self.bad.stops:
            file, name = open_file(path), str(path)
            lines = self.lines(name, form, is_whole=True)
            stream = uncompressed(file, name, self.encoding)
            for piece in lines.pieces(file_blocks(stream, name, self.block_bytes or BLOCK_BYTES)):
                lines.read(piece, self.noting(add, name))
                on_read(file.tell())
            return
        for batch, first, where in self._numbered(path, on_read):
            try:
                add(batch, first)
            except InvalidInputError as error:
                raise InvalidInputError(f"{where}: {error}") from None

    def events(self, path: str | os.PathLike[str], intake: Intake) -> Iterator[Events]:
        """Yield the rows of a file as an intake reads them, and add the conditions for this to the intake.

        Raises
        ------
        InvalidInputError
            As in `batches` and `Intake.read`. The message names the file, and rows by their numbers in it.
        OSError
            If the file cannot be read.
        """
        if self.spans_lines and (self.format or format_of(str(path))) == "csv":
            intake.conditions.add(QUOTED)
        for batch, first, where in self._numbered(path):
            try:
                yield from intake.numbered([batch], first)
            except InvalidInputError as error:
                others = _OTHERS if _CORRECT in str(error) else ""
                raise InvalidInputError(f"{where}: {error}{others}") from None

    def _numbered(
        self, path: str | os.PathLike[str], on_read: Callable[[int], None] = lambda _: None
    ) -> Iterator[tuple[Any, int, str]]:
        """Yield the batches of a file, each with the number of its first row, and the file and its rows in words."""
        form = self.format or format_of(str(path))
        first = _FIRST.get(form, 1)
        for batch in self.batches(path, on_read):
            last = first + batch.num_rows - 1
            counted = {"csv": " (the header is row 1)", "jsonl": " (blank lines do not count)"}.get(form, "")
            yield batch, first, f"{path}, rows {first:,} to {last:,}{counted}"
            first += batch.num_rows

    def _read_pipe(self, path: Path, add: Add, stop: Stop | None) -> None:
        """Read a pipe like standard input: Arrow would not notice a signal while it waits for a pipe."""
        with path.open("rb", buffering=0) as pipe:
            form = self.format or format_of(path.suffix)
            if form not in ("csv", "jsonl"):
                raise InvalidInputError(
                    f"{path} is a pipe, and a pipe must carry uncompressed CSV or JSON lines. Pass --set format=csv "
                    "(with a header line) or --set format=jsonl; write Parquet to a file instead"
                )
            lines = self.lines(str(path), form, is_whole=True)
            for piece in lines.pieces(self.transcoded(pipe_blocks(pipe.fileno(), stop), str(path))):
                lines.read(piece, self.noting(add, str(path)))
