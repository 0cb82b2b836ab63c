"""Lines of text as Arrow record batches."""

from typing import TYPE_CHECKING, Any

import numpy as np

from streamsketch.core import pa
from streamsketch.data.readers.opening import blocks_of_lines, uncompressed
from streamsketch.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterator

_COLUMNS = ("file", "line")


def batches(file: Any, path: str, columns: list[str], _: list[str]) -> "Iterator[pa.RecordBatch]":
    """Yield the lines of a file, and its name: the columns ``line`` and ``file``."""
    if missing := [name for name in columns if name not in _COLUMNS]:
        raise InvalidInputError(
            f"{path} has no column {', '.join(missing)}, only {', '.join(_COLUMNS)}, as it is read as lines of text. "
            f"If it is CSV, state this format, on the command line --format csv"
        )
    for lines in blocks_of_lines(uncompressed(file, path), path):
        yield _lines(lines, path, columns)


def _lines(lines: list[bytes], path: str, columns: list[str]) -> "pa.RecordBatch":
    try:
        line = pa.array([line.removesuffix(b"\r") for line in lines], pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        raise InvalidInputError(f"{path} has a line that is not UTF-8; convert it first") from None
    name = pa.DictionaryArray.from_arrays(np.zeros(len(lines), dtype=np.int32), [path])
    found = {"file": name, "line": line}
    return pa.RecordBatch.from_pydict({column: found[column] for column in columns})
