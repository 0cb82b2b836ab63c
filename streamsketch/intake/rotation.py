"""Find the files into which a log was rotated, and the one in which it was left."""

import gzip
import hashlib
import os
import re
import zlib
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from streamsketch.core.documents import Json
from streamsketch.errors import InvalidInputError

KNOWN_BY = 4096
"""Bytes at each end of what was read, by which a log is recognised."""

_SNAPSHOTS = 100  # how often files are listed, until two lists are equal

_NUMBER = re.compile(r"\d{1,5}")
_DATE = re.compile(r"\d{4}-?\d\d-?\d\d[\d:_T.Z-]*")


Opened: TypeAlias = FileIO | gzip.GzipFile


class LogFile(NamedTuple):
    """A file of a log: its path when it was listed, and its device and inode, which a rename keeps."""

    path: Path
    file: list[int]


class LostLogError(InvalidInputError):
    """Raised if a log is not where it was left, and not among its rotated files either."""

    reason = "retention"


def digest(data: bytes) -> str:
    """Return the digest by which bytes are recognised."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def identity(status: os.stat_result) -> list[int]:
    """Return device and inode of a file, which a rename keeps."""
    return [status.st_dev, status.st_ino]


def identity_at(path: Path) -> list[int] | None:
    """Return device and inode of the file at a path, or None if there is none."""
    try:
        return identity(path.stat())
    except FileNotFoundError:
        return None


def size_of(path: Path) -> int:
    """Return the size of a file in bytes, 0 if there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def open_rotated(path: Path) -> Opened:
    """Open a file for reading; one named ``.gz`` is uncompressed."""
    return gzip.open(path, "rb") if path.suffix == ".gz" else FileIO(path)


def open_again(path: Path, entry: LogFile) -> tuple[Opened, Path]:
    """Open a file of the log at ``path``, which may have been renamed since it was listed; return its path, too.

    Raises
    ------
    LostLogError
        If it is not there any more.
    """
    for other in (entry, *(other for other in files_of(path) if other.file == entry.file)):
        if file := _open_listed(other):
            return file, other.path
    raise LostLogError(f"{entry.path} was rotated or removed while it was opened; try again")


def _open_listed(entry: LogFile) -> Opened | None:
    """Open a file if it still is the one that was listed."""
    try:
        file = open_rotated(entry.path)
    except FileNotFoundError:
        return None
    if identity(os.fstat(file.fileno())) == entry.file:
        return file
    file.close()
    return None


def files_of(path: Path) -> list[LogFile]:
    """Return all files of a log, oldest first; the last one is at ``path``, if a file is there.

    Raises
    ------
    LostLogError
        If it is rotated faster than it can be listed.
    InvalidInputError
        As `rotated`.
    """
    before: list[LogFile] | None = None
    for _ in range(_SNAPSHOTS):
        files = _listed(path)
        if files is not None and files == before:
            return files
        before = files
    raise LostLogError(f"{path} is rotated faster than its files can be listed; rotate it less often")


def _listed(path: Path) -> list[LogFile] | None:
    """Return all files of a log; None if one was renamed meanwhile."""
    here = [LogFile(path, inode)] if (inode := identity_at(path)) else []
    try:
        older = [LogFile(other, identity(other.stat())) for other in rotated(path)]
    except FileNotFoundError:
        return None
    return [*(entry for entry in older if all(entry.file != other.file for other in here)), *here]  # no links to it


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
    files: dict[tuple[str, int | str], Path] = {}
    for other in sorted(path.parent.iterdir(), key=lambda file: (file.suffix == ".gz", file.name)):
        label = _label(other.name.removesuffix(".gz"), path)
        if _NUMBER.fullmatch(label):
            files.setdefault(("number", -int(label)), other)
        elif _DATE.fullmatch(label):
            files.setdefault(("date", re.sub(r"\D", "", label)), other)
    if len({kind for kind, _ in files}) > 1:
        names = ", ".join(sorted(file.name for file in files.values()))
        raise InvalidInputError(
            f"the rotated files of {path} are named by numbers and by dates ({names}), so their order is unknown; "
            "move away those that were read before"
        )
    return [files[key] for key in sorted(files)]


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


def chain(path: Path, position: Mapping[str, Any]) -> list[LogFile]:
    """Return the file in which a position is, and those that were begun after it.

    It is the file with the inode of the position, if its bytes are those that were read. Otherwise it is the only file
    with these bytes: a copy, a restored or a compressed one.

    Raises
    ------
    LostLogError
        If it is not there, cannot be distinguished from others, or a file after it is missing.
    """
    every, inode = files_of(path), position["file"]
    if every and every[-1] == LogFile(path, inode) and _is_in(every[-1], position):
        return every[-1:]
    plain = [entry for entry in every if entry.path.suffix != ".gz" and _is_in(entry, position)]
    matches = [entry for entry in plain if entry.file == inode]
    if not matches and (position["bytes"] or len(every) == 1):  # no bytes are in every file
        matches = plain
    if not matches and position["bytes"]:
        matches = [entry for entry in reversed(every) if entry.path.suffix == ".gz" and _is_in(entry, position)]
    if len(matches) != 1:
        raise LostLogError(_not_found(path, position, every, several=len(matches) > 1))
    return _without_gaps(every[every.index(matches[0]) :], path)


