"""Exact tables of people of several rows, by engines that need no pipeline."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

import streamsketch as ss
from streamsketch.spark import sketch_per_key
from streamsketch.storage import load_raw
from tests.cli.running import Forks
from tests.spark.frames import LocalFrame


def average(sums: np.ndarray, rows: int) -> list[int]:
    """Return sums over a number of rows to the nearest integers, halves away from zero."""
    return [int(abs(Fraction(int(one), rows)) + Fraction(1, 2)) * (1 if one > 0 else -1) for one in sums]


def by_bound(rows: pa.Table, agreement: ss.Agreement, _: Path) -> Any:
    return ss.bound(pa.Table.from_batches(rows.to_batches(max_chunksize=7)), agreement)


def by_command(rows: pa.Table, agreement: ss.Agreement, folder: Path) -> Any:
    """Sketch files, in several of which a person's rows are."""
    agreement.save(folder / "agreement.json")
    for place in range(3):
        pa_csv.write_csv(rows.take(pa.array(range(place, len(rows), 3))), folder / f"{place}.csv")
    names = [f"{place}.csv" for place in range(3)]
    with Forks() as running:
        running.succeeded("sketch", *names, "--agreement", "agreement.json", "-o", "s.raw-sketch", cwd=folder)
    return load_raw(folder / "s.raw-sketch").state


def by_spark(rows: pa.Table, agreement: ss.Agreement, _: Path) -> Any:
    frame: Any = LocalFrame.of(rows, 3)
    return sketch_per_key(frame, agreement, shards=4).table()


TABLES = {"bound": by_bound, "command": by_command, "Spark": by_spark}
