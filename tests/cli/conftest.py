"""Files for commands to read."""

from pathlib import Path

import pytest

import streamsketch as ss
from streamsketch.storage import save_raw
from streamsketch.storage.sketches import RawSketch
from tests.cli.sales import expected, write_sales


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_sales(tmp_path)
    return tmp_path


@pytest.fixture
def raws(folder: Path) -> Path:
    for name in ("a", "b"):
        save_raw(RawSketch(expected(), 4), folder / f"{name}.raw-sketch")
        save_raw(RawSketch(expected()["north"], 3), folder / f"{name}1.raw-sketch")
        expected()["north"].release(epsilon=1.0, neighbours=ss.L1(1)).save(folder / f"{name}.sketch")
    return folder
