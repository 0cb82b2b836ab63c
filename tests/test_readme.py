"""Every code block of the README runs."""

import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a scratch folder that finds the repository's data under the README's relative paths."""
    (tmp_path / "pipelines").symlink_to(ROOT / "pipelines")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_python_blocks_error_and_command_lines_run_in_order(elsewhere: Path, capfd: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    ran = 0
    for language, text in BLOCKS:
        if language == "python":
            exec(compile(text, "README.md", "exec"), names)  # noqa: S102 - that is the test
            ran += 1
        elif language == "pycon":
            example = doctest.DocTestParser().get_doctest(text, names, "README.md", "README.md", 0)
            assert doctest.DocTestRunner().run(example) == (0, len(example.examples))
            ran += 1
        elif language == "sh" and text.startswith("streamsketch"):
            for line in text.splitlines():
                _, *arguments = shlex.split(line)
                command = [str(Path(sys.executable).with_name("streamsketch")), *arguments]
                subprocess.run(command, check=True, cwd=elsewhere)  # noqa: S603
            ran += 1
    assert ran >= 6
    shown = capfd.readouterr().out
    assert "ε = 1, δ = 0 for one sale of at most 1 (L1), by discrete Laplace, scale 4" in shown
    assert re.search(r"between [\d,]+ and [\d,]+", shown)
    assert shown.count("('AA', 'B6')") == 1, "the Beam example prints six pairs"


def test_the_two_commands_are_makes() -> None:
    (commands,) = [text for language, text in BLOCKS if language == "sh" and text.startswith("make")]
    assert commands.split("\n") == ["make demo", "make test", ""]


def test_no_block_is_left_untested() -> None:
    assert {language for language, _ in BLOCKS} == {"sh", "text", "python", "pycon"}


def demo_command(output: Path) -> list[str]:
    """Return what ``make demo`` would run, with this interpreter."""
    recipe = subprocess.run(  # noqa: S603
        ["make", "--dry-run", "--always-make", "demo", f"OUT={output}"],  # noqa: S607 - the README says make
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env={name: value for name, value in os.environ.items() if not name.startswith("MAKE")},
    ).stdout
    line = recipe.replace("\\\n", " ").strip().split("\n")[-1]
    _, *arguments = shlex.split(line)
    return [sys.executable, *arguments]


def test_the_demo_prints_a_table_and_writes_every_result(tmp_path: Path) -> None:
    done = subprocess.run(demo_command(tmp_path), cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603
    shown = " ".join(done.stdout.split())
    assert "nearest first" in shown
    covered = re.search(r"(\d+) of 120 intervals cover the exact distance", shown)
    assert covered is not None
    assert int(covered[1]) >= 96, "with this projection 300 releases covered 106 to 120, 117 in the mean"
    worse = re.search(r"The median ratio to ours is ([\d.]+)\.", shown)
    assert worse is not None
    assert 3.5 < float(worse[1]) < 4.3
    assert done.stderr == ""
    assert len(list((tmp_path / "sketches").glob("*.sketch"))) == 16
    for name in ("sketches.parquet", "distances.parquet", "distances.csv", "distances.png"):
        assert (tmp_path / name).stat().st_size > 1000, name
