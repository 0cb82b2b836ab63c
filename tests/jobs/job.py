"""A stream's job on a folder that grows while it runs: a minute a window, the keys AA and UA."""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import streamsketch as ss
from streamsketch.jobs import GrowingFolder, StreamJob
from streamsketch.streams.policy import StreamPolicy
from tests.beam.streams.prism import BASE, MINUTE, wait_for_workers
from tests.streams.agreed import followed

KEYS = ["AA", "UA"]
PROJECTION = ss.SJLT(sketch_dim=64, sparsity=4, seed=2013)
AGREEMENT = ss.Agreement(
    PROJECTION, key="carrier", index="route", unit="aircraft", neighbours=ss.L1(10, unit="aircraft"), missing="drop"
)
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


def at(minute: int) -> str:
    """Return a minute after `BASE` as ISO 8601 has it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(BASE + MINUTE * minute))


def policy_of(place: Path, agreement: ss.Agreement = AGREEMENT, **changed: Any) -> StreamPolicy:
    """Return the agreement and the job, with some fields changed."""
    fields: dict[str, Any] = {
        "time": "time",
        "window": MINUTE,
        "delay": 5,
        "start": at(0),
        "last": at(2),
        "epsilon": 1.0,
        "public_keys": KEYS,
        "folder": str(place / "out"),
        "stream": "flights",
        "root_key": str(place / "root key"),
        "claims": str(place / "claims"),
    }
    return followed(agreement, **fields | changed)


def job_of(place: Path, agreement: ss.Agreement = AGREEMENT, **changed: Any) -> StreamJob:
    """Return the job, with a folder for all that it reads and writes, and its own options and fields changed."""
    epoch = changed.pop("epoch", None)
    agreed, job = policy_of(place, agreement, **changed)
    return StreamJob(
        agreement=agreed,
        job=job,
        source=GrowingFolder(str(place / "log")),
        epoch=epoch,
    )


def run(place: Path, runner: list[str], grow: Callable[[], None] = lambda: None, log: Any = "text", **how: Any) -> int:
    """Run the job while its folder grows; return its exit status."""
    growing = threading.Thread(target=grow)
    growing.start()
    try:
        return job_of(place, **how).run(runner, log=log)
    finally:
        growing.join()
        if "--runner=PrismRunner" in runner:
            wait_for_workers()


def options(place: Path, **changed: Any) -> list[str]:
    """Write the files of the job, with some fields changed, and return the arguments of the command."""
    agreement, job = policy_of(place, **{"incoming": str(place / "log")} | changed)
    agreement.save(place / "agreement.json")
    job.save(place / "job.json")
    return ["stream", "beam", f"--agreement={place / 'agreement.json'}", f"--job={place / 'job.json'}"]


def published(folder: Path) -> dict[str, bytes]:
    """Return what the sink holds, by window and file."""
    files = (folder / "out" / "flights").rglob("*")
    found = {path.relative_to(folder / "out" / "flights").as_posix(): path for path in files if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items()}
