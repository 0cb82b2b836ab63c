"""CSV to sketches beside polars' group-by of the same file, ns of processor time per row.

A file has four million rows of 27 bytes: a person, an item and an amount. `streamsketch sketch` sums the amounts by
item, without units, and with persons clipped to an l1 bound; polars sums them by item, and by person and item, in one
thread. Each runs in a process of its own, on the file and on its first ten rows, of which the difference counts:
`commands` measures start-up. Processor time is that of all threads.
"""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

import streamsketch as ss
from benchmarks.rows import NANOSECONDS, Effort, Row, Target
from benchmarks.speed.commands import SCRIPT, processor_seconds
from benchmarks.timing import Timings

_ROWS, _FEW = 4_000_000, 10
_PEOPLE, _ITEMS = 400_000, 50_000
_TICK = 1e-3  # seconds
_OURS, _POLARS = "streamsketch sketch", "polars' group-by"
_TARGETS = {"without units": Target("ratio", 1.5), "with units": Target("ratio", 2.5)}
_GROUPED = {"without units": "'item'", "with units": "'person', 'item'"}
_GROUP_BY = """
import os
os.environ["POLARS_MAX_THREADS"] = "1"
import polars
polars.scan_csv({file!r}).group_by({columns}).agg(polars.col("amount").sum()).collect()
"""


def run(effort: Effort) -> list[Row]:
    """Measure both in turn, as often as the effort has rounds, a third of them at most."""
    return list(_rows(effort))


def _rows(effort: Effort) -> Iterator[Row]:
    n = effort.size(_ROWS, least=_FEW)
    with tempfile.TemporaryDirectory() as folder:
        _prepare(Path(folder), n)
        for case, target in _TARGETS.items():
            _ours(folder, case, "first")  # compiles what is not on disk yet
            seconds: dict[str, list[float]] = {_OURS: [], _POLARS: []}
            for number in range(max(1, effort.rounds // 3)):
                seconds[_OURS].append(_ours(folder, case, str(number)) / n)
                seconds[_POLARS].append(_polars(folder, case) / n)
            timings = Timings(seconds)
            lower, ratio, upper = timings.ratios(_OURS, _POLARS)
            ours, others = (NANOSECONDS.of(timings.median(name)) for name in (_OURS, _POLARS))
            name = f"CSV, {n:,} rows, {case}"
            yield Row(name, NANOSECONDS.label, ours, {_POLARS: others}, ratio, (lower, upper), target)


def _prepare(folder: Path, n: int) -> None:
    """Write the file, its first rows, and an agreement for each case."""
    rng = np.random.default_rng(1)
    columns = {
        "person": [f"user-{number:07}" for number in rng.integers(0, _PEOPLE, n).tolist()],
        "item": [f"item-{number:05}" for number in np.minimum(rng.zipf(1.3, n), _ITEMS).tolist()],
        "amount": rng.integers(1, 100, n),
    }
    table, options = pa.table(columns), pa_csv.WriteOptions(quoting_style="none")
    pa_csv.write_csv(table, folder / "rows.csv", options)
    pa_csv.write_csv(table.slice(0, _FEW), folder / "few.csv", options)
    projection = ss.SJLT(sketch_dim=1024, sparsity=8, seed=2024)
    ss.Agreement(projection, index="item", value="amount").save(folder / "without units.json")
    bound = ss.L1(100, unit="person")
    agreement = ss.Agreement(projection, index="item", value="amount", unit="person", neighbours=bound)
    agreement.save(folder / "with units.json")


def _ours(folder: str, case: str, name: str) -> float:
    def seconds(file: str) -> float:
        words = ["sketch", f"{file}.csv", "--agreement", f"{case}.json", "--output", f"{case} {file} {name}.raw-sketch"]
        return processor_seconds(folder, "-c", SCRIPT, *words)

    return _beyond(seconds)


def _polars(folder: str, case: str) -> float:
    def seconds(file: str) -> float:
        return processor_seconds(folder, "-c", _GROUP_BY.format(file=f"{file}.csv", columns=_GROUPED[case]))

    return _beyond(seconds)


def _beyond(seconds: Callable[[str], float]) -> float:
    """Return the seconds for the file beyond those for its first rows: a tick of the clock at least."""
    return max(_TICK, seconds("rows") - seconds("few"))
