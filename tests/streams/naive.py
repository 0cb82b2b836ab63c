"""A stream's windows, row by row and without a state: what the library must make of a log."""

import dataclasses
import datetime as dt
import types
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.sketching.bounding import units
from streamsketch.streams.policy import StreamPolicy
from tests.streams.agreed import followed

PROJECTION = ss.SJLT(sketch_dim=64, sparsity=4, seed=7)
NEIGHBOURS = ss.L1(5, unit="customer", max_keys=2)
AGREEMENT = ss.Agreement(PROJECTION, index="item", key="shop", value="n", unit="customer", neighbours=NEIGHBOURS)
PEOPLE = AGREEMENT.replace(
    projection=PROJECTION.replace(resolution="1/8192"), neighbours=ss.SketchL2(1, unit="customer"), clip="equal"
)
KEYS = ["north", "south", "west"]
START = dt.datetime(2026, 11, 22, 13, tzinfo=dt.UTC)
HEADER = "at,shop,item,n,customer\n"
POLICY: dict[str, Any] = {
    "time": "at",
    "window": "1 min",
    "start": "2026-11-22T13:00Z",
    "delay": "10 s",
    "epsilon": 20_000.0,  # noise of 0 in all but one draw of 10^70: releases show exact sums
    "folder": "out",
    "public_keys": KEYS,
}


class Row(NamedTuple):
    at: int  # seconds after START
    shop: str
    item: str
    n: int
    customer: str

    @property
    def line(self) -> str:
        at = (START + dt.timedelta(seconds=self.at)).strftime("%Y-%m-%dT%H:%M:%SZ")
        return f"{at},{self.shop},{self.item},{self.n or ''},{self.customer}\n"


def beat(at: int) -> Row:
    """Return a heartbeat."""
    return Row(at, "", "", 0, "")


def batch_of(rows: list[Row]) -> pa.RecordBatch:
    """Return rows as the reader of CSV does."""
    cells = [row.line.rstrip("\n").split(",") for row in rows]
    names = HEADER.strip().split(",")
    columns = [pa.array([row[place] for row in cells], pa.string()) for place in range(len(names))]
    return pa.RecordBatch.from_arrays(columns, names=names)


def windows_of(rows: list[Row], *, clock: str = "events", size: int = 60, delay: int = 10) -> tuple[Any, int]:
    """Return the rows of each window by its number from the start, and how many rows are late."""
    found: dict[int, list[Row]] = defaultdict(list)
    newest, late = -(10**9), 0
    for row in rows:
        if row.shop:
            over = max(0, (newest - delay) // size)
            if row.at // size < over:
                late += row.at >= 0
            else:
                found[row.at // size].append(row)
        if clock == "events" or not row.shop:
            newest = max(newest, row.at)
    return found, late


def over_in(rows: list[Row], *, size: int = 60, delay: int = 10) -> int:
    """Return how many windows are over at the end of a log."""
    return max(0, (max(row.at for row in rows) - delay) // size)


def bound_by(
    secret: bytes, rows: list[Row], monkeypatch: pytest.MonkeyPatch, agreement: ss.Agreement = AGREEMENT
) -> ss.SketchTable:
    """Return what `streamsketch.bound` makes of rows with a secret."""
    with monkeypatch.context() as patch:
        patch.setattr(units, "os", types.SimpleNamespace(urandom=lambda _: secret))
        table = ss.bound(batch_of(rows), agreement, public_keys=KEYS)
    assert isinstance(table, ss.SketchTable)
    return table


def policy_of(folder: Path, agreement: ss.Agreement = AGREEMENT, **changes: Any) -> StreamPolicy:
    """Return the pair of agreement and job whose releases are in a folder; ``*policy`` are both."""
    of_it: dict[str, Any] = {} if agreement.key is not None else {"public_keys": None}
    of_it |= {"delta": 1e-6} if agreement.neighbours is not None and agreement.neighbours.of_sketches else {}
    fields = POLICY | of_it | changes
    return followed(agreement, **fields | {"folder": str(folder)})


def write(place: Path, agreement: ss.Agreement = AGREEMENT, **changes: Any) -> None:
    """Write ``agreement.json`` and ``job.json``, whose releases are in the folder "out" beside it."""
    where = changes.pop("folder", "out")
    agreed, job = policy_of(Path("out"), agreement, **changes)
    agreed.save(place / "agreement.json")
    dataclasses.replace(job, folder=where).save(place / "job.json")
