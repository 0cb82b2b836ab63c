"""What a function does to files: the calls that it makes, in order, and the end of a process at any of them."""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

_CALLS = ("open", "fsync", "chmod", "utime", "link", "replace", "rename", "unlink", "mkdir", "rmdir")


class Call(NamedTuple):
    """A call of the operating system: its name, the file's name, and what the file held then; for folders, names."""

    name: str
    path: str
    held: Any


class KilledError(BaseException):
    """The process was killed: nothing that it would clean up is cleaned up."""


def _held(path: Any) -> tuple[str, Any]:
    if isinstance(path, int):
        path = Path(f"/proc/self/fd/{path}").readlink()
    path = Path(path)
    if path.is_dir():
        return str(path), sorted(one.name for one in path.iterdir())
    return str(path), path.read_bytes() if path.is_file() else None


@contextlib.contextmanager
def recorded(patch: pytest.MonkeyPatch, *, killed_at: int | None = None) -> Iterator[list[Call]]:
    """Yield the calls that are made; end the process before one of them, and before all that come after it.

    Locks are gone with the process: descriptors are closed.
    """
    calls: list[Call] = []

    def watch(name: str, original: Any) -> Any:
        def call(path: Any, *arguments: Any, **options: Any) -> Any:
            if killed_at is not None and len(calls) >= killed_at:
                raise KilledError
            calls.append(Call(name, *_held(path)))
            return original(path, *arguments, **options)

        return call

    with patch.context() as within:
        for name in _CALLS:
            within.setattr(os, name, watch(name, getattr(os, name)))
        yield calls


def check_durable(calls: list[Call], target: Path, content: bytes) -> None:
    """Check that content is on the disk before its name, and the name before the function returns."""
    target = target.resolve()
    (named,) = [place for place, call in enumerate(calls) if call.name in {"link", "replace", "rename"}]
    partial = calls[named].path
    assert calls[named].held == content, "it is whole before it has its name"
    assert Call("fsync", partial, content) in calls[:named], "it is on the disk before it has its name"
    folder = [call.held for call in calls[named + 1 :] if (call.name, call.path) == ("fsync", str(target.parent))]
    assert any(target.name in names for names in folder), "its name is on the disk"


def others_read(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder that other accounts may read, by path."""
    found = {}
    for path in sorted(folder.rglob("*")):
        ways = [parent for parent in path.parents if parent.is_relative_to(folder)]
        if path.is_file() and path.stat().st_mode & 0o044 and all(way.stat().st_mode & 0o011 for way in ways):
            found[str(path.relative_to(folder))] = path.read_bytes()
    return found


def is_private(path: Path) -> bool:
    """Return whether only the owner may use a file or folder."""
    return not stat.S_IMODE(path.stat().st_mode) & 0o077
