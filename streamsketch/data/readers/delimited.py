"""CSV files and streams as Arrow record batches, nothing in them guessed."""

import codecs
import contextlib
import csv
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from streamsketch.core import sentences
from streamsketch.core.libraries import pa, pa_csv, pc
from streamsketch.core.text import named
from streamsketch.data.decimals import decimals_of, exact_decimal
from streamsketch.data.readers.opening import (
    NUMBER_FORM,
    NUMBER_PLACES,
    arrows_own,
    block_size,
    not_utf8,
    number_type,
    other_kind,
    raise_if_of_the_file_system,
    spelt_alike,
    uncompressed,
)
from streamsketch.data.readers.rows import first_row, not_a_row, pieces_of_rows, strict_until
from streamsketch.data.readers.streams import check_encoding
from streamsketch.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_DECIMAL_COMMA = re.compile(r"(?:invalid value|The string) '[-+0-9. ]*[0-9],[0-9]+\s*'")  # of Arrow
_THOUSANDS = {mark: mark for mark in ",._"} | {" ": " \u00a0\u202f", "'": "'\u2019"}
"""Marks between groups of three digits, and the characters that each stands for."""
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_PLACES = [
    re.compile(pattern) for pattern in (r"Row #(\d+)", r"In CSV column #(\d+)", r"columns, got (\d+)")
]  # of Arrow


class Dialect(NamedTuple):
    """How the cells of CSV are written.

    Parameters
    ----------
    delimiter
        The character between cells.
    encoding
        The encoding, as `check_encoding` returns it.
    decimal
        The decimal point of numbers, ``"."`` or ``","``.
    numbers
        Columns that are read as text but hold numbers, which may have a decimal comma or grouped digits.
    thousands
        The mark that may stand between groups of three digits, or None.
    null_values
        Cells that are missing values, in quotes or not, in every column.
    """

    delimiter: str = ","
    encoding: str | None = None
    decimal: str = "."
    numbers: "Sequence[str]" = ()
    thousands: str | None = None
    null_values: "Sequence[str]" = ()

    def options(self, columns: list[str], *, quoted: bool = True) -> dict[str, Any]:
        """Return how Arrow reads columns of CSV: as text, since it reads some numbers wrong (`decimals_of`).

        Arrow is a tenth faster where no cell is ``quoted``.
        """
        quote = '"' if quoted else False
        return {
            "parse_options": pa_csv.ParseOptions(delimiter=self.delimiter, quote_char=quote, newlines_in_values=True),
            "convert_options": pa_csv.ConvertOptions(
                include_columns=columns, column_types=dict.fromkeys(columns, pa.string()), strings_can_be_null=False
            ),
        }

    def plain(self, batch: "pa.RecordBatch", text: list[str], header: list[str]) -> "pa.RecordBatch":
        """Return text as Arrow would read it if its writer used points, did not group digits, and left cells empty.

        Columns that are not of ``text`` become numbers.

        Raises
        ------
        pyarrow.ArrowInvalid
            For a cell that is not a number in a column that is not of ``text``; it names the place as Arrow does.
        """
        is_usual = self.decimal == "." and self.thousands is None and not self.null_values
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        for name, column in columns.items():
            if is_usual and name in text:
                continue
            cells = self._with_nulls(column, self.null_values)
            if name not in text:
                usual = self._with_nulls(cells, pa_csv.ConvertOptions().null_values)
                cells = _numbers(self._with_points(usual), column, header.index(name))
            elif name in self.numbers:
                cells = self._with_points(cells)
            columns[name] = cells
        return pa.RecordBatch.from_pydict(columns)

    def _with_nulls(self, cells: "pa.Array", nulls: "Sequence[str]") -> "pa.Array":
        if not nulls:
            return cells
        is_missing = pc.is_in(cells, value_set=pa.array(nulls, pa.string()))
        return pc.if_else(is_missing, pa.scalar(None, pa.string()), cells)

    def _with_points(self, cells: "pa.Array") -> "pa.Array":
        """Return numbers with points and without groups; a mark that is no part of a number becomes a semicolon."""
        if self.thousands is not None:
            mark = f"[{re.escape(_THOUSANDS[self.thousands])}]"
            grouped = f"^[-+]?[0-9]{{1,3}}(?:{mark}[0-9]{{3}})+(?:{re.escape(self.decimal)}[0-9]*)?$"
            cells = pc.utf8_trim_whitespace(cells)
            cells = pc.if_else(
                pc.match_substring_regex(cells, grouped),
                pc.replace_substring_regex(cells, mark, ""),
                pc.replace_substring_regex(cells, mark, ";"),
            )
        if self.decimal == ",":
            cells = pc.replace_substring(pc.replace_substring(cells, ".", ";"), ",", ".")
        return cells


