"""Commands as people wait for them, processor seconds of a whole process, user and system.

A site has 5,000 rows of CSV, with a person, an item and an amount. Each command runs as the installed script does, with
its kernels and byte code on disk. Beside it is a process that imports numpy, which all of them need. Processor time is
what the operating system counts for the process and its threads, so that other work on the machine delays the commands
but hardly changes the figures.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.rows import SECONDS, Effort, Row, Target
from benchmarks.timing import Timings

_FLOOR = "import numpy"
SCRIPT = "from streamsketch.cli.app import run_and_end; run_and_end()"
_ROWS = 5_000
# In an order in which each finds what it reads; the name of a command, and what follows it.
_COMMANDS = {
    "agree": "{site}.csv --index item:text --value amount --unit-column person --epsilon 1 --delta 1e-6 --output {new}",
    "sketch": "{site}.csv --agreement terms.json --output {new}",
    "release": "{site}.csv --agreement terms.json --output {new}",
    "explain": "north.sketch",
    "compare": "north.sketch south.sketch",
    "frequency": "north.sketch --agreement terms.json --items i1,i2",
    "merge": "north.sketch south.sketch --output {new}",
    "report": "north.sketch south.sketch --output {new}",
    "check": "{site}.csv --agreement terms.json",
    "plan": "streams --epsilon 1 --delta 1e-6 --squared-distance 1000 --set l1=10 --set events=5000",
}
_SUFFIXES = {"agree": "json", "sketch": "raw-sketch", "release": "sketch", "merge": "sketch", "report": "html"}
_TARGETS = {
    "sketch": Target("ours", 0.8),
    "release": Target("ours", 0.8),
    "explain": Target("ratio", 2.0),
    "compare": Target("ratio", 2.0),
    "plan": Target("ours", 0.4),
}


def run(effort: Effort) -> list[Row]:
    """Run ten commands in turn, as often as the effort has rounds, a third of them at most."""
    with tempfile.TemporaryDirectory() as folder:
        _prepare(Path(folder), effort.size(_ROWS, least=50))
        seconds: dict[str, list[float]] = {name: [] for name in (_FLOOR, *_COMMANDS)}
        for number in range(max(1, effort.rounds // 3)):
            seconds[_FLOOR].append(processor_seconds(folder, "-c", "import numpy"))
            for name in _COMMANDS:
                seconds[name].append(
                    processor_seconds(folder, "-c", SCRIPT, *_words(name, "north", f"{name}-{number}"))
                )
    return list(_rows(Timings(seconds)))


def processor_seconds(folder: str, *arguments: str) -> float:
    """Return what a Python process takes, started in ``folder``; it has to succeed."""
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": ""}  # as after an installation
    command, nowhere = [sys.executable, *arguments], subprocess.DEVNULL
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=nowhere, stderr=nowhere) as process:  # noqa: S603
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    return usage.ru_utime + usage.ru_stime


def _prepare(folder: Path, rows: int) -> None:
    """Write the rows of two sites, their agreement and their releases; this fills the caches of files and kernels."""
    rng = np.random.default_rng(1)
    for site in ("north", "south"):
        numbers = zip(rng.integers(0, 1000, rows), rng.integers(0, 300, rows), rng.integers(1, 9, rows), strict=True)
        lines = ["person,item,amount", *(f"p{person},i{item},{amount}" for person, item, amount in numbers)]
        (folder / f"{site}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for name, site, output in (
        ("agree", "north", "terms"),
        ("release", "north", "north"),
        ("release", "south", "south"),
    ):
        processor_seconds(str(folder), "-c", SCRIPT, *_words(name, site, output))


def _words(name: str, site: str, output: str) -> list[str]:
    return [name, *_COMMANDS[name].format(site=site, new=f"{output}.{_SUFFIXES.get(name, '')}").split()]


def _rows(timings: Timings) -> Iterator[Row]:
    for name in _COMMANDS:
        lower, ratio, upper = timings.ratios(name, _FLOOR)
        others = {_FLOOR: statistics.median(timings.seconds[_FLOOR])}
        yield Row(name, SECONDS.label, timings.median(name), others, ratio, (lower, upper), _TARGETS.get(name))