def unread(path: Path, position: Mapping[str, Any]) -> list[LogFile]:
    """Return the files of which nothing was read, from a position in which nothing of its file was read.

    They follow the file that ends at ``position["after"]``; if that is empty, there was no file before. So they are
    found even if the position's file was copied and truncated, or compressed.

    Raises
    ------
    LostLogError
        As `chain`, or if it is not known whether files are missing.
    """
    after, inode = position["after"], position["file"]
    if after:
        try:
            files = chain(path, after)[1:]
        except LostLogError:
            files = _from(files_of(path), inode, path)  # the file before is gone, but this one was renamed
            if files[0].path == path:
                raise
    else:
        files = _from(files_of(path), inode, path)
    if not files:
        raise LostLogError(f"{path} was read to its end, and was rotated then; put the newer file back")
    return _without_copies(_without_gaps(files, path), inode, path)


def _from(every: list[LogFile], inode: list[int], path: Path) -> list[LogFile]:
    """Return all files, if the oldest one surely is the one of which nothing was read: inodes are used again."""
    is_oldest = len(every) == 1 or any(entry.file == inode for entry in every) or every[0].path.suffix == ".gz"
    if len(every) > 2 or not is_oldest:
        names = ", ".join(entry.path.name for entry in every if entry.path != path)
        raise LostLogError(
            f"{path} was rotated before anything was read of it, so it is not known whether files before {names} are "
            "missing. Begin a new state and a new folder"
        )
    return every


def _without_copies(files: list[LogFile], inode: list[int], path: Path) -> list[LogFile]:
    """Leave out what a log is copied into while it is not truncated yet: what it holds is read there."""
    last = files[-1]
    if last != LogFile(path, inode) or not size_of(path):
        return files
    return [entry for entry in files if entry.file == inode or (end := end_of(entry)) is None or not _is_in(last, end)]


def end_of(entry: LogFile) -> Json | None:
    """Return the position at the end of a file; None if it cannot be read."""
    head = tail = b""
    size = 0
    try:
        file = _open_listed(entry)
        if file is None:
            return None
        with file:
            while block := file.read(1 << 20):
                head = (head + block[:KNOWN_BY])[:KNOWN_BY]
                tail = (tail + block)[-KNOWN_BY:]
                size += len(block)
    except (EOFError, OSError, zlib.error):
        return None
    ends = {"head": digest(head), "tail": digest(tail), "row": ""}
    return {"bytes": size, "line": 1, "header": "", **ends, "file": entry.file}


def end_of_newest(path: Path) -> Json | None:
    """Return the position at the end of the file into which a log was rotated last; an empty one if there is none.

    None if that is not known.
    """
    try:
        older = [entry for entry in files_of(path) if entry.path != path]
    except (InvalidInputError, OSError):
        return None
    return end_of(older[-1]) if older else {}


def grown_after(path: Path, position: Mapping[str, Any]) -> int:
    """Return how many bytes were written to the file that ends at a position, after that was its end."""
    older = [entry for entry in files_of(path) if entry.file == position["file"] and entry.path != path]
    if not position["bytes"] or not older or older[0].path.suffix == ".gz" or not _is_in(older[0], position):
        return 0
    return size_of(older[0].path) - int(position["bytes"])


def _not_found(path: Path, position: Mapping[str, Any], every: list[LogFile], *, several: bool) -> str:
    consumed, size = position["bytes"], size_of(path)
    why = (
        f"{path} has {size:,} byte{'' if size == 1 else 's'}, but {consumed:,} were read before"
        if size < consumed
        else f"{path} is not the log that was read before: the bytes at the beginning or the end of what was read "
        "differ"
    )
    names = ", ".join(entry.path.name for entry in every if entry.path != path)
    looked = f", and {'several' if several else 'none'} of its rotated files ({names}) may be" if names else ""
    return f"{why}{looked}. Put back the file that was read last, or begin a new state and a new folder"


def _is_in(entry: LogFile, position: Mapping[str, object]) -> bool:
    file = _open_listed(entry)
    if file is None:  # it was renamed meanwhile
        return False
    with file:
        return holds(file, position) is not None


def _without_gaps(files: list[LogFile], path: Path) -> list[LogFile]:
    """Return files; raise `LostLogError` if one between two numbers is missing."""
    numbers = [0 if entry.path == path else _label(entry.path.name.removesuffix(".gz"), path) for entry in files]
    before: int | None = None
    for number in (int(label) for label in numbers if isinstance(label, int) or _NUMBER.fullmatch(label)):
        if before is not None and before - number > 1:
            raise LostLogError(
                f"{path} was rotated, and its file number {before - 1} is missing between {before} and {number}; "
                "put it back"
            )
        before = number
    return files
