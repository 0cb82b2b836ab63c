"""Atomic writes of files."""

import contextlib
import errno
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from io import FileIO
from pathlib import Path

from streamsketch.errors import InvalidInputError, with_reason

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

_ALL, _OWNER, _OTHERS = 0o666, 0o600, 0o077
_RANDOM_BYTES = 4
_ANY_PARTIAL = re.compile(rf"\..+\.[0-9a-f]{{{2 * _RANDOM_BYTES}}}", re.DOTALL)
_ATTEMPTS = 100


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

    If the block raises or the power fails, the other one does not change. Until it has its name, only the owner may
    read the new file. What killed writers of a file left behind is removed, unless it is ``secret``: then the caller
    does that (`remove_partial`).

    Raises
    ------
    OSError
        If the file cannot be written. The error names ``path``, which is unchanged.
    """
    target = Path(path).resolve()
    try:
        if not secret:
            _sweep(target.parent, _partials_of(target))
        partial, descriptor = _begin(target.parent, target, hold=not secret)
        try:
            try:
                yield partial
                os.fsync(descriptor)
                if not secret:
                    os.chmod(partial, _ALL & ~_umask())  # noqa: PTH101 - as all calls here, which tests record
                    os.fsync(descriptor)
                if fcntl is not None:
                    os.replace(partial, target)  # noqa: PTH105 - while it is held, so that none sweeps it
            finally:
                os.close(descriptor)
            if fcntl is None:  # Windows renames no open file
                os.replace(partial, target)  # noqa: PTH105
            _synchronise(target.parent)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        # the system names the partial file, or none at all when the disk is full
        raise type(error)(error.errno, error.strerror, str(path)) from error


def remove_partial(path: str | os.PathLike[str]) -> None:
    """Remove what interrupted writes of a file left behind; the caller holds `locked`, so no write is in progress."""
    target = Path(path).resolve()
    partial = _partials_of(target)
    with contextlib.suppress(OSError):  # the write itself reports what is wrong
        for file in target.parent.iterdir():
            if partial.fullmatch(file.name):
                file.unlink(missing_ok=True)


def write_new(
    path: str | os.PathLike[str], data: bytes, *, modified: float | None = None, published: Path | None = None
) -> bool:
    """Write a file that must not be there yet, whole or not at all; return whether it was not.

    As `create_file`, with the mode that the process's umask leaves.

    Parameters
    ----------
    path
        The destination, which is never replaced.
    data
        The content.
    modified
        The time the file shows, in seconds since 1970, so that it does not show when it was written.
    published
        As in `create_file`.

    Raises
    ------
    OSError
        If the file cannot be written, or the file system knows no hard links.
    """
    try:
        return create_file(path, data, mode=_ALL, modified=modified, published=published)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from error


def create_file(
    path: str | os.PathLike[str],
    data: bytes,
    *,
    mode: int = _ALL,
    modified: float | None = None,
    published: Path | None = None,
) -> bool:
    """Create a file with its content, whole; return whether it was not there.

    Any number of processes may try to create the same name at once, and one succeeds. If the file is there, nothing is
    written. The folder is made if it does not exist.

    Until the file has its name, only the owner may read its content, which is in a folder of its own (`unfinished_in`)
    if it is to be published. What killed writers left there is removed.

    Parameters
    ----------
    path
        The destination, which is never replaced.
    data
        The content.
    mode
        Who may use the file, less the process's umask.
    modified
        The time the file shows, in seconds since 1970; by default that of writing.
    published
        The root of the published files, of which this is one. By default, unfinished files are beside the destination:
        their names begin with a dot.

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
    if os.path.lexists(target):
        _synchronise(target.parent)  # whoever made the file may have been killed before
        _sweep_beside(target, published)
        return False
    with _unfinished(target, published) as folder:
        partial, descriptor = _begin(folder, target)
        try:
            try:
                with os.fdopen(os.dup(descriptor), "wb", buffering=0) as file:
                    write_all(file, data)
                if modified is not None:
                    os.utime(partial, (modified, modified))
                if published is None and mode != _OWNER:  # no folder hides it: as short as possible
                    os.fsync(descriptor)
                if mode != _OWNER:
                    _share(partial, target.parent, mode)
                os.fsync(descriptor)
                return _link(partial, target)
            finally:
                partial.unlink(missing_ok=True)
        finally:
            os.close(descriptor)  # until then it is held, so that none sweeps it


def unfinished_in(published: Path) -> list[Path]:
    """Return where unfinished files of a published folder may be, in order: beside it, or in it if that cannot be.

    ``.NAME.unfinished.UID`` beside the folder has mode 0700, and is there only while a file is written, or after a
    kill. If it cannot be made there, as where the folder is the root of a mounted file system, it is within.
    """
    root = published.resolve()
    own = f"unfinished.{os.getuid()}" if hasattr(os, "getuid") else "unfinished"
    return [root.with_name(f".{root.name}.{own}"), root / f".{own}"]


