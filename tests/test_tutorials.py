"""Every block of the tutorials runs, in order, and prints what the page says."""

import contextlib
import io
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import streamsketch as ss

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```(python|sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_block(language: str, text: str, names: dict[str, object]) -> str:
    """Return what a block prints."""
    printed = io.StringIO()
    if language == "python":
        with contextlib.redirect_stdout(printed):
            exec(compile(text, "tutorial", "exec"), names)  # noqa: S102 - that is the test
        return printed.getvalue()
    for line in text.splitlines():
        program, *arguments = shlex.split(line)
        assert program == "streamsketch"
        subprocess.run([sys.executable, "-m", "streamsketch", *arguments], check=True)  # noqa: S603
    return ""


def test_the_customers_of_two_sellers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the page tells of its numbers: cosines within five standard errors, so one run in a million fails."""
    shutil.copytree(ROOT / "pipelines" / "data", tmp_path / "pipelines" / "data")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    page = (ROOT / "docs" / "tutorials" / "customers.md").read_text(encoding="utf-8")
    said: list[str] = []
    for language, text in BLOCK.findall(page):
        if language == "text":
            assert said[-1] == text, "what the page shows under a block"
        else:
            said.append(run_block(language, text, names))
    cosines, refused, row, warned = said[-5], *said[-3:]
    found = [(float(value), float(error)) for value, error in re.findall(r": (-?\d\.\d\d) ± (\d\.\d\d)", cosines)]
    for (value, error), truth in zip(found, [0.95, 0.93, 0.06], strict=True):
        assert abs(value - truth) < 5 * error + 0.05, (value, error, truth)
        assert error < 0.2
    assert refused.startswith("the agreements differ")
    assert "in row 1 a value that is no integer" in row
    assert warned == "BoundExceededWarning\n"
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert isinstance(ss.load("web.parquet"), ss.PrivateTable)
