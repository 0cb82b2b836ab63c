"""Files of each format as Arrow record batches, without guessing types: each format has a reader."""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from streamsketch.data.readers import delimited, json_lines, parquet, text_lines
from streamsketch.data.readers.delimited import Dialect
from streamsketch.data.readers.opening import blocks_of_lines, uncompressed
from streamsketch.errors import InvalidInputError

if TYPE_CHECKING:
    from streamsketch.core.libraries import pa

Format: TypeAlias = Literal["csv", "jsonl", "lines", "avro", "parquet"]

_NAMES: dict[str, Format] = {"csv": "csv", "jsonl": "jsonl", "ndjson": "jsonl", "txt": "lines", "log": "lines"}
_NAMED = re.compile(rf"\.({'|'.join(_NAMES)})(\.(gz|bz2|zst))?$")


def format_of(path: str) -> Format:
    """Return the format given by a file's name; Parquet if the name has no known ending."""
    if path.lower().endswith(".avro"):
        return "avro"
    named = _NAMED.search(path.lower())
    return _NAMES[named[1]] if named else "parquet"


def parts_of(file: object, path: str, form: Format | None = None) -> int:
    """Return how many parts a file is read in: a Parquet file's row groups, 1 for those read whole.

    The file is one of Python's, or Arrow's own; its format is by default the one given by its name.
    """
    return parquet.row_groups(file, path) if (form or format_of(path)) == "parquet" else 1


def batches(  # noqa: PLR0913 - what a format leaves open
    file: object,
    path: str,
    part: int,
    columns: list[str],
    text: list[str],
    form: Format | None = None,
    *,
    dialect: Dialect = Dialect(),  # noqa: B008 - it is not changed
    any_text: bool = False,
    lenient: Sequence[str] = (),
    block_bytes: int | None = None,
    multiline: bool = False,
) -> "Iterator[pa.RecordBatch]":
    """Return the batches of a part of a file, columns of ``text`` as text where the format leaves it open.

    With ``any_text``, these columns also accept JSON's numbers, booleans and nulls; ``lenient`` columns any JSON. The
    encoding of the ``dialect`` is that of all text. ``block_bytes`` of it are read at a time, by default megabytes.
    With ``multiline``, cells of CSV may hold line breaks within quotes.
    """
    form = form or format_of(path)
    if form == "parquet":
        return parquet.batches(file, path, part, columns)
    if form == "avro":
        return _avro(file, path, columns, text)
    if form == "csv":
        return delimited.batches(file, path, columns, text, dialect, block_bytes, multiline=multiline)
    lines = blocks_of_lines(uncompressed(file, path, dialect.encoding), path, block_bytes)
    if form == "jsonl":
        return json_lines.batches(lines, path, columns, text, any_text=any_text, lenient=lenient)
    return text_lines.batches(lines, path, columns)


def _avro(file: object, path: str, columns: list[str], text: list[str]) -> "Iterator[pa.RecordBatch]":
    try:
        from streamsketch.data.readers import avro  # noqa: PLC0415 - an extra, which only Avro files need
    except ImportError:
        raise InvalidInputError(f"{path}: reading Avro needs fastavro (the extra `beam` of streamsketch)") from None
    return avro.batches(file, path, columns, text)
