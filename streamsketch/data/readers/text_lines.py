"""Lines of text as Arrow record batches."""

from typing import TYPE_CHECKING

import numpy as np

from streamsketch.core.libraries import pa
from streamsketch.data.readers.opening import not_utf8
from streamsketch.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_COLUMNS = ("file", "line")


def batches(blocks: "Iterable[list[bytes]]", path: str, columns: list[str]) -> "Iterator[pa.RecordBatch]":
    """Yield lines, and the name of their file: the columns ``line`` and ``file``."""
    if missing := [name for name in columns if name not in _COLUMNS]:
        raise InvalidInputError(
            f"{path} has no column {', '.join(missing)}, only {', '.join(_COLUMNS)}, as it is read as lines of text. "
            f"If it is CSV, state this format, on the command line --set format=csv"
        )
    for lines in blocks:
        yield _lines(lines, path, columns)


def _lines(lines: list[bytes], path: str, columns: list[str]) -> "pa.RecordBatch":
    try:
        line = pa.array([line.removesuffix(b"\r") for line in lines], pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        raise InvalidInputError(f"{path} has a line that is not UTF-8: it {not_utf8(_first_bad(lines))}") from None
    shown = path.encode(errors="backslashreplace").decode()  # a name may have bytes that are not UTF-8
    name = pa.DictionaryArray.from_arrays(np.zeros(len(lines), dtype=np.int32), [shown])
    arrays = {"file": name, "line": line}
    return pa.RecordBatch.from_pydict({column: arrays[column] for column in columns})


def _first_bad(lines: list[bytes]) -> bytes:
    """Return the first of the lines that is not UTF-8."""
    for line in lines:
        try:
            line.decode()
        except UnicodeDecodeError:
            return line
    return b""
