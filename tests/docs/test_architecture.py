"""The page on the architecture says what the code is: its table and picture are made of docstrings and imports."""

import importlib
import re
import runpy
from typing import Any

import matplotlib as mpl
import pytest

from tests.cli.running import ROOT
from tests.removal import PARTS
from tests.test_structure import ORDER

PAGE = ROOT / "docs" / "explanation" / "architecture.md"
PICTURE = ROOT / "docs" / "explanation" / "pictures" / "folders.py"
HEADER = "| folder | what it is for | imports directly |\n| --- | --- | --- |\n"


@pytest.fixture(scope="module")
def graph() -> Any:
    """Return which folders each folder imports directly, as the script of the picture finds them."""
    mpl.use("svg")
    return runpy.run_path(str(PICTURE))["direct_imports"]()


def table(graph: dict[str, set[str]]) -> str:
    """Return the page's table: folders in their order, with the first sentence of their docstrings."""
    rows = []
    for folder in ORDER:
        if folder in graph:
            said = (importlib.import_module(f"streamsketch.{folder}").__doc__ or "").splitlines()[0].removesuffix(".")
            above = ", ".join(f"`{other}`" for other in ORDER if other in graph[folder])
            rows.append(f"| `{folder}` | {said} | {above} |\n")
    return HEADER + "".join(rows)


def test_the_table_of_folders_is_that_of_the_code(graph: Any) -> None:
    expected = table(graph)
    page = PAGE.read_text(encoding="utf-8")
    assert expected in page, f"docs/explanation/architecture.md needs this table:\n\n{expected}"


def test_the_places_to_look_exist() -> None:
    page = PAGE.read_text(encoding="utf-8")
    places = re.findall(r"`((?:streamsketch|tests|benchmarks|pipelines)/[\w./]*)`", page)
    assert len(places) > 20
    assert [place for place in places if not (ROOT / place).exists()] == []


@pytest.mark.parametrize("variant", ["light", "dark"])
def test_the_picture_shows_each_folder_and_import(graph: Any, variant: str) -> None:
    """It is made again by ``make pictures``."""
    svg = PICTURE.with_name(f"folders-{variant}.svg").read_text(encoding="utf-8")
    assert set(re.findall(r'id="folder-(\w+)"', svg)) == set(graph)
    lines = {(folder, other) for folder, found in graph.items() for other in found}
    assert set(re.findall(r'id="import-(\w+)-(\w+)"', svg)) == lines


@pytest.mark.parametrize("variant", ["light", "dark"])
def test_the_picture_shows_the_core_and_each_part(variant: str) -> None:
    """It is made again by ``make pictures``."""
    svg = PICTURE.with_name(f"parts-{variant}.svg").read_text(encoding="utf-8")
    assert set(re.findall(r'id="part-(\w+)"', svg)) == {"core", *PARTS}
    folders = {module for modules in PARTS.values() for module in modules if "." not in module}
    assert all(folder.removesuffix("__main__") in svg for folder in folders)
