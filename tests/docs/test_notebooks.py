"""A tutorial's notebook runs from its first cell to its last, from any folder of a clone, and prints what it shows."""

import contextlib
import io
import re
import runpy
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import ROOT

NOTEBOOKS = runpy.run_path(str(ROOT / "docs" / "_ext" / "notebooks.py"))
PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
MADE: dict[str, dict[str, Any]] = {
    page.stem: made for page in PAGES if (made := NOTEBOOKS["notebook"](page.read_text(encoding="utf-8"))) is not None
}


def test_tutorials_in_python_alone_have_notebooks() -> None:
    assert {"two-parties", "phones", "hospitals"} <= set(MADE)
    for made in MADE.values():
        ids = [cell["id"] for cell in made["cells"]]
        assert len(set(ids)) == len(ids)
        assert all(re.fullmatch("[a-zA-Z0-9-_]{1,64}", name) for name in ids)
        assert made["cells"][0]["source"].startswith("# ")
        assert not any("```python" in cell["source"] for cell in made["cells"])


def test_a_notebook_runs_as_its_page_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "pipelines" / "data", tmp_path / "pipelines" / "data")
    (tmp_path / "docs" / "tutorials").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "docs" / "tutorials")
    names: dict[str, object] = {"__name__": "__main__"}
    for cell in MADE["two-parties"]["cells"]:
        if cell["cell_type"] == "code":
            run(cell, names)
    assert Path.cwd() == tmp_path


def run(cell: dict[str, Any], names: dict[str, object]) -> None:
    """Run a cell, and compare what it prints with what it shows, numbers aside: noise is new each time."""
    ran = compile(cell["source"], cell["id"], "exec")
    if "raises-exception" in cell["metadata"].get("tags", ()):
        with pytest.raises(Exception) as error:  # noqa: PT011 - which one, the notebook says
            exec(ran, names)  # noqa: S102 - that is the test
        assert error.typename == cell["outputs"][0]["ename"]
        return
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(ran, names)  # noqa: S102 - likewise
    number = re.compile(r"[ ─]+|-?\d[\d,.]*(e-?\d+)?")
    for output in cell["outputs"]:
        assert number.sub("#", said.getvalue().strip()) == number.sub("#", output["text"].strip())


def test_a_notebook_outside_of_a_clone_says_where_to_put_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="into a clone"):
        run(MADE["two-parties"]["cells"][1], {})
