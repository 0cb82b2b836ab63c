"""The scripts of the gallery run and draw, and each has its page and its pictures."""

import re
import runpy
import warnings
from pathlib import Path

import matplotlib as mpl
import pytest

from tests.cli.running import ROOT

mpl.use("svg")

import matplotlib.pyplot as plt

GALLERY = ROOT / "docs" / "gallery"
SCRIPTS = sorted(GALLERY.glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_draws_what_it_computes(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "FigureCanvasSVG is non-interactive")  # where a reader sees a window
        runpy.run_path(str(script))
    (axes, *_) = plt.gcf().axes
    assert axes.has_data()
    plt.close("all")
    assert len(script.read_text(encoding="utf-8").splitlines()) <= 40


def test_each_script_has_a_page_and_pictures_that_say_what_they_show() -> None:
    assert len(SCRIPTS) == 13
    for script in SCRIPTS:
        page = script.with_suffix(".md").read_text(encoding="utf-8")
        assert f"```{{literalinclude}} {script.name}\n" in page
        [(dark, light, alt)] = re.findall(r'dark\)" srcset="(\S+)">\n<img src="(\S+)" alt="(.+)">', page)
        assert len(alt) >= 40
        for name, wanted in ((light, "light"), (dark, "dark")):
            assert name == f"{script.stem}-{wanted}.svg"
            assert 1000 < (GALLERY / name).stat().st_size <= 100_000
