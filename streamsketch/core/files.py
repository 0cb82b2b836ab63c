"""Atomic writes of files."""

import contextlib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from io import FileIO
from pathlib import Path

from streamsketch.errors import InvalidInputError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

_ALL, _OWNER, _OTHERS = 0o666, 0o600, 0o077
_RANDOM_BYTES = 4


def write_whole(path: str | os.PathLike[str], data: bytes | Iterable[bytes], *, secret: bool = False) -> None:
    """Write a file atomically: it appears whole or not at all, even if the power fails.

    Parameters
    ----------
    path
        The destination. An existing file is replaced; a symbolic link is kept, and its target replaced.
    data
        The content, whole or in parts.
    secret
        Whether only the owner may read the file.

    Raises
    ------
    OSError
        If the file cannot be written. The error names ``path``, which is unchanged.
    """
    with replacing(path, secret=secret) as partial, partial.open("wb") as file:
        file.writelines([data] if isinstance(data, bytes) else data)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], *, secret: bool = False) -> Iterator[Path]:
    """Yield the name of an empty file, which replaces another once the block has written it; as `write_whole`.

    If the block raises or the power fails, the other one does not change.

    Raises
    ------
    OSError
        If the file cannot be written. The error names ``path``, which is unchanged.
    """
    target = Path(path).resolve()
    partial = target.with_name(f".{target.name}.{os.urandom(_RANDOM_BYTES).hex()}")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER if secret else _ALL)
        try:
            yield partial
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        partial.replace(target)
        _synchronise(target.parent)
    except OSError as error:
        # the system names the partial file, or none at all when the disk is full
        raise type(error)(error.errno, error.strerror, str(path)) from error
    finally:
        partial.unlink(missing_ok=True)


def remove_partial(path: str | os.PathLike[str]) -> None:
    """Remove what interrupted writes of a file left behind; the caller holds `locked`, so no write is in progress."""
    target = Path(path).resolve()
    partial = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{{2 * _RANDOM_BYTES}}}")
    with contextlib.suppress(OSError):  # the write itself reports what is wrong
        for found in target.parent.iterdir():
            if partial.fullmatch(found.name):
                found.unlink(missing_ok=True)


def write_new(path: str | os.PathLike[str], data: bytes, *, modified: float | None = None) -> bool:
    """Write a file that must not be there yet, whole or not at all; return whether it was not.

    What an interrupted call for the same name left behind is removed, so one process at a time may write a name.

    Parameters
    ----------
    path
        The destination, which is never replaced.
    data
        The content.
    modified
        The time the file shows, in seconds since 1970, so that it does not show when it was written.

    Raises
    ------
    OSError
        If the file cannot be written, or the file system knows no hard links.
    """
    target = Path(path).resolve()
    remove_partial(target)
    partial = target.with_name(f".{target.name}.{os.urandom(_RANDOM_BYTES).hex()}")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _ALL)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if modified is not None:
                os.utime(partial, (modified, modified))
            os.fsync(file.fileno())
        return _link(partial, target)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from error
    finally:
        partial.unlink(missing_ok=True)


def create_file(path: str | os.PathLike[str], data: bytes, *, mode: int = _ALL) -> bool:
    """Create a file with its content, whole; return whether it was not there.

    As in `write_new`, but any number of processes may try to create the same name at once, and one succeeds. The folder
    is made if it does not exist. What an interrupted call leaves behind begins with a dot, and stays.

    Parameters
    ----------
    path
        The destination, which is never replaced.
    data
        The content.
    mode
        Who may use the file, less the process's umask.

    Raises
    ------
    OSError
        If the file cannot be written, or the file system knows no hard links.
    """
    target = Path(path)
    made = [folder for folder in target.parents if not folder.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    for folder in made:
        _synchronise(folder.parent)
    partial = target.with_name(f".{target.name}.{os.urandom(_RANDOM_BYTES).hex()}")
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return _link(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def _link(partial: Path, target: Path) -> bool:
    """Give a file the name that it is to have; return whether no file had it. Either way the name survives a crash."""
    try:
        os.link(partial, target)  # fails where the file exists; with O_EXCL others could see it half written
    except FileExistsError:
        return False
    finally:
        _synchronise(target.parent)  # whoever made the file may have been killed before
    return True


@contextlib.contextmanager
def exclusive(path: str | os.PathLike[str]) -> Iterator[None]:
    """Hold a file for as long as the block runs, by an empty lock file beside it that stays.

    Raises
    ------
    InvalidInputError
        If another process holds it. On systems without such locks, nothing is held.
    """
    target = Path(path).resolve()
    descriptor = os.open(target.with_name(f".{target.name}.lock"), os.O_RDWR | os.O_CREAT, _OWNER)
    try:
        if fcntl is not None:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InvalidInputError(f"{path} is in use by another process; end that one first") from None
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def appending(path: str | os.PathLike[str]) -> Iterator[FileIO]:
    """Open a file that only grows, readable by the owner alone, and lock it: yield it, without a buffer.

    A file is made where there is none. What is written with `append` survives a crash.

    Raises
    ------
    OSError
        If it cannot be opened or locked. On systems without such locks, nothing is locked.
    """
    target = Path(path).resolve()
    is_new = not target.exists()
    with open(target, "a+b", buffering=0, opener=lambda name, flags: os.open(name, flags, _OWNER)) as file:
        if is_new:
            _synchronise(target.parent)
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def append(file: FileIO, data: bytes) -> None:
    """Write to the end of a file that `appending` opened, and wait until the disk has it."""
    write_all(file, data)
    os.fsync(file.fileno())


def open_secret(path: Path) -> FileIO:
    """Open a file to append to, without a buffer; make it readable by the owner alone, also if it was there."""
    if not path.exists():
        write_whole(path, b"", secret=True)
    file = path.open("ab", buffering=0)
    mode = os.fstat(file.fileno()).st_mode
    if stat.S_ISREG(mode) and mode & _OTHERS:  # a copy, perhaps
        with contextlib.suppress(PermissionError):  # it may be another's, and be written by a group
            path.chmod(stat.S_IMODE(mode) & ~_OTHERS)
    return file


def write_all(file: FileIO, data: bytes) -> None:
    """Write to a file without a buffer, which may take only a part at once, as where a disk becomes full."""
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]


def _synchronise(folder: Path) -> None:
    """Let the names of new files in a folder survive a crash, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Lock the folder of a file against other callers, so that the file does not change between read and replacement.

    Links are resolved, so all names of a file share a lock. No lock file is left behind. On systems without such
    locks, nothing is locked.
    """
    # filelock locks no folder, and leaves its lock file behind
    if fcntl is None:
        yield
        return
    descriptor = os.open(Path(path).resolve().parent, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems cannot lock folders
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
