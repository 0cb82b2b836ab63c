"""Run everything that checks a claim, with fresh randomness, and print one table: ``make audit``.

    python -m tests.audit [WORDS …] [--jobs N]

WORDS choose rows by their names or headings. The status is 1 if a claim does not hold: a test failed, or none ran. A
test may fail a right library with a small probability, which it states. If it does, it runs again with other
randomness, and the claim holds unless it fails more often than that explains. STREAMSKETCH_TEST_SALT=… repeats a run.
"""

import argparse
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.audit.claims import ROOT, Claim, claims, numbers_of
from tests.audit.plugin import REPORT
from tests.noise import SALT_NAME
from tests.salted import are_too_many, fail_too_often

AGAIN = 5
"""Further runs of what may have failed by chance."""
ROUNDING = 1e-12
"""A margin of so little below zero is none: losses equal ε where the noise is the least that is allowed."""

_WIDTH, _INDENT = 80, " " * 6
_NOT_RUN = "Not run"

Tests = Mapping[str, Mapping[str, Any]]
# after the sign of one of node's reporters; of the reader in Go
_PASSED = re.compile(r"^(?:\S+ )?(?:pass|passed)\s+(\d+)|: (\d+) of \d+ cases agree$", re.MULTILINE)


class Row(NamedTuple):
    """What came of a claim."""

    claim: Claim
    cases: int
    margin: float | None
    problem: str
    """Why it does not hold, or could not be checked; empty if it holds."""

    @property
    def not_run(self) -> bool:
        """Whether it could not be checked."""
        return self.problem.startswith(_NOT_RUN)


def run_tests(rows: Sequence[Claim], jobs: str) -> Tests:
    """Run the tests of rows, those that may have failed by chance again, and return what came of each."""
    named = sorted({test for row in rows for test in row.tests})
    asked = [test for test in named if not any(test != other and selects(other, test) for other in named)]
    salt = os.environ.get(SALT_NAME) or secrets.token_hex(8)
    print(f"{SALT_NAME}={salt}", flush=True)

    def again(tests: Sequence[str], number: int) -> Tests:
        print(f"Again, with other randomness, {number} of {AGAIN}: {', '.join(tests)}", flush=True)
        return run_once(tests, jobs, f"{salt}-{number}")

    return without_chance(run_once(asked, jobs, salt), again)


def run_once(tests: Sequence[str], jobs: str, salt: str) -> Tests:
    """Return what came of tests with a salt."""
    if not tests:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.audit.plugin", "-m", "not tools and not long"]
        # with durations, reports have what was told when a test was torn down (`tests.workers.BriefReports`)
        command += ["-n", jobs, "--dist", "worksteal", "--durations=3", *tests]
        environment = {name: value for name, value in os.environ.items() if name != "CI"}  # hypothesis draws anew
        environment |= {REPORT: str(report), SALT_NAME: salt}
        subprocess.run(command, cwd=ROOT, env=environment, check=False)  # noqa: S603
        outcomes: Tests = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}
        return outcomes


def without_chance(tests: Tests, run_again: Callable[[Sequence[str], int], Tests]) -> Tests:
    """Return what came of tests, where those that failed by chance have passed.

    Parameters
    ----------
    tests
        What came of them. ``rejects`` is the probability with which a test fails a right library, if it draws.
    run_again
        Runs tests by name with other randomness, which the number of the run chooses.
    """
    rates = {name: float(test["rejects"]) for name, test in tests.items() if "rejects" in test}
    failed = [name for name, test in tests.items() if test["outcome"] == "failed" and rates.get(name)]
    if not failed or are_too_many(len(failed), rates, 1):
        return tests
    counts, by_chance = Counter(failed), dict[str, Mapping[str, Any]]()
    for number in range(1, AGAIN + 1):
        for name, test in run_again(failed, number).items():
            by_chance |= {name: test} if test["outcome"] == "passed" else {}
            counts[name] += test["outcome"] == "failed"
    for name in fail_too_often(counts, rates, 1 + AGAIN):
        by_chance.pop(name, None)
    return {**tests, **by_chance}


