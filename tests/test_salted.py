"""Runs with other randomness (make test-salted): what they draw, and how failures are judged."""

import os
import re
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.noise import SALT_NAME, drawn_once, fixed_noise
from tests.salted import is_explained, outcomes, table_of

ROOT = Path(__file__).parent
STATISTICAL = ("statistical", "privacy", "estimation", "local", "signs")
REPORT = """<testsuites><testsuite>
<testcase classname="tests.a" name="rare"><properties><property name="rejects" value="1e-06"/></properties>
<failure/></testcase>
<testcase classname="tests.a" name="sound"><properties><property name="rejects" value="0.0002"/></properties></testcase>
<testcase classname="tests.b" name="broken"><error/></testcase>
<testcase classname="tests.b" name="plain"/>
</testsuite></testsuites>"""
DRAWN = """
from tests.noise import salted_bits, salted_rng
print(salted_bits(b"a", bytes(32)).read(8).hex(), salted_rng(3).bytes(8).hex(), salted_rng([3, 4]).bytes(8).hex())
"""


def drawn(salt: str) -> list[str]:
    """Return what the functions of a run with a salt draw."""
    environment = os.environ | {SALT_NAME: salt, "PYTHONPATH": str(ROOT.parent)}
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", DRAWN], env=environment, cwd=ROOT.parent, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_a_salt_changes_all_that_statistical_tests_draw() -> None:
    none, again, first, second = (drawn(salt) for salt in ("", "", "one", "two"))
    assert none == again
    for several in zip(none, first, second, strict=True):
        assert len(set(several)) == 3


def test_noise_of_one_name_is_the_same_and_uuids_are_not() -> None:
    """A fixture that is set up twice draws the same noise twice, and other names of files and classes."""
    drawn = []
    for _ in range(2):
        with fixed_noise("a fixture"):
            drawn.append((os.urandom(16), uuid.uuid4()))
    (noise, name), (again, other) = drawn
    assert noise == again
    assert name != other


def test_what_tests_share_is_the_same_whichever_of_them_is_first() -> None:
    """One process runs other tests than another, and a function that is cached draws for the first."""

    def drawn(size: int) -> bytes:
        return os.urandom(size)

    found = []
    for first in ("one test", "another"):
        shared = drawn_once(drawn)
        with fixed_noise(first):
            found.append((shared(16), shared(16), shared(8)))
    assert found[0] == found[1]
    assert found[0][0] == found[0][1] != found[0][2]


def test_each_file_that_draws_by_the_salt_states_how_often_it_rejects() -> None:
    missing = []
    for folder in STATISTICAL:
        for path in sorted((ROOT / folder).rglob("test_*.py")):
            text = path.read_text(encoding="utf-8")
            if re.search(r"\bsalted_(rng|bits)\(", text) and "pytest.mark.rejects(" not in text:
                missing.append(path.relative_to(ROOT).as_posix())
    assert not missing


def test_statistical_tests_have_no_seeds_that_a_salt_leaves() -> None:
    """What pins exact outputs is not in this folder."""
    fixed = [
        path.name
        for path in sorted((ROOT / "statistical").glob("test_*.py"))
        if re.search(r"default_rng\(|\bKeyedBits\(", path.read_text(encoding="utf-8"))
    ]
    assert not fixed


def test_the_outcome_of_a_run_is_read_from_its_report(tmp_path: Path) -> None:
    path = tmp_path / "report.xml"
    path.write_text(REPORT, encoding="utf-8")
    found = outcomes(path)
    assert found.rates == {"tests.a::rare": 1e-6, "tests.a::sound": 2e-4}
    assert found.failed == ["tests.a::rare", "tests.b::broken"]
    lines = table_of(dict.fromkeys(found.failed, 1), found.rates, 2)
    assert [line.split() for line in lines[1:]] == [["tests.a", "2", "0.0004", "1"], ["tests.b", "1", "0", "1"]]


@pytest.mark.parametrize(
    ("failures", "runs", "explained"),
    [
        ({}, 5, True),
        ({"often": 1}, 5, True),
        ({"often": 1}, 1, True),
        ({"often": 5}, 5, False),
        ({"usual 0": 2}, 5, False),  # any of 1,000 tests does once in 2,500 times
        ({"rare": 1}, 5, False),  # it states once in 10^8 runs
        ({"exact": 1}, 5, False),  # a law that holds for all data
        ({"unknown": 1}, 5, False),  # it draws nothing
        ({f"usual {place}": 1 for place in range(2)}, 5, True),
        ({f"usual {place}": 1 for place in range(9)}, 5, False),  # 1 is stated
    ],
)
def test_failures_are_compared_with_the_rates_that_tests_state(
    failures: dict[str, int],
    runs: int,
    explained: bool,  # noqa: FBT001
) -> None:
    rates = {"often": 0.02, "rare": 1e-8, "exact": 0.0} | {f"usual {place}": 2e-4 for place in range(1000)}
    assert is_explained(failures, rates, runs) == explained
