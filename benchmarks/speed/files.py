"""From files to sketches on one core, ns per event.

`streamsketch sketch` runs in a process of its own, twice: first on ten events, so that start-up and the loading of
kernels are not counted, then on the file. Beside it Arrow reads the same columns of the file by one thread, Parquet in
batches of the same length. *Text* is `Projection.indices_of` on a million rows of a hundred thousand different texts;
Arrow's own dictionary of the same column is beside it. *Append* adds events of twenty keys to a raw file.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

import streamsketch as ss
from benchmarks.rows import MILLISECONDS, NANOSECONDS, Effort, Row, Target, compare
from benchmarks.timing import Work
from streamsketch.storage import save_raw
from streamsketch.storage.raw_files import append_raw
from streamsketch.storage.sketches import RawHeader, RawSketch

_DIM, _FEW = 1 << 40, 10
_TARGETS = {"parquet": Target("ours", 1000 / 15), "csv": Target("ours", 1000 / 3)}
_SKETCH = """
import json, os, sys, time
from streamsketch.cli.app import main
few, path, agreement, output = sys.argv[1:]
seconds = []
for number, name in enumerate((few, path)):
    sys.argv = ["streamsketch", "sketch", name, "--agreement", agreement]
    sys.argv += ["--output", f"{output}/{number}.raw-sketch"]
    begun = time.perf_counter()
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, ended.code
    seconds.append(time.perf_counter() - begun)
    os.unlink(f"{output}/{number}.raw-sketch")
print(json.dumps(seconds))
"""


def run(effort: Effort) -> list[Row]:
    """Measure files, columns of text and appends."""
    return [*_files(effort), *_text(effort), *_append(effort)]


def _files(effort: Effort) -> list[Row]:
    rows, rounds = [], max(1, effort.rounds // 3)
    n = effort.size(5_000_000, least=_FEW)
    with tempfile.TemporaryDirectory() as folder:
        agreed = Path(folder) / "agreed.json"
        projection = ss.SJLT(dim=_DIM, sketch_dim=1024, sparsity=8, seed=2024)
        ss.Agreement.of(projection, index="index", value="value").save(agreed)
        for form, target in _TARGETS.items():
            few, whole = (_write(Path(folder) / f"{size}.{form}", size) for size in (_FEW, n))
            sketched(few, whole, agreed, folder)  # compiles what is not on disk yet
            ours, reading = [], []
            for _ in range(rounds):
                ours.append(sketched(few, whole, agreed, folder) / n)
                begun = time.perf_counter()
                _read(whole)
                reading.append((time.perf_counter() - begun) / n)
            scaled = [statistics.median(times) * NANOSECONDS.factor for times in (ours, reading)]
            name = f"streamsketch sketch of {form}, {n:,} events, s=8, k=1024"
            rows.append(Row(name, "ns", scaled[0], {"Arrow reads it": scaled[1]}, scaled[0] / scaled[1], target=target))
    return rows


def sketched(few: Path, whole: Path, agreed: Path, folder: str) -> float:
    """Return the seconds that a process takes for a file after a small one."""
    command = [sys.executable, "-c", _SKETCH, *map(str, (few, whole, agreed, folder))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - ourselves
    return float(json.loads(done.stdout.splitlines()[-1])[1])


def _write(path: Path, n: int) -> Path:
    rng = np.random.default_rng(11)
    table = pa.table({"index": rng.integers(0, _DIM, n), "value": rng.integers(-9, 10, n)})
    if path.suffix == ".csv":
        pa_csv.write_csv(table, path)
    else:
        pq.write_table(table, path, row_group_size=1 << 20)
    return path


def _read(path: Path) -> None:
    if path.suffix == ".csv":
        pa_csv.read_csv(path, pa_csv.ReadOptions(use_threads=False))
    else:
        for _ in pq.ParquetFile(path).iter_batches(1 << 17, use_threads=False):
            pass


def _text(effort: Effort) -> list[Row]:
    n, different = effort.size(1_000_000), effort.size(100_000)
    codes = np.random.default_rng(7).integers(0, different, n).astype(np.int32)
    column = pa.DictionaryArray.from_arrays(codes, pa.array([f"user-{number:08}@x" for number in range(different)]))
    plain, projection = column.dictionary_decode(), ss.SJLT(sketch_dim=1024, sparsity=8, seed=2024)
    peers = {"Arrow's dictionary": Work(plain.dictionary_encode, n)}
    return [
        compare(
            f"text as indices, {kind}, {n:,} rows, {different:,} different",
            {"ours": Work(lambda values=values: projection.indices_of(values), n), **peers},  # type: ignore[misc]
            effort,
            target=Target("ours", most),
        )
        for kind, values, most in (("plain", plain, 40), ("dictionary-encoded", column, 10))
    ]


def _append(effort: Effort) -> list[Row]:
    sizes = effort.size(10_000, least=40), effort.size(1_000, least=20)
    projection = ss.SJLT(dim=_DIM, sketch_dim=1024, sparsity=8, seed=2024)
    with tempfile.TemporaryDirectory() as folder:
        large, small = (_table(projection, keys) for keys in sizes)
        appends = {
            f"to {keys:,} keys": _appending(Path(folder) / f"{keys}.raw-sketch", table)
            for keys, table in zip(sizes, (large, small), strict=True)
        }
        anew = Work(lambda: save_raw(RawSketch(large), Path(folder) / "whole.raw-sketch"))
        name = f"append the events of twenty keys to a raw file of {sizes[0]:,} keys"
        once = Effort(effort.name, effort.rounds, 0.0, effort.shrink)
        # apart: whatever waits for the disk right after 80 MB were written there waits longer
        return [
            compare(name, appends, once, MILLISECONDS, Target("ratio", 1.5)),
            compare(
                f"{name}, or write it anew", {"append": next(iter(appends.values())), "anew": anew}, once, MILLISECONDS
            ),
        ]


def _table(projection: ss.projections.Projection, keys: int) -> ss.SketchTable:
    table = projection.table()
    table.update([f"key {number}" for number in range(keys)], np.arange(keys))
    return table


def _appending(path: Path, table: ss.SketchTable) -> Work:
    save_raw(table, path)
    added = RawHeader.of(RawSketch(table)).empty()
    added.merge(_table(table.projection, 20))  # type: ignore[arg-type]
    return Work(lambda: append_raw(RawSketch(added, 20), path))