def _numbers(cells: "pa.Array", written: "pa.Array", place: int) -> "pa.Array":
    """Return text as exact decimals; the error names the first cell that is no number as Arrow's CSV reader does."""
    with contextlib.suppress(pa.ArrowInvalid):
        return decimals_of(cells, NUMBER_PLACES)
    cells = pc.utf8_trim(cells, " \t")
    with contextlib.suppress(pa.ArrowInvalid):
        return decimals_of(cells, NUMBER_PLACES)
    numbers = []
    for row, cell in enumerate(cells.to_pylist(), 1):  # some may have an exponent
        try:
            numbers.append(None if cell is None else _number(cell))
        except ArithmeticError:
            why = f"In CSV column #{place}: Row #{row}: invalid value '{written[row - 1].as_py()}'"
            raise pa.ArrowInvalid(why) from None
    return pa.array(numbers, number_type())


def _number(cell: str) -> Decimal:
    if not _NUMBER.fullmatch(cell):
        raise ArithmeticError
    return exact_decimal(Decimal(cell), NUMBER_PLACES)


def csv_dialect(
    delimiter: str = ",",
    encoding: str | None = None,
    decimal: str = ".",
    numbers: "Sequence[str]" = (),
    thousands: str | None = None,
    null_values: "Sequence[str]" = (),
) -> Dialect:
    """Return how CSV is written, from what users pass; raise `InvalidInputError` for what cannot be read."""
    return Dialect(
        check_delimiter(delimiter),
        check_encoding(encoding),
        check_decimal(decimal),
        numbers,
        _check_thousands(thousands, decimal),
        _check_null_values(null_values),
    )


def batches(
    file: object,
    path: str,
    columns: list[str],
    text: list[str],
    dialect: Dialect = Dialect(),  # noqa: B008 - it is not changed
    block_bytes: int | None = None,
    *,
    multiline: bool = False,
) -> "Iterator[pa.RecordBatch]":
    """Yield the columns of a CSV file with a header line: the rows that a strict parser finds, or an error.

    A line is a row. With ``multiline``, cells in quotes may hold line breaks, and a row ends where its quotes are
    closed.
    """
    stream, mark = uncompressed(file, path, dialect.encoding), dialect.delimiter
    header, number = None, 2
    try:
        for rows in pieces_of_rows(stream, path, mark, block_size(block_bytes), multiline=multiline):
            piece = rows
            if header is None:
                line, piece = first_row(rows, mark, multiline=multiline)
                header = csv_header(line, path, columns, mark)
            end = strict_until(piece, mark, multiline=multiline)
            if piece[:end].lstrip(b"\r\n"):  # which copies nothing of a piece that begins with a row
                batch = csv_piece(piece[:end], header, path, columns, text, dialect, number)
                yield batch
                number += batch.num_rows
            if end < len(piece):
                raise InvalidInputError(f"row {number:,} of {path} {not_a_row(multiline=multiline, whole=True)}")
    except OSError as error:
        raise_if_of_the_file_system(error)
        raise InvalidInputError(f"{path} cannot be decompressed: it is damaged or cut off") from None
    if header is None:
        raise InvalidInputError(f"{path} {sentences.NO_HEADER}")


def check_delimiter(text: str) -> str:
    r"""Return the delimiter of CSV that an option names, a tab also as ``\t`` spelt out."""
    delimiter = "\t" if text == r"\t" else text
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
        raise InvalidInputError(f"the delimiter must be one ASCII character, not a quote or line end, got {text!a:.20}")
    return delimiter


def check_decimal(text: str) -> str:
    """Return the decimal point of CSV that an option names."""
    if text not in (".", ","):
        raise InvalidInputError(f"the decimal point of CSV must be '.' or ',', got {text!a:.20}")
    return text


def _check_thousands(text: str | None, decimal: str) -> str | None:
    """Return the mark of thousands that an option names."""
    mark = next((mark for mark, alike in _THOUSANDS.items() if text and len(text) == 1 and text in alike), None)
    if text is not None and mark is None:
        raise InvalidInputError(
            f"thousands must be one of {', '.join(map(repr, _THOUSANDS))}, or None for none, got {text!a:.20}"
        )
    if mark == decimal:
        raise InvalidInputError(
            f"thousands and decimal are both {decimal!r}; state the other decimal point, such as decimal=','"
        )
    return mark


