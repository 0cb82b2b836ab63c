"""Files that are written: whole or not at all, and their names, too, survive a power failure."""

import os
import stat
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

from streamsketch.core.files import create_file, write_new, write_whole
from streamsketch.intake import BadLines
from streamsketch.jobs import Malformed, Message


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> dict[int, list[str]]:
    """Return the names that the disk has of each folder, by its inode."""
    names: dict[int, list[str]] = {}

    def fsync(descriptor: int) -> None:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            names[status.st_ino] = os.listdir(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return names


@pytest.mark.parametrize("write", [write_whole, write_new, create_file])
def test_the_name_of_a_file_is_on_the_disk(
    write: Callable[[Path, bytes], object], kept: dict[int, list[str]], tmp_path: Path
) -> None:
    write(tmp_path / "release", b"first")
    assert "release" in kept[tmp_path.stat().st_ino]


@pytest.mark.parametrize("write", [write_new, create_file])
def test_the_name_of_a_file_that_was_there_is_on_the_disk(
    write: Callable[[Path, bytes], bool], kept: dict[int, list[str]], tmp_path: Path
) -> None:
    """Whoever wrote it may have been killed before."""
    (tmp_path / "release").write_bytes(b"first")
    assert not write(tmp_path / "release", b"second")
    assert "release" in kept[tmp_path.stat().st_ino]
    assert [path.name for path in tmp_path.iterdir()] == ["release"]


def test_the_names_of_folders_that_are_made_are_on_the_disk(kept: dict[int, list[str]], tmp_path: Path) -> None:
    assert create_file(tmp_path / "flights" / "window" / "release", b"first")
    assert kept[tmp_path.stat().st_ino] == ["flights"]
    assert kept[(tmp_path / "flights").stat().st_ino] == ["window"]


class Short(FileIO):
    """A file on a disk that becomes full: at once it takes a few bytes only."""

    def write(self, data: Any) -> int:
        return super().write(data[:7])


@pytest.fixture(params=["bad lines", "malformed"])
def kept_in(request: pytest.FixtureRequest) -> Callable[[Path], Any]:
    """Return what keeps lines or messages in a file."""
    if request.param == "malformed":
        return lambda path: Malformed(path, 2)
    return lambda path: BadLines(str(path), append=True)


def take(kept: Any) -> None:
    kept.take(*((0, Message(0, 0, b"poison")) if isinstance(kept, Malformed) else (b"a line of a log",)), "why")


def test_what_is_kept_for_the_operator_is_kept_whole(kept_in: Callable[[Path], Any], tmp_path: Path) -> None:
    path = tmp_path / "kept"
    with kept_in(path) as kept:
        kept._file.close()
        kept._file = Short(path, "ab")
        for _ in range(2):
            take(kept)
    first, second = path.read_bytes().splitlines()
    assert first == second
    assert len(first) > 7


def test_what_is_kept_for_the_operator_is_private_where_it_was_not(
    kept_in: Callable[[Path], Any], tmp_path: Path
) -> None:
    """As after a copy from a backup."""
    path = tmp_path / "kept"
    path.write_bytes(b"x\n")
    path.chmod(0o644)
    with kept_in(path) as kept:
        take(kept)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_bytes().startswith(b"x\n")


def test_an_unfinished_file_is_in_no_folder_of_another_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever owns the folder could read what is written there, and replace it."""
    folder = tmp_path / "public"
    folder.mkdir()
    monkeypatch.setattr(os, "getuid", lambda: 12_345, raising=False)  # of all folders that this process makes
    with pytest.raises(PermissionError, match="cannot be used for unfinished files"):
        create_file(folder / "one.sketch", b"a release", published=folder)
    assert not (folder / "one.sketch").exists()
