"""Run the tests with other secret bits, several times, and print which of them fail, and how often.

    python -m tests.salted [--runs N] [PATHS …]

Each test draws the same secret bits at each run, by its name (`tests.noise`). So a statistical test that a right
library fails once in a thousand draws either never fails or always. Here each run has a salt of its own. Each test that
draws may fail a right library once in `CHANCE` draws. The status is 1 if more failed than that explains, or one of them
twice. STREAMSKETCH_TEST_SALT=… repeats a run.
"""

import argparse
import os
import secrets
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

from scipy import stats

from tests.noise import SALT_NAME

CHANCE = 5_000
"""A test that draws secret bits may fail a right library once in so many draws."""

_LEVEL = 1e-3  # of the judgement of all runs together


def outcomes(report: Path) -> tuple[int, list[str]]:
    """Return how many tests of a report of pytest drew secret bits, and the names of all that failed."""
    cases = list(ET.parse(report).iter("testcase"))  # noqa: S314 - pytest wrote it
    drew = sum(case.find("properties/property[@name='drew']") is not None for case in cases)
    bad = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    return drew, [f"{case.get('classname')}::{case.get('name')}" for case in bad]


def run_once(salt: str, paths: list[str]) -> tuple[int, list[str]]:
    """Run the tests with a salt; return as `outcomes`."""
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


def is_explained(failures: Counter[str], draws: int) -> bool:
    """Return whether chance explains failures, by test, of so many tests and runs in all."""
    more = stats.binom.sf(failures.total() - 1, draws, 1 / CHANCE)
    return bool(more > _LEVEL) and all(count < 2 for count in failures.values())


def main() -> int:
    """Return the status of the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.salted", description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5, help="how many runs, each with a salt of its own")
    parser.add_argument("paths", nargs="*", help="as of pytest, by default all tests")
    asked = parser.parse_args()
    failures, draws = Counter[str](), 0
    for number in range(asked.runs):
        salt = secrets.token_hex(8)
        count, failed = run_once(salt, asked.paths)
        draws += count
        failures.update(failed)
        print(
            f"run {number + 1} of {asked.runs}, {SALT_NAME}={salt}: {count:,} tests drew, {len(failed)} failed",
            flush=True,
        )
        for name in failed:
            print(f"  {name}", flush=True)
    high = stats.beta.ppf(0.95, failures.total() + 1, max(draws - failures.total(), 1))
    print(f"{failures.total()} of {draws:,} draws failed: at most one in {1 / high:,.0f}, with 95 % confidence")
    return 0 if is_explained(failures, draws) else 1


if __name__ == "__main__":
    sys.exit(main())
