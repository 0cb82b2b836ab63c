"""Start-up, seconds of a fresh Python process.

Every figure but one is a whole process, from start to exit; the import alone is timed inside the process, as a
difference of processes could come out below 0. *Cold* has an empty folder of compiled kernels, as on the first
run after an installation; *warm* finds them there. The floor of both is a Numba kernel that returns its argument: the
imports of numpy and Numba (which imports scipy.linalg) and the compiler's own start are paid by any first
kernel. The operating system's file cache is warm throughout: the first start after a reboot is slower.
"""

import itertools
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.rows import SECONDS, Effort, Row, Target
from benchmarks.timing import Timings, Work, interleave

_BARE = "pass"
_IMPORT = "import streamsketch"
_TIMED_IMPORT = """
import time
begun = time.perf_counter()
import streamsketch
print(time.perf_counter() - begun)
"""
_FIRST_UPDATE = """
import numpy, streamsketch
projection = streamsketch.SJLT(dim=1 << 40, sketch_dim=1024, sparsity=8, seed=2024)
projection.sketch().update(numpy.arange(1000), 1)
"""
_FLOOR = """
import numpy, numba

@numba.njit(cache=True)
def identity(array):
    return array

identity(numpy.arange(1000))
"""


def run(effort: Effort) -> list[Row]:
    """Measure the import, the first update with and without compiled kernels on disk, and the command's own start."""
    with tempfile.TemporaryDirectory() as folder:
        floor = Path(folder) / "floor.py"  # Numba keeps nothing of code that has no file
        floor.write_text(_FLOOR, encoding="utf-8")
        ours_cold, ours_warm = _cold_and_warm(f"{folder}/ours", "-c", _FIRST_UPDATE)
        floor_cold, floor_warm = _cold_and_warm(f"{folder}/floor", str(floor))
        run_python(folder, "-c", "import numba, scipy.linalg, streamsketch.projections")  # into the system's file cache
        alone: list[float] = []
        timings = interleave(
            {
                "python -c pass": Work(lambda: run_python(folder, "-c", _BARE)),
                "import streamsketch": Work(lambda: run_python(folder, "-c", _IMPORT)),
                "the import alone": Work(lambda: alone.append(float(run_python(folder, "-c", _TIMED_IMPORT)))),
                "any kernel, cold": Work(floor_cold),
                "first update, cold": Work(ours_cold),
                "any kernel, warm": Work(floor_warm),
                "first update, warm": Work(ours_warm),
                "streamsketch --version": Work(lambda: run_python(folder, "-m", "streamsketch", "--version")),
                "streamsketch --help": Work(lambda: run_python(folder, "-m", "streamsketch", "--help")),
            },
            max(1, effort.rounds // 2),
            warm_up=False,
        )
    return [
        _row(timings, "import streamsketch", "python -c pass"),
        Row("import streamsketch, the statement alone", "s", statistics.median(alone), {}, target=Target("ours", 0.15)),
        _row(timings, "first update, warm", "any kernel, warm", Target("ratio", 1.05)),
        _row(timings, "first update, cold", "any kernel, cold", Target("ours", 1.2)),
        _row(timings, "streamsketch --version", "python -c pass", Target("ours", 0.15)),
        _row(timings, "streamsketch --help", "python -c pass", Target("ours", 0.15)),
    ]


def _cold_and_warm(folder: str, *arguments: str) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return two calls: start Python with a new, empty cache in ``folder``; start it again with that one."""
    caches = (f"{folder}/{number}" for number in itertools.count())
    latest = ""

    def cold() -> None:
        nonlocal latest
        latest = next(caches)
        run_python(latest, *arguments)

    return cold, lambda: run_python(latest, *arguments)


def _row(timings: Timings, ours: str, other: str, target: Target | None = None) -> Row:
    lower, ratio, upper = timings.ratios(ours, other)
    others = {other: timings.median(other)}
    return Row(ours, SECONDS.label, timings.median(ours), others, ratio, (lower, upper), target)


def run_python(cache: str, *arguments: str) -> str:
    """Return what a fresh process of Python prints, with its kernels in a folder."""
    environment = os.environ | {"NUMBA_CACHE_DIR": cache, "PYTHONDONTWRITEBYTECODE": ""}  # as after an installation
    command = [sys.executable, *arguments]
    return subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, text=True).stdout  # noqa: S603
