"""Files that appear whole or not at all."""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

_ALL, _OWNER = 0o666, 0o600
_RANDOM_BYTES = 4


def write_whole(path: str | os.PathLike[str], data: bytes | Iterable[bytes], *, secret: bool = False) -> None:
    """Write a file that appears whole or not at all, even if the power fails.

    Parameters
    ----------
    path
        Where; what is there is replaced. A symbolic link stays one: the file it names is replaced.
    data
        The content, in one or in parts.
    secret
        Whether only the owner may read it.

    Raises
    ------
    OSError
        If it cannot be written, with the file's own name; what was there is unchanged.
    """
    target = Path(path).resolve()
    partial = target.with_name(f".{target.name}.{os.urandom(_RANDOM_BYTES).hex()}")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER if secret else _ALL)
        with os.fdopen(descriptor, "wb") as file:
            file.writelines([data] if isinstance(data, bytes) else data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    except OSError as error:
        # the system names the partial file, or none at all when the disk is full
        raise type(error)(error.errno, error.strerror, str(path)) from error
    finally:
        partial.unlink(missing_ok=True)


def remove_partial(path: str | os.PathLike[str]) -> None:
    """Remove what killed writes of a file left behind; the caller holds `locked`, so that no write is under way."""
    target = Path(path).resolve()
    partial = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{{2 * _RANDOM_BYTES}}}")
    with contextlib.suppress(OSError):  # writing itself will say what is wrong
        for found in target.parent.iterdir():
            if partial.fullmatch(found.name):
                found.unlink(missing_ok=True)


@contextlib.contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Hold the folder of a file against others who call this, so that what was read is still there when it is replaced.

    Links are resolved: who uses a file by another name waits as well.

    No lock file is left behind; where the system has no such locks, nothing is held.
    """
    if fcntl is None:
        yield
        return
    descriptor = os.open(Path(path).resolve().parent, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems lock no folders
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
