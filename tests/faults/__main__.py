"""Put each fault into the library, run the tests that guard it, and print the share that was noticed.

    python -m tests.faults [WORDS …] [--jobs N]

Faults are put into forks of a process that has collected the tests (`tests.faults.forks`). Those that no fork noticed
or could have are put into a copy of the library. WORDS choose faults by their names or files. The status is 1 if one of
privacy was not noticed, if fewer than 95 of 100 others were, or if one could not be tried.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

from tests.faults.catalogue import ROOT, Fault, faults
from tests.faults.forks import tried_in_forks

NOTICED, MISSED, UNTRIED = "noticed", "missed", "not tried"
PATIENCE = 600
"""Seconds after which a test that hangs has noticed the fault: no outcome depends on the speed of a right library."""

SHARE = 0.95
NEEDED = (
    "streamsketch",
    "tests",
    "docs",
    "pipelines",
    "reader",
    "web/src",
    "web/tests",
    "pyproject.toml",
    "README.md",
    "conftest.py",
)


def copy_of_everything(target: Path) -> None:
    """Copy what the tests need, with the times by which Numba knows that compiled kernels are current."""
    for name in NEEDED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("node_modules"))
        elif source.exists():
            shutil.copy2(source, target / name)


@contextmanager
def put_into(copy: Path, fault: Fault) -> Iterator[None]:
    """Let the copy have the fault, for as long as the context lasts."""
    path = copy / "streamsketch" / fault.file
    kept = path.with_name(f"{path.name}.kept")
    path.rename(kept)
    try:
        path.write_text(fault.source.replace(fault.before, fault.after), encoding="utf-8")
        yield
    finally:
        path.unlink()
        kept.rename(path)


def outcome(copy: Path, tests: tuple[str, ...]) -> tuple[str, str]:
    """Return whether one of the tests failed in the copy, and what pytest printed."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-n",
        "0",
        "-m",
        "not tools",
        *tests,
    ]
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "CI": "true"}
    try:
        run = subprocess.run(  # noqa: S603
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired as late:
        return NOTICED, str(late)
    # pytest: 0, all passed; 1, some failed; the others, it could not run them
    return {0: MISSED, 1: NOTICED}.get(run.returncode, UNTRIED), run.stdout + run.stderr


def tried(fault: Fault, copies: "SimpleQueue[Path]") -> tuple[str, str]:
    """Return what became of one fault, in a copy that no other uses."""
    if problem := fault.problem():
        return UNTRIED, problem
    copy = copies.get()
    try:
        with put_into(copy, fault):
            return outcome(copy, fault.tests)
    finally:
        copies.put(copy)


def tried_in_copies(faults: Sequence[Fault], jobs: int) -> Iterator[tuple[Fault, str, str]]:
    """Yield each fault, what became of it, and what pytest printed, as soon as it is known."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(jobs if faults else 0):
            copy_of_everything(Path(folder, str(number)))
            copies.put(Path(folder, str(number)))
        runs = {pool.submit(tried, fault, copies): fault for fault in faults}
        for run in as_completed(runs):
            yield runs[run], *run.result()


def main() -> int:
    """Return the status of the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__.partition("\n")[0])
    parser.add_argument("words", nargs="*", help="parts of names or files: only these faults")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many to try at once")
    asked = parser.parse_args()
    chosen = [
        fault
        for fault in faults()
        if not asked.words or any(word in f"{fault.file} {fault.name}" for word in asked.words)
    ]
    counts: dict[tuple[str, str], Counter[str]] = {}
    left: list[Fault] = []

    def count(fault: Fault, result: str) -> None:
        counts.setdefault((fault.folder, fault.concerns), Counter())[result] += 1
        print(f"{result:10} {fault.file}: {fault.name}", flush=True)

    def take(fault: Fault, status: int) -> None:
        if status == 1:
            count(fault, NOTICED)
        else:
            left.append(fault)

    sound = [fault for fault in chosen if fault.problem() is None]
    tried_in_forks(sound, asked.jobs, PATIENCE, take)
    left += [fault for fault in chosen if fault not in sound]
    for fault, result, printed in tried_in_copies(left, asked.jobs):
        count(fault, result)
        if result is UNTRIED:
            print("\n".join(printed.splitlines()[-15:]), flush=True)
    return summary(counts)


def summary(counts: Mapping[tuple[str, str], Mapping[str, int]]) -> int:
    """Print the share of noticed faults by folder, and return the status."""
    print(f"\n{'folder':14}{'concerns':10}{'faults':>8}{'noticed':>9}")
    whole, private = Counter[str](), Counter[str]()
    for (folder, concerns), count in sorted(counts.items()):
        print(f"{folder:14}{concerns:10}{sum(count.values()):8}{count.get(NOTICED, 0):9}")
        whole.update(count)
        private.update(count if concerns == "privacy" else {})
    print(f"{whole[NOTICED]} of {whole.total()} were noticed; of privacy, {private[NOTICED]} of {private.total()}")
    good = private[NOTICED] == private.total() and whole[NOTICED] >= SHARE * whole.total() and not whole[UNTRIED]
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
