"""Lines of text as Arrow record batches."""

from typing import TYPE_CHECKING, Any

import numpy as np

from streamsketch.core import pa
from streamsketch.data.readers.opening import blocks_of_lines, check_columns, uncompressed
from streamsketch.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterator


def batches(file: Any, path: str, columns: list[str], _: list[str]) -> "Iterator[pa.RecordBatch]":
    """Yield the lines of a file, and its name: the columns ``line`` and ``file``."""
    try:
        check_columns(path, columns, ["file", "line"])
    except InvalidInputError as error:
        raise InvalidInputError(
            f"{error}, as it is read as lines of text. If it is CSV, state this format, on the command line "
            f"--format csv"
        ) from None
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
