"""Run everything that checks a claim, with fresh randomness, and print one table: ``make audit``.

    python -m tests.audit [WORDS …] [--jobs N]

WORDS choose rows by their names or headings. The status is 1 if a test failed, or a row had none that ran.
STREAMSKETCH_TEST_SALT=… repeats a run.
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
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.audit.claims import ROOT, Claim, claims
from tests.audit.plugin import REPORT
from tests.noise import SALT_NAME

ROUNDING = 1e-12
"""A margin of so little below zero is none: losses equal ε where the noise is the least that is allowed."""

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


def run_tests(rows: Sequence[Claim], jobs: str) -> Tests:
    """Run the tests of rows once, and return what came of each."""
    named = sorted({test for row in rows for test in row.tests})
    asked = [test for test in named if not any(test != other and selects(other, test) for other in named)]
    if not asked:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.audit.plugin", "-m", "not tools and not long"]
        # with durations, reports have what was told when a test was torn down (`tests.workers.BriefReports`)
        command += ["-n", jobs, "--dist", "worksteal", "--durations=3", *asked]
        environment = {name: value for name, value in os.environ.items() if name != "CI"}  # hypothesis draws anew
        environment |= {REPORT: str(report), SALT_NAME: os.environ.get(SALT_NAME) or secrets.token_hex(8)}
        print(f"{SALT_NAME}={environment[SALT_NAME]}", flush=True)
        subprocess.run(command, cwd=ROOT, env=environment, check=False)  # noqa: S603
        found: Tests = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}
        return found


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
        return Row(claim, 0, None, f"not run: {claim.command[0]} or what it needs is not installed")
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
    """Return the table: claim, theorem, place, what was run, cases, and the smallest margin."""
    head = ("claim", "theorem", "place in the code", "what was run", "cases", "smallest margin", "")
    lines = [head, *map(_cells, rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(head))]
    texts = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([texts[0], "-" * max(map(len, texts)), *texts[1:]])


def _cells(row: Row) -> tuple[str, ...]:
    claim = row.claim
    margin = "–" if row.margin is None else f"{0 if abs(row.margin) < ROUNDING else row.margin:.3g} {claim.margin}"
    state = "holds" if not row.problem else row.problem
    return claim.claim, claim.theorem or "–", claim.place, claim.run, f"{row.cases:,}", margin, state


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
    bad = [row for row in found if row.problem and not row.problem.startswith("not run")]
    print(f"{len(found)} claims, {cases:,} cases, {minutes:.1f} minutes; {len(bad)} claims do not hold")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
