"""The names of a file's columns, by its header line, its first object or its schema; no row is read."""

import csv
import json
from pathlib import Path

import streamsketch as ss
from streamsketch.core.libraries import pa, pq
from streamsketch.data.readers.formats import format_of
from streamsketch.data.readers.opening import open_file, uncompressed

_MOST_BYTES = 1 << 20  # of a first line


def columns_in(path: Path) -> list[str]:
    """Return the names of a file's columns, in order.

    Raises
    ------
    InvalidInputError
        If the file is not what its name says.
    OSError
        If it cannot be read.
    """
    path.open("rb").close()  # Arrow's error would not name it
    form, file = format_of(str(path)), open_file(path)
    if form == "parquet":
        try:
            return list(pq.read_schema(file).names)
        except pa.ArrowInvalid:
            raise ss.InvalidInputError(f"{path} is not a Parquet file") from None
    start = bytes(uncompressed(file, str(path)).read(_MOST_BYTES))
    line = start.split(b"\n", 1)[0].rstrip(b"\r").decode("utf-8-sig", errors="replace")
    if form == "csv":
        return next(csv.reader([line]), [])
    try:
        first = json.loads(line)
    except (ValueError, RecursionError):
        first = None
    if not isinstance(first, dict):
        raise ss.InvalidInputError(f"{path} does not begin with a JSON object")
    return list(first)
