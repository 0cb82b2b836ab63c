"""Find the files into which a log was rotated, and the one in which it was left."""

import gzip
import hashlib
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from io import FileIO
from pathlib import Path
from typing import Any, TypeAlias

from streamsketch.errors import InvalidInputError

KNOWN_BY = 4096
"""Bytes at each end of what was read, by which a log is recognised."""

_NUMBER = re.compile(r"\d{1,5}")
_DATE = re.compile(r"\d{4}-?\d\d-?\d\d[\d:_T.Z-]*")


Opened: TypeAlias = FileIO | gzip.GzipFile


class LostLogError(InvalidInputError):
    """Raised if a log is not where it was left, and not among its rotated files either."""


def digest(data: bytes) -> str:
    """Return the digest by which bytes are recognised."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def identity(status: os.stat_result) -> list[int]:
    """Return device and inode of a file, which a rename keeps."""
    return [status.st_dev, status.st_ino]


def open_rotated(path: Path) -> Opened:
    """Open a file for reading; one named ``.gz`` is uncompressed."""
    return gzip.open(path, "rb") if path.suffix == ".gz" else FileIO(path)


def rotated(path: Path) -> list[Path]:
    """Return the files into which a log was rotated, oldest first.

    Those are named as by logrotate and by the handlers of Python: ``log.csv.1``, ``log.1.csv``, ``log.csv-20261122``,
    ``log.csv.2026-11-22_13``, ``log-20261122.csv``, all of these also with ``.gz``. A higher number is older, a later
    date is newer.

    Raises
    ------
    InvalidInputError
        If some are named by numbers and others by dates, so that their order is unknown.
    """
    found: dict[tuple[str, int | str], Path] = {}
    for other in sorted(path.parent.iterdir(), key=lambda one: (one.suffix == ".gz", one.name)):
        label = _label(other.name.removesuffix(".gz"), path)
        if _NUMBER.fullmatch(label):
            found.setdefault(("number", -int(label)), other)
        elif _DATE.fullmatch(label):
            found.setdefault(("date", re.sub(r"\D", "", label)), other)
    if len({kind for kind, _ in found}) > 1:
        names = ", ".join(sorted(one.name for one in found.values()))
        raise InvalidInputError(
            f"the rotated files of {path} are named by numbers and by dates ({names}), so their order is unknown; "
            "move away those that were read before"
        )
    return [found[key] for key in sorted(found)]


def _label(name: str, path: Path) -> str:
    """Return the number or date of a rotated file; empty if the file is another."""
    for before, after in ((path.name, ""), (path.stem, path.suffix)):
        if name.startswith(before) and name.endswith(after) and name[len(before) : len(before) + 1] in (".", "-", "_"):
            label = name[len(before) + 1 : len(name) - len(after)]
            if _NUMBER.fullmatch(label) or _DATE.fullmatch(label):
                return label
    return ""


def holds(file: Opened, position: Mapping[str, Any]) -> tuple[bytes, bytes] | None:
    """Return the first and last bytes before a position if a file has those that were read before; else None."""
    consumed = position["bytes"]
    count = min(consumed, KNOWN_BY)
    try:
        head = _bytes_at(file, 0, count)
        tail = _bytes_at(file, consumed - count, count)
    except (EOFError, gzip.BadGzipFile, zlib.error):  # it is being compressed
        return None
    ends = len(head) == len(tail) == count and (digest(head), digest(tail)) == (position["head"], position["tail"])
    return (head, tail) if ends else None


def _bytes_at(file: Opened, at: int, count: int) -> bytes:
    file.seek(at)
    return file.read(count)


def chain(path: Path, position: Mapping[str, Any]) -> list[Path]:
    """Return the file in which a position is, and those that were begun after it; the last one is ``path``.

    It is the file with the inode of the position, if its bytes are those that were read. Otherwise it is the only file
    with these bytes: a copy, a restored or a compressed one.

    Raises
    ------
    LostLogError
        If it is not there, cannot be distinguished from others, or a file after it is missing.
    """
    known = position.get("file")
    if known is None or (path.exists() and identity(path.stat()) == known and _is_in(path, position)):
        return [path]
    every = [*_older(path), path]
    plain = [one for one in every if one.suffix != ".gz" and _is_in(one, position)]
    matches = [one for one in plain if identity(one.stat()) == known]
    if not matches and (position["bytes"] or len(every) == 1):  # no bytes are in every file
        matches = plain
    if not matches and position["bytes"]:
        matches = [one for one in reversed(every) if one.suffix == ".gz" and _is_in(one, position)]
    if len(matches) != 1:
        raise LostLogError(_not_found(path, position, every, several=len(matches) > 1))
    return list(_without_gaps(every[every.index(matches[0]) :], path))


def unread(path: Path, position: Mapping[str, Any]) -> list[Path]:
    """Return the files of which nothing was read, from a position in which nothing of its file was read.

    They follow the file that ends ``position["after"]``; if that is empty, there was no file before. So they are found
    even if the position's file was copied and truncated, or compressed.

    Raises
    ------
    LostLogError
        As `chain`, or if the file before is the one at ``path``.
    """
    after = position["after"]
    if not after:
        return list(_without_gaps([*_older(path), path], path))
    try:
        found = chain(path, after)[1:]
    except LostLogError:
        if path.exists() and identity(path.stat()) == position["file"]:
            raise
        return chain(path, position)  # the file before is gone, but this one was renamed
    if not found:
        raise LostLogError(f"{path} was read to its end, and was rotated then; put the newer file back")
    return found


def end_of_newest(path: Path) -> dict[str, Any] | None:
    """Return the position at the end of the file into which a log was rotated last; an empty one if there is none.

    None if it cannot be read, or only by uncompressing all of it.
    """
    try:
        older = _older(path)
        if not older:
            return {}
        if older[-1].suffix == ".gz":
            return None
        with open_rotated(older[-1]) as file:
            status = os.fstat(file.fileno())
            count = min(status.st_size, KNOWN_BY)
            head, tail = _bytes_at(file, 0, count), _bytes_at(file, status.st_size - count, count)
    except (InvalidInputError, OSError):
        return None
    ends = {"head": digest(head), "tail": digest(tail), "row": ""}
    return {"bytes": status.st_size, "line": 1, "header": "", **ends, "file": identity(status)}


def _older(path: Path) -> list[Path]:
    """Return the rotated files of a log, oldest first, without links to the log itself."""
    older = rotated(path)
    return [one for one in older if not one.samefile(path)] if path.exists() else older


def _not_found(path: Path, position: Mapping[str, Any], every: list[Path], *, several: bool) -> str:
    consumed, size = position["bytes"], path.stat().st_size if path.exists() else 0
    why = (
        f"{path} has {size:,} byte{'' if size == 1 else 's'}, but {consumed:,} were read before"
        if size < consumed
        else f"{path} is not the log that was read before: the bytes at the beginning or the end of what was read "
        "differ"
    )
    names = ", ".join(one.name for one in every if one != path)
    looked = f", and {'several' if several else 'none'} of its rotated files ({names}) may be" if names else ""
    return f"{why}{looked}. Put back the file that was read last, or begin a new state and a new folder"


def _is_in(path: Path, position: Mapping[str, Any]) -> bool:
    try:
        with open_rotated(path) as file:
            return holds(file, position) is not None
    except FileNotFoundError:  # it was renamed meanwhile
        return False


def _without_gaps(files: list[Path], path: Path) -> Iterator[Path]:
    """Yield files; raise `InvalidInputError` if one between two numbers is missing."""
    before: int | None = None
    for one in files:
        label = "0" if one == path else _label(one.name.removesuffix(".gz"), path)
        if _NUMBER.fullmatch(label):
            number = int(label)
            if before is not None and before - number > 1:
                raise LostLogError(
                    f"{path} was rotated, and its file number {before - 1} is missing between {before} and {number}; "
                    "put it back"
                )
            before = number
        yield one
