"""What readers of all formats share: how files are opened, and what is wrong with one that was read."""

import codecs
from collections.abc import Iterator
from typing import Any

import numpy as np

from streamsketch.core import named, pa
from streamsketch.data.columns import NOT_SHOWN
from streamsketch.errors import InvalidInputError

BATCH_ROWS = 1 << 17


NUMBER_FORM = "plain decimal numbers of up to 12 places"
_READ_BYTES = 1 << 22
_CODECS = {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}


def number_type() -> "pa.DataType":
    """Return the type of numbers: exact, with twelve decimals."""
    return pa.decimal128(38, 12)


def raise_if_of_the_file_system(error: Exception) -> None:
    """Raise errors that have a number: those of a file's contents have none."""
    if isinstance(error, OSError) and error.errno is not None:
        raise error


def check_columns(path: str, columns: list[str], names: list[str]) -> None:
    """Raise `InvalidInputError` unless a file has all columns."""
    missing = [name for name in columns if name not in names]
    if missing:
        raise InvalidInputError(
            f"{path} has no column {named(missing)}; {NOT_SHOWN}. Rename a column, or name one that is there"
        )


def uncompressed(file: Any, path: str) -> Any:
    """Return a file as an Arrow stream, which decompresses it if its name ends as that of a compressed file."""
    stream = file if isinstance(file, pa.NativeFile) else pa.PythonFile(file, mode="r")
    codec = compression(path)
    return pa.CompressedInputStream(stream, codec) if codec else stream


def compression(path: str) -> str | None:
    """Return the codec given by the end of a file's name, or None."""
    return _CODECS.get(path.lower().rsplit(".", 1)[-1])


def arrows_own(data: bytes) -> "pa.Buffer":
    """Return a copy that Arrow's threads may let go of even while Python ends."""
    buffer = pa.allocate_buffer(len(data))
    np.frombuffer(buffer, dtype=np.uint8)[:] = np.frombuffer(data, dtype=np.uint8)
    return buffer


def blocks_of_lines(stream: Any, path: str) -> Iterator[list[bytes]]:
    """Yield the lines of a stream, without their ends and a byte order mark, some megabytes at a time."""
    rest = b""
    for block in _blocks(stream, path):
        *lines, rest = (rest + block).split(b"\n")
        if lines:
            yield lines
    if rest:
        yield [rest]


def _blocks(stream: Any, path: str) -> Iterator[bytes]:
    try:
        yield stream.read(len(codecs.BOM_UTF8)).removeprefix(codecs.BOM_UTF8)
        while block := stream.read(_READ_BYTES):
            yield block
    except OSError as error:
        raise_if_of_the_file_system(error)
        raise InvalidInputError(f"{path} cannot be decompressed: it is not valid, or was cut off") from None