@contextlib.contextmanager
def _unfinished(target: Path, published: Path | None) -> Iterator[Path]:
    """Yield the folder for an unfinished file, without leftovers of killed writers; it exists while the block runs."""
    if published is None:
        _sweep(target.parent, _partials_of(target))
        yield target.parent
        return
    folder = _private_folder(published)
    _sweep(folder, _ANY_PARTIAL)
    try:
        yield folder
    finally:
        with contextlib.suppress(OSError):  # another process writes there
            folder.rmdir()


def _sweep_beside(target: Path, published: Path | None) -> None:
    """Remove what a writer of a file left that was killed between giving it its name and removing the other one."""
    if published is None:
        _sweep(target.parent, _partials_of(target))
        return
    for folder in unfinished_in(published):
        with contextlib.suppress(OSError):  # there is none, or another process writes there
            if _is_own(folder.lstat()):
                _sweep(folder, _ANY_PARTIAL)
                folder.rmdir()


def _private_folder(published: Path) -> Path:
    device = published.stat().st_dev
    *others, last = unfinished_in(published)
    for place in others:
        with contextlib.suppress(OSError):
            if place.parent.stat().st_dev == device and _is_private(place):
                return place
    if not _is_private(last):
        raise PermissionError(errno.EACCES, "cannot be used for unfinished files by this account alone", str(last))
    return last


def _is_private(folder: Path) -> bool:
    """Make a folder of mode 0700 where there is none; return whether it is this account's alone."""
    for _ in range(_ATTEMPTS):
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        with contextlib.suppress(FileNotFoundError):  # another process removed it
            status = folder.lstat()
            break
    else:
        return False
    if not _is_own(status):
        return False
    if status.st_mode & _OTHERS:
        folder.chmod(0o700)
    return True


def _is_own(status: os.stat_result) -> bool:
    """Return whether it is a folder, no link to one, of this account."""
    return stat.S_ISDIR(status.st_mode) and (not hasattr(os, "getuid") or status.st_uid == os.getuid())


def _begin(folder: Path, target: Path, *, hold: bool = True) -> tuple[Path, int]:
    """Create an empty file for its owner alone, and hold it as long as the descriptor is open, so that none sweeps it.

    The folder may be removed by another process that has just finished its own file; it is then made again.
    """
    for _ in range(_ATTEMPTS):
        partial = folder / f".{target.name}.{os.urandom(_RANDOM_BYTES).hex()}"
        try:
            descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, _OWNER)
        except FileNotFoundError:
            if folder == target.parent:
                raise
            _is_private(folder)
            continue
        if not hold or fcntl is None:
            return partial, descriptor
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_ours = os.fstat(descriptor).st_nlink > 0
        except BlockingIOError:  # it is about to be swept, as nobody held it yet
            is_ours = False
        except OSError:  # some network file systems have no locks, so that nothing is swept there
            is_ours = True
        if is_ours:
            return partial, descriptor
        os.close(descriptor)
    raise OSError(errno.EAGAIN, "unfinished files are removed by another process again and again", str(folder))


def _sweep(folder: Path, names: re.Pattern[str]) -> None:
    """Remove unfinished files of writers that are gone: those that nobody holds."""
    if fcntl is None:
        return
    with contextlib.suppress(OSError):  # the write itself reports what is wrong
        for entry in os.scandir(folder):
            if names.fullmatch(entry.name):
                with contextlib.suppress(OSError):  # BlockingIOError if it is held
                    descriptor = os.open(entry.path, os.O_RDWR | os.O_NOFOLLOW)
                    try:
                        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        os.unlink(entry.path)  # noqa: PTH108
                    finally:
                        os.close(descriptor)


def sweep_earlier(folder: Path) -> None:
    """Remove unfinished files in a folder of published ones, where earlier versions of the library left them."""
    _sweep(folder, _ANY_PARTIAL)


def _partials_of(target: Path) -> re.Pattern[str]:
    return re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{{2 * _RANDOM_BYTES}}}")


def _share(partial: Path, folder: Path, mode: int) -> None:
    """Let others use a file as if it had been created in the folder with this mode."""
    status = folder.stat()
    if status.st_mode & stat.S_ISGID and status.st_gid != partial.stat().st_gid:
        with contextlib.suppress(OSError):
            os.chown(partial, -1, status.st_gid)
    os.chmod(partial, mode & ~_umask())  # noqa: PTH101


def _umask() -> int:
    """Return the process's umask, if possible without setting it, which other threads would notice."""
    with contextlib.suppress(OSError), Path("/proc/self/status").open(encoding="ascii", errors="replace") as status:
        for line in status:
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


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
def exclusive(path: str | os.PathLike[str], wait: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Hold a file for as long as the block runs, by an empty lock file beside it that stays.

    The system lets go of it when the process ends, however it ends.

    Parameters
    ----------
    path
        The file.
    wait
        Called while another process holds it, until it returns False; by default, there is no waiting.

    Raises
    ------
    InvalidInputError
        If another process holds it. On systems without such locks, nothing is held.
    """
    target = Path(path).resolve()
    descriptor = os.open(target.with_name(f".{target.name}.lock"), os.O_RDWR | os.O_CREAT, _OWNER)
    try:
        while fcntl is not None:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not wait():
                    used = InvalidInputError(f"{path} is in use by another process; end that one first")
                    raise with_reason(used, "in_use") from None
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
