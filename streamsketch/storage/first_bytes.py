"""Which files are raw, by their first bytes. Readers of releases ask this without loading the reader of raw files."""

import os
from pathlib import Path

from streamsketch.release.published import OTHER_FILES, OtherFile

SUFFIX = ".raw-sketch"
RAW = b"SSRW"
"""The kind of the SQLite files."""
OLD_RAW = b"\x89SSRAW\r\n\x1a\nSECRET: a raw sketch of streamsketch, not to be shared\n"
"""The first bytes of files of earlier versions."""

_START_BYTES = 72  # at the start of a file, which identify its kind


def is_raw(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is a raw one by its first bytes, whatever its name.

    Examples
    --------
    >>> path = getfixture("tmp_path") / "north.sketch"
    >>> _ = path.write_bytes(b"not a raw sketch")
    >>> is_raw(path)
    False
    """
    with Path(path).open("rb") as file:
        start = file.read(_START_BYTES)
    return (start.startswith(b"SQLite format 3\0") and start[68:] == RAW) or is_old_sketch(start)


def is_old_sketch(start: bytes) -> bool:
    """Return whether bytes begin as raw sketches of earlier versions do."""
    return start.startswith(OLD_RAW)


OTHER_FILES.enter(
    "raw sketch", OtherFile(is_raw, "a raw sketch, which is secret: read it with streamsketch.storage.load_raw(path)")
)
