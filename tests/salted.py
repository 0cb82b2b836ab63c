"""Run the tests with other randomness, several times, and print which of them fail, and how often.

    python -m tests.salted [--runs N] [PATHS …]

Each test draws the same secret bits at each run, by its name, and the same data, by a seed (`tests.noise`). So a
statistical test that a right library fails once in a thousand draws either never fails or always. Here each run has a
salt of its own. `@pytest.mark.rejects(rate)` states how often a test may fail a right library, 0 for a law that holds
for all data; of other tests that draw secret bits, that is once in `tests.noise.CHANCE` draws. What failed is compared
with what was stated, by file. The status is 1 if more failed than that explains, in all or of one test.
STREAMSKETCH_TEST_SALT=… repeats a run.
"""

import argparse
import os
import secrets
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

from scipy import stats

from tests.noise import SALT_NAME

LEVEL = 0.01
"""The probability with which a right library fails each of the two judgements of all runs together."""


class Outcome(NamedTuple):
    """What came of the tests of a run."""

    rates: dict[str, float]
    """How often each test that depends on the salt may fail a right library."""
    failed: list[str]
    """The names of all tests that failed, of those that draw nothing, too."""


def outcomes(report: Path) -> Outcome:
    """Return the outcome of a run from pytest's report."""
    rates, failed = dict[str, float](), list[str]()
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - pytest wrote it
        name = f"{case.get('classname')}::{case.get('name')}"
        stated = case.find("properties/property[@name='rejects']")
        if stated is not None:
            rates[name] = float(stated.get("value", "0"))
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(name)
    return Outcome(rates, failed)


def run_once(salt: str, paths: list[str]) -> Outcome:
    """Run the tests with a salt."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n",
            "auto",
            "--dist",
            "worksteal",
            f"--junit-xml={report}",
            *paths,
        ]
        environment = os.environ | {SALT_NAME: salt}
        subprocess.run(command, env=environment, check=False, stdout=subprocess.DEVNULL)  # noqa: S603
        return outcomes(report)


def are_too_many(failures: int, rates: Mapping[str, float], runs: int) -> bool:
    """Return whether more tests failed in so many runs than their rates explain.

    Parameters
    ----------
    failures
        The number of failures, of all tests.
    rates
        How often each test that depends on the salt may fail in one run.
    runs
        The number of runs.
    """
    # a sum of rare failures has Poisson's law, or a narrower one
    return bool(stats.poisson.sf(failures - 1, runs * sum(rates.values())) <= LEVEL)


def fail_too_often(failures: Mapping[str, int], rates: Mapping[str, float], runs: int) -> list[str]:
    """Return the tests that failed more often than their rates explain; parameters as `are_too_many`, by test."""
    chances = {name: stats.binom.sf(count - 1, runs, rates.get(name, 0.0)) for name, count in failures.items()}
    return [name for name, chance in chances.items() if chance * len(rates) <= LEVEL]


def is_explained(failures: Mapping[str, int], rates: Mapping[str, float], runs: int) -> bool:
    """Return whether chance explains failures, by test, of so many runs."""
    too_many = are_too_many(sum(failures.values()), rates, runs)
    return not too_many and not fail_too_often(failures, rates, runs)


def table_of(failures: Mapping[str, int], rates: Mapping[str, float], runs: int) -> list[str]:
    """Return the lines of a table of files: tests, failures that were stated, and those that were seen."""
    tests, stated, seen = Counter[str](), Counter[str](), Counter[str]()
    for name in rates.keys() | failures.keys():
        file = name.partition("::")[0]
        tests[file] += 1
        stated[file] += runs * rates.get(name, 0.0)  # type: ignore[assignment] # a Counter adds up floats as well
        seen[file] += failures.get(name, 0)
    lines = [f"{'file':58}{'tests':>6}{'at most':>10}{'failed':>8}"]
    return lines + [f"{file:58}{tests[file]:6}{stated[file]:10.2g}{seen[file]:8}" for file in sorted(tests)]


def main() -> int:
    """Return the status of the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.salted", description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5, help="how many runs, each with a salt of its own")
    parser.add_argument("paths", nargs="*", help="as of pytest, by default all tests")
    asked = parser.parse_args()
    failures, rates = Counter[str](), dict[str, float]()
    for number in range(asked.runs):
        salt = secrets.token_hex(8)
        found = run_once(salt, asked.paths)
        rates |= found.rates
        failures.update(found.failed)
        print(
            f"run {number + 1} of {asked.runs}, {SALT_NAME}={salt}: {len(found.rates):,} tests depend on it, "
            f"{len(found.failed)} failed",
            flush=True,
        )
        for name in found.failed:
            print(f"  {name}", flush=True)
    print("\n".join(table_of(failures, rates, asked.runs)))
    for name, count in failures.most_common():
        print(f"{name}: failed in {count} of {asked.runs} runs, states {rates.get(name, 0.0):.2g}")
    most = asked.runs * sum(rates.values())
    print(f"{failures.total()} tests failed; by the stated rates a right library fails {most:.2g} on average, at most")
    return 0 if is_explained(failures, rates, asked.runs) else 1


if __name__ == "__main__":
    sys.exit(main())
