"""Lines of JSON objects as Arrow record batches, nothing in them guessed."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from streamsketch.core.libraries import pa, pa_json
from streamsketch.data.decimals import exact_decimal
from streamsketch.data.lenient import decimal_text, lenient_json, lenient_text, text_of_json
from streamsketch.data.readers.opening import NUMBER_FORM, NUMBER_PLACES, arrows_own, not_utf8, number_type, other_kind
from streamsketch.errors import InvalidInputError

_BLANKS = b" \t\n\r"  # of JSON; others around an object are an error
_PLAIN_BYTES = 4000  # of a line: no integer in it has more digits than Python reads
_PLAIN_NUMBER = rb"-?[0-9]{1,26}(?:\.[0-9]{1,12})?\s*[,}]"
_NO_NUMBER = re.compile(rb":\s*-?(?:[NI]|[0-9.]+[eE][-+]?[0-9]{15})")  # NaN, infinity, an exponent that no Decimal has


def batches(
    blocks: Iterable[list[bytes]],
    path: str,
    columns: list[str],
    text: list[str],
    *,
    any_text: bool = False,
    lenient: Sequence[str] = (),
) -> "Iterator[pa.RecordBatch]":
    """Yield the columns of blocks of JSON lines; ``any_text`` and ``lenient`` as in `json_batch`."""
    first = 1
    for lines in blocks:
        yield json_batch(lines, path, columns, text, first, any_text=any_text, lenient=lenient)
        first += len(lines)


def json_batch(
    lines: list[bytes],
    path: str,
    columns: list[str],
    text: list[str],
    first: int = 1,
    *,
    any_text: bool = False,
    lenient: Sequence[str] = (),
    on_bad: Callable[[int, str], object] | None = None,
) -> "pa.RecordBatch":
    """Return lines of JSON objects as a record batch: the ``text`` columns as text, the others as exact decimals.

    Integers among the text columns become text, so that the number 7 is the key "7" in files of every kind. With
    ``any_text`` all numbers and booleans do, as they are written, and null stays null: an agreement reads them. Of the
    text columns that are ``lenient``, as features are, a line may hold anything, or nothing: lists of numbers become
    their text, and what is no text, number, boolean or such a list becomes null.

    With ``on_bad``, a line that is not an object with these fields is left out, and the function is called with its
    number, counted from ``first``, and what is wrong. Each line is parsed once, however many are bad.

    Raises
    ------
    InvalidInputError
        Without ``on_bad``, for the first such line.
    """
    batch = by_arrow(lines, columns, text)
    if batch is not None:
        return batch
    return line_by_line(lines, path, columns, text, first, any_text=any_text, lenient=lenient, on_bad=on_bad)


def by_arrow(lines: list[bytes], columns: list[str], text: list[str]) -> "pa.RecordBatch | None":
    """Return the result of `line_by_line` for plain lines, many times as fast; None for other lines, valid or not.

    Plain lines are flat objects without escapes: each begins with its only brace, so that none holds two objects or a
    part of one. What Python refuses in them and Arrow does not is looked for: nulls, quoted numbers, NaN, numbers of
    many digits or places, text that is not UTF-8. A name that is there twice Arrow refuses itself.
    """
    lines = [stripped for line in lines if (stripped := line.strip(_BLANKS))]
    data = b"\n".join(lines)
    if (
        not _are_objects(data, len(lines))
        or max(map(len, lines), default=0) > _PLAIN_BYTES
        or any(byte in data for byte in (b"\\", b"[", b"\0"))
        or _holds_no_number(data)
    ):
        return None
    kinds = []
    for name in columns:
        value = rb'"%b"\s*:\s*' % re.escape(name.encode())
        if name not in text:
            if len(re.findall(value + _PLAIN_NUMBER, data)) != len(lines):
                return None
            kinds.append(number_type())
        else:  # those of the first line, or none
            kinds.append(pa.int64() if re.search(value + rb"[-0-9]", (lines or [b""])[0]) else pa.string())
    parsing = pa_json.ParseOptions(
        explicit_schema=pa.schema(list(zip(columns, kinds, strict=True))), unexpected_field_behavior="ignore"
    )
    reading = pa_json.ReadOptions(use_threads=False, block_size=len(data) + 1)
    try:
        data.decode()
        table = pa_json.read_json(pa.BufferReader(arrows_own(data)), read_options=reading, parse_options=parsing)
    except (UnicodeDecodeError, pa.ArrowException):
        return None
    if table.num_rows != len(lines) or any(column.null_count for column in table.columns):
        return None
    (batch,) = table.combine_chunks().to_batches()
    arrays = [batch.column(name).cast(pa.string() if name in text else number_type()) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, columns)


def _are_objects(data: bytes, count: int) -> bool:
    """Return whether data are so many lines, each of which begins with the only brace that opens, and ends with one."""
    codes = np.frombuffer(b"\n%b\n" % data, np.uint8) if count else np.empty(0, np.uint8)
    ends = np.flatnonzero(codes == ord("\n"))
    begins, closes = codes[ends[:-1] + 1] == ord("{"), codes[ends[1:] - 1] == ord("}")
    opened = np.count_nonzero(codes == ord("{"))
    return ends.size == count + bool(count) and bool((begins & closes).all()) and opened == count


def _holds_no_number(data: bytes) -> bool:
    """Return whether `_NO_NUMBER` is in data: it is slow, so its letters are looked for first, and what they follow."""
    codes = np.frombuffer(data, np.uint8)
    for letter in b"eENI":
        before = codes[np.flatnonzero(codes == letter) - 1]
        if ((before <= ord(":")) & (before != ord('"'))).any():  # digits, points, signs, colons and blanks are
            return _NO_NUMBER.search(data) is not None
    return False


def line_by_line(
    lines: list[bytes],
    path: str,
    columns: list[str],
    text: list[str],
    first: int,
    *,
    any_text: bool = False,
    lenient: Sequence[str] = (),
    on_bad: Callable[[int, str], object] | None = None,
) -> "pa.RecordBatch":
    """Return the columns of lines that Arrow does not read as wanted, one by one."""
    to_text = _any_text if any_text else _json_text
    cells: list[list[Any]] = [[] for _ in columns]
    for number, line in enumerate(lines, first):
        if not line.strip():
            continue
        try:
            row = lenient_json(line) if lenient else _STRICT.decode(text_of_json(line))
            if not isinstance(row, dict):
                raise TypeError  # noqa: TRY301 - as what follows raises
            values = [
                lenient_text(row.get(name))
                if name in lenient
                else to_text(row[name])
                if name in text
                else _json_number(row[name])
                for name in columns
            ]
        except (ValueError, ArithmeticError, KeyError, TypeError, RecursionError) as error:
            # the library's own text may quote the line, which is private
            why = (
                f"line {number} of {path} is not a JSON object with the fields {', '.join(columns)}: text or integers "
                f"for keys and indices, {NUMBER_FORM} for values ({type(error).__name__}){_hint(line)}"
            )
            if on_bad is None:
                raise InvalidInputError(why) from None
            on_bad(number, why)
            continue
        for column, value in zip(cells, values, strict=True):
            column.append(value)
    kinds = [pa.string() if name in text else number_type() for name in columns]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, kind) for column, kind in zip(cells, kinds, strict=True)], columns
    )


def _hint(line: bytes) -> str:
    """Return what a line is that is not a JSON object in UTF-8, if that is known."""
    if kind := other_kind(line):
        return f". It {kind}"
    try:
        line.decode()
    except UnicodeDecodeError:
        return f". It {not_utf8(line)}"
    if line.strip().startswith(b"["):
        return ". It is an array: jq -c '.[]' makes one object in each line of an array of objects"
    return ""


def _json_text(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise TypeError
    text = str(value)
    text.encode()  # a lone surrogate has no UTF-8
    return text


def _any_text(value: object) -> str | None:
    if value is None or isinstance(value, bool):
        return None if value is None else str(value).lower()
    if isinstance(value, Decimal):
        return decimal_text(value)
    return _json_text(value)


def _json_number(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise TypeError
    return exact_decimal(Decimal(value), NUMBER_PLACES)


def _refuse(_: str) -> None:
    raise ValueError


_STRICT = json.JSONDecoder(parse_float=Decimal, parse_constant=_refuse)  # made once, as it costs more than a line
