"""Every code block of the README runs, and figures on pages are what the library says."""

import math
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import mypy.api
import numpy as np
import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from tests.cli.running import Forks
from tests.compiled import carry_kernels
from tests.docs.pages import commands_of, run_module
from tests.jobs.running import command

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def blocks_in(page: str) -> list[tuple[str, str]]:
    """Return the language and the text of each block of code."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


BLOCKS = blocks_in(README)


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter what a fresh clone holds, files that git knows and no others, with this environment as its ``.venv``.

    The machine code of kernels comes with it: compiling it again would take half a minute of each test.
    """
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone: git does not say what belongs to it")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in listed.split("\0")[:-1]:
        if (ROOT / name).exists():  # not deleted since the last commit
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tmp_path / name, follow_symlinks=False)
    carry_kernels(tmp_path)
    venv = tmp_path / ".venv"
    venv.mkdir()
    for part in Path(sys.prefix).glob("[!.]*"):
        (venv / part.name).symlink_to(part)
    (venv / f".complete-{platform.python_version()}").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


@pytest.fixture
def fixed_secrets(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a job draw the same noise at each run, here and where one starts in the clone."""
    monkeypatch.setattr("secrets.token_bytes", bytes)
    (clone / "sitecustomize.py").write_text("import secrets\nsecrets.token_bytes = bytes\n")


def test_python_blocks_run_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "data").symlink_to(ROOT / "pipelines" / "data")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for language, text in BLOCKS:
        if language == "python":
            exec(compile(text, "README.md", "exec"), names)  # noqa: S102 - that is the test
    shown = capsys.readouterr().out
    assert re.search(r"ε = 1, δ = 1e-06 for one customer .* enforced whatever its rows hold", shown)
    assert re.search(r"^0\.9\d+ ± 0\.0\d+\nbetween 0\.9\d and [01]\.\d\d\n3,[89]\d\d ± 1\d$", shown, re.MULTILINE)


def test_python_blocks_type_check(tmp_path: Path) -> None:
    """And a mistake in a line after them is seen."""
    said = {
        "none": "",
        "name": '"Agreement" has no attribute "draw"',
        "stream": 'Argument 2 to "cosine" has incompatible type "int"',
        "epsilon": 'Argument "epsilon" to "agree" has incompatible type',
    }
    mistakes = {"name": "agreement.draw(web)", "stream": "ss.cosine(ours, 7)", "epsilon": "ss.agree(web, epsilon=[1])"}
    text = "\n".join(text for language, text in BLOCKS if language == "python")
    for name in said:
        (tmp_path / f"readme_{name}.py").write_text(f"{text}\n{mistakes.get(name, '')}\n")
    config = ["--strict", "--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    printed, _, _ = mypy.api.run([*config, *map(str, tmp_path.glob("*.py"))])
    errors = {name: [line for line in printed.splitlines() if f"readme_{name}.py:" in line] for name in said}
    for name, text in said.items():
        assert all(text in line for line in errors[name]), printed
        assert len(errors[name]) == bool(text), printed


def test_three_commands_do_what_the_python_block_does(tmp_path: Path, forks: Forks) -> None:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "data").symlink_to(ROOT / "pipelines" / "data")
    (block,) = (text for language, text in BLOCKS if language == "sh" and "streamsketch agree" in text)
    commands = [shlex.split(line)[1:] for line in block.replace("\\\n", " ").splitlines()]
    assert [words[0] for words in commands] == ["agree", "release", "release", "compare"]
    for words in commands:
        shown = forks.succeeded(*words, cwd=tmp_path)
    assert re.search(r"0\.9\d", shown)
    written = {one.name for one in tmp_path.iterdir()} - {"pipelines"}
    assert written == {"agreed.json", "online.sketch", "stores.sketch"}, "nothing secret is left"


def test_it_is_short_and_its_links_lead_somewhere() -> None:
    assert len(README.splitlines()) <= 150
    for link in re.findall(r"\]\(([^)#]+)", README):
        assert (ROOT / link).exists(), link


def test_the_figures_for_whole_aircraft_come_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs/how-to/choose-epsilon-and-bounds.md").read_text()
    (commands,) = [text for language, text in blocks_in(page) if "out/aircraft" in text and language == "sh"]
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "data").symlink_to(ROOT / "pipelines" / "data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("secrets.token_bytes", bytes)  # the same noise, and the same cut, at each run
    for line in commands_of(commands):
        assert command(*shlex.split(line)[1:]) == 0
    found = {
        f"{row['first']} – {row['second']}": row
        for row in pq.read_table(tmp_path / "out" / "aircraft" / "distances.parquet").to_pylist()
    }
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("|")]
    (pairs,) = [line[1:] for line in lines if line[0] == "squared distance, in millions"]
    (shown,) = [line[1:] for line in lines if line[0] == "ε = 1 for one aircraft"]
    for pair, text in zip(pairs, shown, strict=True):
        value, error = (float(part) for part in text.split(" ± "))
        # both runs drew noise and a cut of their own, through one projection
        assert abs(found[pair]["squared_distance"] / 1e6 - value) < 7 * error
        assert found[pair]["standard_error"] / 1e6 == pytest.approx(error, rel=0.5)


SHAPE: dict[str, Any] = {"dim": 4096, "sketch_dim": 1024, "seed": 1}
TABLE: dict[str, ss.projections.Projection] = {
    "`CountSketch`": ss.CountSketch(**SHAPE),
    "`SJLT`, sparsity 8": ss.SJLT(sparsity=8, **SHAPE),
    '`SJLT(…, construction="graph")`': ss.SJLT(sparsity=8, construction="graph", **SHAPE),
    "`OPORP`": ss.projections.OPORP(**SHAPE),
    "`SRHT`": ss.projections.SRHT(**SHAPE),
    "`Rademacher`": ss.projections.Rademacher(**SHAPE),
    "`FJLT`": ss.projections.FJLT(**SHAPE),
    "`Rotation` (Haar)": ss.projections.Rotation(**SHAPE),
    "`GaussianProjection`": ss.projections.GaussianProjection(**SHAPE),
    "`UniformProjection`": ss.projections.UniformProjection(**SHAPE),
    "`Achlioptas`": ss.projections.Achlioptas(**SHAPE),
    "`VerySparse`, sparsity 64": ss.projections.VerySparse(sparsity=64, **SHAPE),
    "`Identity`: no sketch": ss.projections.Identity(dim=4096),
}


def test_the_table_of_projections_holds_what_the_library_says() -> None:
    page = (ROOT / "docs/how-to/choose-projection.md").read_text()
    lines = [line for line in page.splitlines() if re.match(r"\| .*`.* \| [\d,]+ \|", line)]
    rows = [[cell.strip() for cell in line.split("|")[2:-1]] for line in lines]
    assert [row[0] for row in rows] == list(TABLE)
    for name, cells, l1, l2, variance, laplace, auto in rows:
        projection = TABLE[name]
        changed = np.count_nonzero(projection.columns(range(200))) / 200
        assert changed == pytest.approx(int(cells.replace(",", "")), rel=0.05)
        first = ss.accounting.mechanisms(projection, epsilon=1, neighbours=ss.L1(1))[0]
        picked = ss.accounting.mechanisms(projection, epsilon=1, delta=1e-6, neighbours=ss.L1(1))[0]
        assert abs(projection.scale * projection.l1_sensitivity - float(l1)) <= 0.5 * 10 ** -len(l1.partition(".")[2])
        assert f"{projection.scale * projection.l2_sensitivity_squared**0.5:.3g}" == l2
        assert auto == f"{picked.mechanism.title()}, ± {picked.variance**0.5:,.0f}"
        assert laplace in ("", f"± {first.variance**0.5:,.0f}")
        largest = projection.variance.of_squared_norm(1.0) * projection.sketch_dim
        if "dim" in variance:
            stated = 2 * (4096 - 1024) / (4096 + (2 if "+ 2" in variance else -1))
        else:
            stated = float(variance.split()[-1])
        assert largest == pytest.approx(stated, rel=0.01)


def test_the_officers_table_of_odds_is_that_of_epsilon() -> None:
    """From even odds, e^ε to 1; 22,026 times is shown as 22,000."""
    page = (ROOT / "docs/privacy-officer.md").read_text()
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.,]+) times \| ([\d.]+) % sure \|$", page, re.MULTILINE)
    assert len(rows) == 6
    for epsilon, times, sure in rows:
        factor = math.exp(float(epsilon))
        assert factor == pytest.approx(float(times.replace(",", "")), rel=0.05)
        assert 100 * factor / (1 + factor) == pytest.approx(float(sure), abs=0.5 * 10 ** -len(sure.partition(".")[2]))


def test_the_two_commands_are_makes() -> None:
    (commands,) = [text for language, text in BLOCKS if language == "sh" and text.startswith("make")]
    assert commands.split("\n") == ["make demo", "make test", ""]


def test_no_block_is_left_untested() -> None:
    assert {language for language, _ in BLOCKS} == {"sh", "text", "python"}


def make(*arguments: str) -> str:
    """Return what make prints in this folder."""
    done = subprocess.run(  # noqa: S603
        ["make", *arguments, f"PYTHON={sys.executable}"],  # noqa: S607 - as the README says
        env={name: value for name, value in os.environ.items() if not name.startswith("MAKE")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.usefixtures("fixed_secrets")
@pytest.mark.parametrize("apart", [False, pytest.param(True, marks=pytest.mark.long)])
def test_the_demo_prints_a_table_and_writes_every_result(clone: Path, *, apart: bool) -> None:
    """In this process, which has imported Beam, and in one that make starts."""
    if apart:
        shown = make("demo")
    else:
        venv, _, module, *options = shlex.split(make("--dry-run", "demo").splitlines()[-1])
        assert venv == ".venv/bin/python"
        shown = run_module(module, *options)
    shown = " ".join(shown.split())
    assert "Ft Lauderdale – Tampa" in shown
    hidden = re.search(r"(\d+) of the 120 pairs cannot be distinguished from 0", shown)
    assert hidden is not None
    assert 40 <= int(hidden[1]) <= 80
    for kind in ("cosine", "distance"):
        covered = re.search(rf"(\d+) of 120 intervals contain the exact {kind}", shown)
        assert covered is not None
        assert int(covered[1]) >= 84, "with this projection 80 releases covered 92 to 119, 113 in the mean"
    worse = re.search(r"the errors would be ([\d.]+) times as large", shown)
    assert worse is not None
    assert 1.5 < float(worse[1]) < 3
    assert len(list((clone / "out" / "sketches").glob("*.sketch"))) == 16
    for name in (
        "sketches.parquet",
        "distances.parquet",
        "distances.csv",
        "cosines.parquet",
        "cosines.csv",
        "cosines.png",
    ):
        assert (clone / "out" / name).stat().st_size > 1000, name
