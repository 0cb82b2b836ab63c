"""What readers of all formats share: how files are opened, and what is wrong with one that was read."""

import codecs
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from streamsketch.core.libraries import pa
from streamsketch.core.text import named
from streamsketch.data.columns import NOT_SHOWN
from streamsketch.data.decimals import DIGITS
from streamsketch.data.readers.streams import Transcoded
from streamsketch.errors import InvalidInputError

BATCH_ROWS = 1 << 17


NUMBER_PLACES = 12
NUMBER_FORM = f"plain decimal numbers of up to {NUMBER_PLACES} places"
_READ_BYTES = 1 << 22
_CODECS = {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}
_SNIFFED = 256  # bytes in which the zeros of UTF-16 are counted

# first bytes of what is often given under another name, and what to do with it
_OTHERS = (
    (b"PAR1", "a Parquet file", "name it .parquet, or state this format"),
    (b"PK\x03\x04", "a ZIP archive, as .xlsx workbooks are", "export the sheet as CSV"),
    (b"\xd0\xcf\x11\xe0", "a workbook of Excel (.xls)", "export the sheet as CSV"),
    (b"\x1f\x8b", "compressed by gzip", "add .gz to its name"),
    (b"BZh", "compressed by bzip2", "add .bz2 to its name"),
    (b"\x28\xb5\x2f\xfd", "compressed by Zstandard", "add .zst to its name"),
    (b"Obj\x01", "an Avro file", "name it .avro"),
    (b"ARROW1", "an Arrow or Feather file", "write it as Parquet"),
    (b"ORC", "an ORC file", "write it as Parquet"),
    (b"SQLite format 3\0", "a database of SQLite", "export the table as CSV"),
    (b"%PDF", "a PDF document", "export its table as CSV"),
)
_UTF_16 = "text in UTF-16"
_STATE_IT = "state its encoding, such as encoding='{0}', on the command line --set encoding={0}"


def open_file(path: str | os.PathLike[str]) -> Any:
    """Return a file of Arrow, also for a name that is not UTF-8.

    It is Arrow's file, not Python's: Arrow's threads may outlive an error, and to let go of Python's bytes while the
    interpreter exits would abort. It is not to be closed, as they may still be reading: it closes itself.
    """
    return pa.OSFile(os.fsencode(path))


def other_kind(start: bytes) -> str:
    """Return what else a file is that cannot be read as text in UTF-8, and a remedy, by its first bytes; or nothing.

    It is asked after an error alone: a valid file of CSV may begin with any of these letters.
    """
    for first, what, remedy in _OTHERS:
        if start.startswith(first):
            return f"is {what}; {remedy}"
    zeros = start[:_SNIFFED].count(0)
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or 3 * zeros > len(start[:_SNIFFED]):
        return f"is {_UTF_16}, not in UTF-8; {_STATE_IT.format('utf-16')}"
    return ""


def not_utf8(start: bytes) -> str:
    """Return what the encoding of text that is not UTF-8 may be, and a remedy."""
    return other_kind(start) or (
        f"is not in UTF-8, but perhaps in Latin-1 or a Windows code page; {_STATE_IT.format('cp1252')} (cp1250 or "
        "iso8859-2 for central Europe)"
    )


def spelt_alike(names: Sequence[str], others: Sequence[str]) -> str:
    """Return a hint if one of the names is among the others in another case, or with blanks at its ends; or nothing.

    Nothing of the others is shown: they may be a private row of a file without a header.
    """
    for name in names:
        for other in others:
            if other != name and other.strip("\ufeff \t").casefold() == name.strip().casefold():
                return f"; a column's name differs from {named([name])} in case or in blanks"
    return ""


def number_type() -> "pa.DataType":
    """Return the type of numbers: exact, with twelve decimals."""
    return pa.decimal128(DIGITS, NUMBER_PLACES)


def raise_if_of_the_file_system(error: Exception) -> None:
    """Raise errors that have a number: those of a file's contents have none."""
    if isinstance(error, OSError) and error.errno is not None:
        raise error


def check_columns(path: str, columns: list[str], names: list[str]) -> None:
    """Raise `InvalidInputError` unless a file has all columns."""
    missing = [name for name in columns if name not in names]
    if missing:
        raise InvalidInputError(
            f"{path} has no column {named(missing)}{spelt_alike(missing, names)}; {NOT_SHOWN}. Rename a column, or "
            "name one that is there"
        )


def uncompressed(file: Any, path: str, encoding: str | None = None, *, is_whole: bool = True) -> Any:
    """Return a file as a stream of text in UTF-8; it is decompressed if its name ends as that of a compressed file.

    Parameters
    ----------
    file
        A file of Arrow or of Python, at its beginning.
    path
        Its name.
    encoding
        As `check_encoding` returns it; None for UTF-8.
    is_whole
        Whether it is the whole file, not only its beginning.

    Raises
    ------
    InvalidInputError
        If a compressed file has no bytes.
    """
    stream = file if isinstance(file, pa.NativeFile) else pa.PythonFile(file, mode="r")
    codec = compression(path)
    if codec:
        if not stream.read(1):
            raise InvalidInputError(
                f"{path} has 0 bytes, and even a compressed file without rows has some: it was cut off, or not written"
            )
        stream.seek(0)
        stream = pa.CompressedInputStream(stream, codec)
    return stream if encoding is None else Transcoded(stream, encoding, path, is_whole=is_whole)


def compression(path: str) -> str | None:
    """Return the codec given by the end of a file's name, or None."""
    return _CODECS.get(path.lower().rsplit(".", 1)[-1])


def arrows_own(data: bytes) -> "pa.Buffer":
    """Return a copy that Arrow's threads may let go of even while Python ends."""
    buffer = pa.allocate_buffer(len(data))
    np.frombuffer(buffer, dtype=np.uint8)[:] = np.frombuffer(data, dtype=np.uint8)
    return buffer


def block_size(size: int | None) -> int:
    """Return how many bytes of text are read at a time: the given number, or some megabytes."""
    return size or _READ_BYTES


def blocks_of_lines(stream: Any, path: str, block_bytes: int | None = None) -> Iterator[list[bytes]]:
    """Yield the lines of a stream, without their ends and a byte order mark, some megabytes at a time."""
    rest = b""
    for block in _blocks(stream, path, block_size(block_bytes)):
        *lines, rest = (rest + block).split(b"\n")
        if lines:
            yield lines
    if rest:
        yield [rest]


def _blocks(stream: Any, path: str, size: int) -> Iterator[bytes]:
    try:
        yield stream.read(len(codecs.BOM_UTF8)).removeprefix(codecs.BOM_UTF8)
        while block := stream.read(size):
            yield block
    except OSError as error:
        raise_if_of_the_file_system(error)
        raise InvalidInputError(f"{path} cannot be decompressed: it is not valid, or was cut off") from None
