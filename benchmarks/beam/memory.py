"""Peak memory of a pipeline with very many keys, GB.

Whole processes: Parquet to sketches or releases with so many keys that most cells are zero; Python, Beam and compiled
kernels are included. Beside them is a process that only imports as much.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import streamsketch as ss
from benchmarks.beam.ingest import read_and_sketch, run_pipeline, write_events
from benchmarks.rows import Effort, Row, Target
from streamsketch.beam import ReleasePerKey
from streamsketch.release import AdditiveNoise

_MOST = Target("ours", 1.5)


def run(effort: Effort) -> list[Row]:
    """Measure 100,000 keys of ten events each."""
    keys = effort.size(100_000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "wide.parquet"
        write_events(path, 10 * keys, keys)
        imports = {"imports alone": _peak("nothing", path)}
        return [
            Row(f"{keys:,} keys, ten events each, {what}", "GB", _peak(what, path), imports, target=_MOST)
            for what in ("sketches", "releases")
        ]


def _peak(what: str, path: Path) -> float:
    """Return the peak memory of a process of its own."""
    command = [sys.executable, "-m", "benchmarks.beam.memory", what, str(path)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)  # noqa: S603 - ourselves


def _measured(what: str, path: str) -> float:
    """Run the pipeline; return this process's peak of memory in GB (Linux)."""
    if what != "nothing":
        released = (
            [ReleasePerKey(AdditiveNoise(epsilon=1.0, neighbours=ss.L1(9)), keys_are_public=True)]
            if what == "releases"
            else []
        )
        run_pipeline(read_and_sketch(Path(path)), *released)
    # getrusage would count what the parent had when it started this process
    peak = re.search(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(peak[1]) / 1e6 if peak else float("nan")


if __name__ == "__main__":
    print(_measured(*sys.argv[1:]))  # noqa: T201
