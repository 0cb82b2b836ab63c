"""The job `pipelines.stream_distances` on a folder that grows while it runs: a minute a window, the keys AA and UA."""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.stream_distances import main
from tests.beam.streams.prism import BASE, MINUTE

KEYS = ["AA", "UA"]
SCHEMA = pa.schema(
    {"carrier": pa.string(), "route": pa.string(), "aircraft": pa.string(), "time": pa.timestamp("us", "UTC")}
)
Row = tuple[str, str, str, int]
"""Carrier, route, aircraft, and seconds after `BASE`."""


def put(folder: Path, name: str, rows: Sequence[tuple[Any, ...]], schema: pa.Schema = SCHEMA) -> None:
    """Let a file appear whole."""
    folder.mkdir(exist_ok=True)
    stamped = [(*row[:-1], (BASE + row[-1]) * 10**6) for row in rows]
    columns = zip(*stamped, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), folder / f".{name}")
    (folder / f".{name}").rename(folder / name)


def end(folder: Path) -> None:
    """Let the stream end."""
    (folder / "_END").touch()


def options(place: Path, **changed: Any) -> list[str]:
    """Return the job's options, with a folder for all it reads and writes, and some of them changed or left out."""
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(BASE))
    stop = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(BASE + 3 * MINUTE))
    named = {
        "folder": place / "log",
        "time": "time",
        "key": "carrier",
        "index": "route",
        "unit-column": "aircraft",
        "l1": 10,
        "window": MINUTE,
        "delay": 5,
        "start": moment,
        "stop": stop,
        "epsilon": 1,
        "public-keys": ",".join(KEYS),
        "sketch-dim": 64,
        "stream": "flights",
        "root-key": place / "root key",
        "claims": place / "claims",
        "output": place / "out",
    }
    named |= {name.replace("_", "-"): value for name, value in changed.items()}
    return [f"--{name}={value}" for name, value in named.items() if value is not None]


def run(place: Path, runner: list[str], grow: Callable[[], None], **changed: Any) -> int:
    """Run the job while its folder grows; return its exit status."""
    growing = threading.Thread(target=grow)
    growing.start()
    try:
        return main([*options(place, **changed), *runner])
    finally:
        growing.join()


def published(folder: Path) -> dict[str, bytes]:
    """Return what the sink holds, by window and file."""
    files = (folder / "out" / "flights").rglob("*")
    found = {path.relative_to(folder / "out" / "flights").as_posix(): path for path in files if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items()}
