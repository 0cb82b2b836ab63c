"""Arrow columns of any layout: which of their cells are missing, and how to read rows if some are bad."""

import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.libraries import pa, pc
from streamsketch.core.numbers import Ints
from streamsketch.data.columns import is_ascii, is_text_type, value_type
from streamsketch.errors import InvalidInputError

Mask: TypeAlias = NDArray[np.bool_]
Read = TypeVar("Read")

_ROW = re.compile(r"\bin row \d[\d,]*(?<=\d)")


class BadRowsError(InvalidInputError):
    """Rows of a batch cannot be added, and nothing of the batch was.

    Parameters
    ----------
    text
        What is wrong with the first of them.
    rows
        What is wrong with each of them, by their places in the batch: all that can be judged without the others.
    """

    def __init__(self, text: str, rows: dict[int, str]) -> None:
        super().__init__(text)
        self.rows = rows


def with_row(text: str, row: int) -> str:
    """Return what is wrong with a row, with another number of the row.

    Examples
    --------
    >>> with_row("the column sold is null or blank in row 1,017, and the agreement refuses missing values", 3)
    'the column sold is null or blank in row 3, and the agreement refuses missing values'
    """
    return _ROW.sub(f"in row {row:,}", text)


def plain(array: "pa.Array") -> "pa.Array":
    """Return a column in a layout that all of Arrow's kernels support; equal values stay equal.

    Views and fixed-size binary become large strings and large binary. A dictionary that contains null is decoded.
    """
    if pa.types.is_dictionary(array.type):
        words = plain(array.dictionary)
        if words.type != array.type.value_type:
            array = pa.DictionaryArray.from_arrays(array.indices, words)
        return array.dictionary_decode() if words.null_count else array
    if pa.types.is_string_view(array.type):
        return array.cast(pa.large_string())
    if pa.types.is_binary_view(array.type) or pa.types.is_fixed_size_binary(array.type):
        return array.cast(pa.large_binary())
    return array


def without_views(rows: Any) -> Any:
    """Return a batch or a table without views of text and bytes, which few of Arrow's kernels read and polars writes.

    Examples
    --------
    >>> without_views(pa.table({"at": pa.array(["2026-11-22"], pa.string_view())})).schema.types
    [DataType(large_string)]
    """
    for place, kind in enumerate(rows.schema.types):
        if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
            plain_type = pa.large_string() if pa.types.is_string_view(kind) else pa.large_binary()
            field = rows.schema.field(place).with_type(plain_type)
            rows = rows.set_column(place, field, rows.column(place).cast(plain_type))
    return rows


def single_value(column: "pa.Array") -> "pa.Array":
    """Return a column of one row without its dictionary, whose other words may be malformed."""
    if not pa.types.is_dictionary(column.type):
        return column
    column.indices.validate(full=True)
    place = column.indices[0].as_py()
    if place is None:
        return pa.nulls(1, column.type.value_type)
    if not 0 <= place < len(column.dictionary):
        raise InvalidInputError("a row has a dictionary code that its dictionary does not contain")
    return column.dictionary.slice(place, 1)


def missing(array: "pa.Array") -> Mask:
    """Return which rows are missing: null, NaN, or blank text: bool, (n,)."""
    if pa.types.is_dictionary(array.type):
        without = pa.array(missing(array.dictionary))
        return _flags(pc.fill_null(without.take(array.indices), fill_value=True))
    if is_text_type(array.type):
        lengths = pc.binary_length(plain(array))
        blank: Mask = (pc.fill_null(lengths, 0) if lengths.null_count else lengths).to_numpy() == 0
        return blank
    if not array.null_count and not pa.types.is_floating(array.type):
        return np.zeros(len(array), dtype=np.bool_)
    return _flags(pc.is_null(array, nan_is_null=True))


def null(array: "pa.Array") -> Mask:
    """Return which rows are null: bool, (n,)."""
    return _flags(array.is_null()) if array.null_count else np.zeros(len(array), dtype=np.bool_)


def _flags(array: "pa.Array") -> Mask:
    flags: Mask = array.to_numpy(zero_copy_only=False)
    return flags if flags.flags.writeable else flags.copy()