def _check_null_values(texts: "Sequence[str]") -> tuple[str, ...]:
    """Return the cells that stand for missing values."""
    if isinstance(texts, str) or not all(isinstance(text, str) and text for text in texts):
        raise InvalidInputError(
            f"null_values must be a list of texts that are not empty, such as ['NA', '-'], got {texts!a:.40}"
        )
    return tuple(dict.fromkeys(texts))


def _not_csv(
    path: str, columns: list[str], error: Exception, header: list[str], first: int, dialect: Dialect
) -> InvalidInputError:
    """Return what is wrong with a file or a piece of it, whose Arrow's row 1 is row ``first``."""
    # Arrow's own text may quote the file, which is private
    row, column, cells = (match and int(match[1]) for match in (pattern.search(str(error)) for pattern in _PLACES))
    where = []
    if row is not None:
        where.append(f"row {row + first - 1:,}")
    if column is not None and column < len(header):
        where.append(f"column {header[column]}")
    if cells is not None:
        where.append(f"{cells:,} cells, not {len(header)}" if header else f"{cells:,} cells")
    if "UTF8" in str(error) and where:
        return InvalidInputError(f"{path} cannot be read as CSV ({', '.join(where)}): it {not_utf8(b'')}")
    if _DECIMAL_COMMA.search(str(error)) and dialect.thousands is None:
        remedy = (
            "a number has points and a comma. If points group its thousands, state thousands='.', on the command line "
            "--set thousands=."
            if dialect.decimal == ","
            else "a number has a decimal comma. If all have one, state decimal=',', on the command line --set "
            "decimal=,; or, if it groups thousands, thousands=',', --set thousands=,"
        )
        return InvalidInputError(f"{path} cannot be read as CSV ({', '.join(where)}): {remedy}")
    return InvalidInputError(
        f"{path} cannot be read as CSV ({', '.join(where) or type(error).__name__}). It needs a header line with the "
        f"columns {', '.join(columns)}, as many cells in every line, and {NUMBER_FORM} for values; if it is "
        f"compressed, it may be cut off"
    )


def csv_header(line: bytes, path: str, columns: list[str], delimiter: str = ",") -> list[str]:
    """Return the names in a CSV stream's first line; raise `InvalidInputError` unless all columns are there once.

    The error quotes nothing of the line, which may be a private row.
    """
    try:
        names = next(csv.reader([line.decode("utf-8-sig").strip("\r\n")], delimiter=delimiter), [])
    except UnicodeDecodeError:
        raise InvalidInputError(f"{path} cannot be read as CSV: it {not_utf8(line)}") from None
    except csv.Error:
        raise InvalidInputError(f"{path} does not begin with a header line of CSV") from None
    if (
        len(names) == 1
        and names[0] not in columns
        and (other := next((mark for mark in ";\t|," if mark in names[0]), ""))
    ):
        raise InvalidInputError(
            f"{path} has one column only; if {other!a} is its delimiter, pass that as delimiter, on the command line "
            f"--set delimiter={other!r} of rows; a list of items has commas"
        )
    if missing := [name for name in columns if name not in names]:
        if kind := other_kind(line):
            raise InvalidInputError(f"{path} cannot be read as CSV: it {kind}")
        raise InvalidInputError(
            f"{path} has no column {named(missing)}: CSV must begin with a header line that names all columns"
            f"{spelt_alike(missing, names)}"
        )
    twice = [name for name in columns if names.count(name) > 1]
    if twice:
        raise InvalidInputError(f"{path} has {', '.join(twice)} more than once; rename the columns")
    return names


def csv_piece(
    data: bytes,
    header: list[str],
    path: str,
    columns: list[str],
    text: list[str],
    dialect: Dialect = Dialect(),  # noqa: B008 - it is not changed
    first: int = 2,
) -> "pa.RecordBatch":
    """Return rows of CSV, from row ``first`` where the header is row 1, as a record batch; errors as for a file.

    Where the first row begins with a byte order mark, that is text as in any other row: a stream's own was left out.
    """
    if data.startswith(codecs.BOM_UTF8):
        data = codecs.BOM_UTF8 + data  # of which Arrow leaves out the first
    reading = pa_csv.ReadOptions(column_names=header, block_size=len(data) + 1, use_threads=False)
    options = dialect.options(columns, quoted=b'"' in data)
    try:
        table = pa_csv.read_csv(pa.BufferReader(arrows_own(data)), read_options=reading, **options)
        rows = table.combine_chunks().to_batches()
        return dialect.plain(rows[0] if rows else pa.RecordBatch.from_pylist([], table.schema), text, header)
    except pa.ArrowException as error:
        raise _not_csv(path, columns, error, header, first, dialect) from None
