"""Every block of the tutorials runs, in order, and the numbers that a page tells of are as it says.

Noise is new in each run. Bounds are five standard errors of nearly normal estimates, or as unlikely, so that one run in
a million fails.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streamsketch as ss
from pipelines.data.make_sites import SITES, visits
from tests.cli.running import ROOT, Forks
from tests.docs.pages import Reader, blocks_of

PAGES = ROOT / "docs" / "tutorials"
ESTIMATE = re.compile(r"(-?[\d,.]+) ± ([\d,.]+)")

Read = Callable[[str], list[str]]


@pytest.fixture
def commands_run_here(monkeypatch: pytest.MonkeyPatch, forks: Forks) -> None:
    """Run here the commands that a page runs to their end; what it kills stays a process."""
    run = subprocess.run

    def ran(command: Any, **options: Any) -> Any:
        if command[:3] != [sys.executable, "-m", "streamsketch"]:
            return run(command, **options)
        done = forks.run(*command[3:], stdin=options["input"])
        assert done.returncode == 0, done.stderr
        return subprocess.CompletedProcess(command, 0, done.stdout.encode(), done.stderr.encode())

    monkeypatch.setattr(subprocess, "run", ran)


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forks: Forks) -> Read:
    """Return what runs a page in a folder with the data, and returns what each block printed."""
    shutil.copytree(ROOT / "pipelines" / "data", tmp_path / "pipelines" / "data")
    monkeypatch.chdir(tmp_path)

    def read(name: str) -> list[str]:
        page = PAGES / name
        reader = Reader(page, forks)
        for block in blocks_of(page):
            reader.read(block)
        return reader.said

    return read


def said_with(said: list[str], words: str) -> str:
    """Return what the one block printed that printed these words."""
    [found] = [text for text in said if words in text]
    return found


def estimates_in(text: str) -> list[tuple[float, float]]:
    """Return all estimates and standard errors in a text."""
    return [(float(value.replace(",", "")), float(error)) for value, error in ESTIMATE.findall(text)]


def check_near(found: list[tuple[float, float]], truths: list[float], *, rounding: float, largest_error: float) -> None:
    """Assert that estimates are within five of their standard errors, and these small enough to tell something."""
    for (value, error), truth in zip(found, truths, strict=True):
        assert abs(value - truth) < 5 * error + rounding, (value, error, truth)
        assert error < largest_error


def test_two_parties(read: Read) -> None:
    [pairs, cosine] = estimates_in(said_with(read("two-parties.md"), " pairs, between"))
    check_near([pairs], [6046], rounding=1, largest_error=800)
    check_near([cosine], [0.141], rounding=0.001, largest_error=0.03)


@pytest.mark.usefixtures("commands_run_here")
def test_unbounded_stream(read: Read) -> None:
    found = estimates_in(said_with(read("unbounded-stream.md"), "Saturday 12:"))
    # each airline flies few routes: two in one cell put an estimate off by more than its error says, hence the margin
    check_near(found, [1.0, 1.0, 0.99, 0.82, 1.0, 1.0], rounding=0.1, largest_error=0.1)


def test_customers(read: Read) -> None:
    said = read("customers.md")
    check_near(estimates_in(said_with(said, "in shops: ")), [0.986, 0.965, 0.049], rounding=0.01, largest_error=0.1)
    check_near(estimates_in(said_with(said, "customers on the web")), [617, 453], rounding=1, largest_error=20)
    check_near(estimates_in(said_with(said, "differ by")), [0.003, 0.006, 0.172], rounding=0.001, largest_error=0.03)
    assert Path("report.html").stat().st_size > 10_000
    assert isinstance(ss.load("web.parquet"), ss.PrivateTable)


def test_hospitals(read: Read) -> None:
    counts = re.findall(r"(-?\d+) benign, +(-?\d+) malignant", said_with(read("hospitals.md"), "benign"))
    truths = [(116, 6), (142, 26), (46, 45), (6, 43), (0, 47)]
    off = [
        abs(int(count) - truth)
        for pair, true in zip(counts, truths, strict=True)
        for count, truth in zip(pair, true, strict=True)
    ]
    assert max(off) < 70  # Laplace noise of scale 4 exceeds it with probability e^-17.5


def test_phones(read: Read) -> None:
    said = read("phones.md")
    error, expected = map(float, re.findall(r"(\d\.\d\d)", said_with(said, "squared error 0"))[:2])
    assert 0.04 < error < 0.4
    assert expected == 0.16
    own, other, _ = map(float, re.findall(r"(\d\.\d\d)", said_with(said, "own drawing")))
    assert 0.12 < own < 0.23
    assert 0.07 < other < 0.18


def test_alike(read: Read) -> None:
    said = read("alike.md")
    right = [int(share) for share in re.findall(r"(\d+)% right", said_with(said, "flipped"))]
    for share, usual in zip(right, [22, 62, 88, 91], strict=True):
        assert abs(share - usual) < 13
    assert float(said_with(said, "is the same digit").split()[-1].rstrip("%")) > 75


def test_what_changed(read: Read) -> None:
    said = read("what-changed.md")
    check_near(estimates_in(said_with(said, "JFK-LAX: ")), [150, 87], rounding=1, largest_error=4)
    assert said_with(said, "alarms: ").endswith("alarms: ['2013-04']\n")
    flights = re.findall(r"EWR-(?:LAX|SFO) +([\d.]+)", said[said.index(said_with(said, "alarms: ")) + 1])
    check_near([(float(count), 2.6) for count in flights], [85, 85], rounding=1, largest_error=4)
    assert all(Path(name).stat().st_size > 3_000 for name in ("when.svg", "what.svg"))


@pytest.mark.usefixtures("commands_run_here")
def test_embeddings(read: Read) -> None:
    said = read("embeddings.md")
    check_near(estimates_in(said_with(said, "ash and cedar")), [0.00408, 0.0298], rounding=0.0001, largest_error=0.002)
    kinds = np.array(estimates_in(said_with(said, "tableware"))).reshape(10, 4, 2)  # of birch, cedar, dale and elm
    for row, truths in ((3, [0.011, 0.298, -0.018, -0.001]), (5, [-0.032, -0.017, -0.082, 0.174])):
        check_near([tuple(one) for one in kinds[row]], truths, rounding=0.005, largest_error=0.02)
    months = [line for line in said_with(said, "alarm from").splitlines() if re.match(" *2026-", line)]
    assert [line.split()[0] for line in months if line.split()[-1] == "alarm"] == ["2026-09"]
    [office] = estimates_in(said_with(said, "ε = 2"))
    check_near([office], [0.51], rounding=0.1, largest_error=0.06)  # which customers count in a month is a secret


def test_sites(read: Read) -> None:
    said = read("sites.md")
    means = np.array(estimates_in(said_with(said, "age, mean"))).reshape(4, 5, 2)  # of a column at each hospital
    rows = visits().to_pandas()
    for found, column, ends in zip(
        means, ["age", "creatinine", "glucose"], [(0, 110), (20, 400), (2, 25)], strict=False
    ):
        of_people = rows[column].clip(*ends).groupby([rows["site"], rows["person_id"]], observed=True).mean()
        truths = of_people.groupby("site", observed=True).mean()[list(SITES)].tolist()
        check_near([tuple(one) for one in found], truths, rounding=0.01, largest_error=3)
    p_values = [float(p) for p in re.findall(r"p = (\S+);", said_with(said, "harbour: p"))]
    assert p_values[0] < 1e-4 < p_values[1]
    for people_of_site, error in ((5000, 0.2), (500, 2.4)):  # of the mean age, by that of the north
        assert means[0, 0, 1] * 5467 / people_of_site == pytest.approx(error, abs=0.1)
    [(corrected, _)] = estimates_in(said_with(said, "ε = 2"))
    assert corrected < 0.001  # it was 0.5