def check_text(array: "pa.Array", name: str) -> None:
    """Raise `InvalidInputError` for text that is not UTF-8."""
    if is_text_type(value_type(array)):
        texts = array.dictionary if pa.types.is_dictionary(array.type) else array
        if is_ascii(texts):
            return
        try:
            texts.validate(full=True)
        except pa.ArrowInvalid:
            raise InvalidInputError(f"the {name} column holds text that is not valid UTF-8") from None


def salvage(
    read: Callable[[int, int], Read],
    count: int,
    on_bad: Callable[[int, Exception], Any],
    errors: Any = InvalidInputError,
) -> Iterator[Read]:
    """Read rows all at once if possible, else by bisection without the bad ones; yield the results in order.

    Parameters
    ----------
    read
        A function of a start and a stop that reads those rows at once.
    count
        Number of rows.
    on_bad
        A function that is called with the position of each row that cannot be read by itself, and with the error.
    errors
        The exceptions that ``read`` raises for a bad row. Other exceptions propagate. So does an error for an empty
        range, because then the columns are wrong, not a row.

    Examples
    --------
    >>> cells = ["1", "2", "x", "4"]
    >>> bad = []
    >>> read = lambda start, stop: [int(cell) for cell in cells[start:stop]]
    >>> list(salvage(read, 4, lambda place, error: bad.append(place), ValueError)), bad
    ([[1, 2], [4]], [2])
    """
    waiting = [(0, count)]
    while waiting:
        start, stop = waiting.pop()
        try:
            part = read(start, stop)
        except errors as error:
            if start == stop:
                raise
            if (start, stop) == (0, count):
                read(0, 0)
            if stop - start == 1:
                on_bad(start, error)
                continue
            middle = (start + stop) // 2
            waiting += [(middle, stop), (start, middle)]
            continue
        yield part


def add_readable(
    add: Callable[["pa.RecordBatch", Ints], Any],
    batch: "pa.RecordBatch",
    on_bad: Callable[[int, Exception], Any],
    errors: Any = InvalidInputError,
) -> int:
    """Add a batch without its bad rows, and return how many were added: every reader's way to leave rows out.

    If `BadRowsError` says which rows are bad, they are left out together, so that many cost little more than few. Only
    rows of which that is not known are found by bisection.

    Parameters
    ----------
    add
        A function of rows and of their places in the batch, int64, (n,). It must raise before it changes anything.
    batch
        The rows.
    on_bad
        A function that is called with the place of each bad row, and with the error.
    errors
        The exceptions that ``add`` raises for bad rows, as for `salvage`.

    Examples
    --------
    >>> added, bad = [], []
    >>> def add(rows, places):
    ...     wrong = [at for at, cell in enumerate(rows.column("sold").to_pylist()) if cell < 0]
    ...     if wrong:
    ...         raise BadRowsError("sold is negative", dict.fromkeys(wrong, "sold is negative"))
    ...     added.extend(rows.column("sold").to_pylist())
    >>> rows = pa.RecordBatch.from_pydict({"sold": [1, -2, 3, -4]})
    >>> add_readable(add, rows, lambda place, error: bad.append(place)), added, bad
    (2, [1, 3], [1, 3])
    """
    places = np.arange(batch.num_rows)
    while places.size:
        try:
            add(batch, places)
        except BadRowsError as error:
            bad = sorted(error.rows)
            for place in bad:
                on_bad(int(places[place]), InvalidInputError(error.rows[place]))
            good = np.ones(places.size, dtype=np.bool_)
            good[bad] = False
            batch, places = batch.filter(pa.array(good)), places[good]
        except errors:
            break
        else:
            return int(places.size)
    if not places.size:
        return 0
    left, refused = batch, 0

    def refuse(place: int, error: Exception) -> None:
        nonlocal refused
        refused += 1
        on_bad(int(places[place]), error)

    def read(start: int, stop: int) -> None:
        add(left.slice(start, stop - start), places[start:stop])

    deque(salvage(read, places.size, refuse, errors), 0)
    return int(places.size) - refused
