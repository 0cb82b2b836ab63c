"""Logs of tests: read from files and pipes, and rotated in every way."""

import functools
import gzip
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

import streamsketch as ss
from streamsketch.agreement.casts import Rows as Numbers
from streamsketch.data.canonical import HASHED_DIM
from streamsketch.intake import Log, RowReader
from streamsketch.intake.rows import rows_from

AGREEMENT = ss.Agreement(
    ss.SJLT(dim=HASHED_DIM, sketch_dim=16, sparsity=1, seed=7), index="item", value="n", missing="drop"
)
READER = RowReader(AGREEMENT)
eager = functools.partial(Log, look=0)  # does not wait for a file to grow
HEADER, FIRST, SECOND = b"item,n\n", b"a,1\nb,2\n", b'"c, d",3\ne,4\n'


class Rows(list[tuple[str, str]]):
    """The rows that were read, and the number of each."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: list[int] = []

    def add(self, batch: pa.RecordBatch, first: int | Numbers) -> None:
        if "bad" in batch.column("item").to_pylist():
            raise ss.InvalidInputError("a bad item")
        self += zip(batch.column("item").to_pylist(), batch.column("n").to_pylist(), strict=True)
        self.numbers += map(int, rows_from(first, batch))


@contextmanager
def opened(path: Path) -> Iterator[int]:
    with path.open("rb", buffering=0) as file:
        yield file.fileno()


@contextmanager
def piped(data: bytes) -> Iterator[int]:
    source, sink = os.pipe()
    os.write(sink, data)
    os.close(sink)
    try:
        yield source
    finally:
        os.close(source)


def rows_of(log: Log, **options: Any) -> Rows:
    rows = Rows()
    for piece in log.pieces(**options):
        log.read(piece, rows.add)
    return rows


class Rotating:
    """A log of JSON lines, rows numbered from 0, which is rotated in every way while it is read."""

    def __init__(self, folder: Path) -> None:
        self.path, self.count, self.rotations = folder / "log.jsonl", 0, 0
        self.path.touch()

    def write(self, rows: int) -> None:
        with self.path.open("a") as file:
            for _ in range(rows):
                file.write(f'{{"item": "a", "n": {self.count}}}\n')
                self.count += 1

    def shift(self, suffix: str) -> Path:
        """Make room for the first rotated file; return its name."""
        numbers = sorted(int(one.name.split(".")[2]) for one in self.path.parent.glob("log.jsonl.*"))
        for number in reversed(numbers):
            (one,) = (one for one in self.path.parent.glob("log.jsonl.*") if one.name.split(".")[2] == str(number))
            one.rename(self.path.with_name(one.name.replace(f".{number}", f".{number + 1}")))
        return self.path.with_name(f"log.jsonl.1{suffix}")

    def rotate(self, how: str) -> None:
        self.rotations += 1
        if how == "copied":
            shutil.copy(self.path, self.shift(""))
            os.truncate(self.path, 0)
            return
        if how == "dated":
            self.path.rename(self.path.with_name(f"log.jsonl-2026-11-{self.rotations:02}"))
        elif how == "compressed":
            with gzip.open(self.shift(".gz"), "wb") as file:
                file.write(self.path.read_bytes())
            self.path.unlink()
        else:
            self.path.rename(self.shift(""))
        self.path.touch()


def numbers_of(rows: Rows) -> list[int]:
    return [int(number) for _, number in rows]


def read_on(path: Path, form: Any = "jsonl", position: Any = None, **options: Any) -> tuple[list[int], Any]:
    """Read a log to its end; return the numbers that were read, and the position as a state keeps it."""
    reader = options.pop("reader", READER)
    with (
        opened(path) as descriptor,
        Log(descriptor, reader, form, position=position, path=path, **options) as log,
    ):
        return numbers_of(rows_of(log)), json.loads(json.dumps(log.position))