def selects(wide: str, narrow: str) -> bool:
    """Return whether one argument of pytest selects all that another does."""
    return narrow.startswith(wide) and narrow[len(wide) :][:1] in ("/", ":", "[")


def judged_by_tests(claim: Claim, tests: Tests) -> Row:
    """Return the row of a claim from what came of tests."""
    own = {name: one for name, one in tests.items() if claim.covers(name)}
    margins = [one["margin"] for one in own.values() if "margin" in one]
    cases = sum(one.get("cases", 1) for one in own.values() if one["outcome"] == "passed")
    failed = [name for name, one in own.items() if one["outcome"] == "failed"]
    margin = min(margins, default=None)
    problem = f"{len(failed)} failed, first {failed[0]}" if failed else "" if cases else "no test ran"
    if not problem and margin is not None and margin < -ROUNDING:
        problem = "the margin is below zero"
    return Row(claim, cases, margin, problem)


def judged_by_command(claim: Claim) -> Row:
    """Run the command of a claim, and return its row."""
    folder = ROOT / claim.folder
    installed = (folder / "node_modules").is_dir() or not (folder / "package.json").exists()
    if shutil.which(claim.command[0]) is None or not installed:
        return Row(claim, 0, None, f"{_NOT_RUN}: {claim.command[0]} or what it needs is not installed")
    done = subprocess.run(  # noqa: S603
        claim.command, cwd=folder, capture_output=True, text=True, check=False
    )
    return judged_by_output(claim, done.returncode, done.stdout)


def judged_by_output(claim: Claim, status: int, printed: str) -> Row:
    """Return the row of a claim from what its command printed."""
    cases = sum(int(node or go) for node, go in _PASSED.findall(printed))
    problem = f"it ended with {status}" if status else "" if cases else "no test ran"
    return Row(claim, cases, None, problem)


def table_of(rows: Sequence[Row]) -> str:
    """Return the table: claim, whether it holds, cases and smallest margin, what was run, theorem and place."""
    numbers, lines, group = numbers_of(claims()), list[str](), ""
    for row in rows:
        if row.claim.group != group:
            group = row.claim.group
            lines += ["", group]
        number = f"{numbers.get(row.claim.name, 0):4}  "
        for place, cell in enumerate(_cells(row)):
            lines += textwrap.wrap(
                cell, _WIDTH, initial_indent=number if place == 0 else _INDENT, subsequent_indent=_INDENT
            )
    return "\n".join(lines[1:])


def _cells(row: Row) -> tuple[str, ...]:
    claim, cases = row.claim, f"{row.cases:,} case{'' if row.cases == 1 else 's'}"
    if row.margin is not None:
        cases += f", the smallest margin is {0 if abs(row.margin) < ROUNDING else row.margin:.3g} {claim.margin}"
    state = f"Holds: {cases}." if not row.problem else f"{'' if row.not_run else 'DOES NOT HOLD: '}{row.problem}."
    return (
        f"{claim.claim}.",
        state,
        f"{claim.run[0].upper()}{claim.run[1:]}.",
        "; ".join(filter(None, (claim.theorem, claim.place))),
    )


def main() -> int:
    """Return the status of the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.audit", description=__doc__.partition("\n")[0])
    parser.add_argument("words", nargs="*", help="parts of names or headings: only these rows")
    parser.add_argument("--jobs", default="auto", help="how many processes, as of pytest -n")
    asked = parser.parse_args()
    rows = [
        row for row in claims() if not asked.words or any(word in f"{row.group} {row.name}" for word in asked.words)
    ]
    begun = time.monotonic()
    tests = run_tests(rows, asked.jobs)
    found = [judged_by_command(row) if row.command else judged_by_tests(row, tests) for row in rows]
    print(table_of(found))
    minutes, cases = (time.monotonic() - begun) / 60, sum(row.cases for row in found)
    bad = [row for row in found if row.problem and not row.not_run]
    print(f"{len(found)} claims, {cases:,} cases, {minutes:.1f} minutes; {len(bad)} claims do not hold")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
