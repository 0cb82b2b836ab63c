"""Files that are written atomically: their names, too, survive a power failure."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from streamsketch.core import create_file, write_new, write_whole


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
