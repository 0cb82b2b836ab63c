"""No object of the library prints what is secret: its text ends in tracebacks, debuggers and error trackers.

Rows with canaries go through the library, and every object that any function of it takes, makes or holds is printed.
"""

import dataclasses
import json
import re
import secrets
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.beam import BoundContributions, ReleasePerKey, RowsToBatches, SketchPerKey
from streamsketch.bounding import unit_totals
from streamsketch.data.canonical import HASHED_DIM
from streamsketch.privacy.bound_choice import choose_bound
from streamsketch.release import AdditiveNoise
from streamsketch.schedules.releaser import Releaser
from streamsketch.schedules.tree import Tree
from streamsketch.storage import load_raw, save_raw
from streamsketch.streams import FileSink, ReleaseOnce, Stream
from streamsketch.streams.state import read_state
from tests.jobs import topic
from tests.streams.agreed import followed

PERSON, ITEM, SHOP, AMOUNT = "Odalys-7391", "tea-canary-7391", "shop-canary-7391", 7_770_777
SECRET = bytes(range(96, 128))
"""Of later noise."""
CANARY = re.compile(
    "|".join([PERSON, ITEM, SHOP, r"\b7_?,?770_?,?777\b", re.escape(repr(SECRET)[2:12]), SECRET.hex(), "secret-id"])
)
PUBLIC = {"PrivateSketch", "PrivateTable", "Guarantee", "Agreement"}
"""Classes whose text was looked at even where they are made by hundreds."""
_LOOKED_AT = 40  # objects of each class, at each call


class Walk:
    """Prints what functions of the library hold, and remembers the classes of which a text holds a canary."""

    def __init__(self) -> None:
        self.seen: dict[type, int] = {}
        self.shown: dict[str, str] = {}
        self._busy = False

    def __call__(self, frame: FrameType, event: str, returned: Any) -> None:
        if event != "return" or self._busy or not frame.f_globals.get("__name__", "").startswith("streamsketch"):
            return
        self._busy = True
        try:
            for value in (*frame.f_locals.values(), returned):
                self.look(value)
        finally:
            self._busy = False

    def look(self, value: Any, depth: int = 0) -> None:
        """Print an object of the library, and those that it holds."""
        kind = type(value)
        if isinstance(value, dict | list | tuple | set | frozenset) and depth < 3 and len(value) < 100:
            for one in value.values() if isinstance(value, dict) else value:
                self.look(one, depth + 1)
        if not kind.__module__.startswith("streamsketch") or self.seen.get(kind, 0) >= _LOOKED_AT:
            return
        self.seen[kind] = self.seen.get(kind, 0) + 1
        try:
            texts = repr(value), str(value), f"{value}"
        except Exception:  # noqa: BLE001 - of an object that is not made yet
            return
        if not isinstance(value, Exception) and any(CANARY.search(text) for text in texts):
            self.shown[f"{kind.__module__}.{kind.__qualname__}"] = texts[0][:200]
        if depth < 3:
            for one in _held_by(value):
                self.look(one, depth + 1)


def _held_by(value: Any) -> Iterator[Any]:
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield getattr(value, field.name, None)
    yield from getattr(value, "__dict__", {}).values()


PROJECTION = ss.SJLT(dim=HASHED_DIM, sketch_dim=16, sparsity=4, seed=7)
NEIGHBOURS = ss.L1(9_000_000, unit="customer", max_keys=2)
AGREEMENT = ss.Agreement(PROJECTION, key="shop", index="item", value="sold", unit="customer", neighbours=NEIGHBOURS)
PLAIN = ss.Agreement(
    PROJECTION, index="item", value="sold", unit="customer", neighbours=ss.L1(9_000_000, unit="customer")
)
ROWS = pa.table({"shop": [SHOP, "b"], "item": [ITEM, "jam"], "sold": [AMOUNT, 1], "customer": [PERSON, "Bob"]})


def bounding(_folder: Path) -> None:
    table = ss.bound(ROWS, AGREEMENT)
    assert isinstance(table, ss.SketchTable)
    both = table.copy()
    both.merge(ss.bound(ROWS, AGREEMENT), disjoint_units=True)
    both.release(epsilon=1.0, neighbours=NEIGHBOURS, public_keys=[SHOP.replace("canary", "public")])
    for clip, neighbours in (("cut", PLAIN.neighbours), ("equal", ss.SketchL2(4, unit="customer"))):
        fine = PROJECTION.replace(resolution="1/8192")
        ss.bound(ROWS, dataclasses.replace(PLAIN, projection=fine, neighbours=neighbours), clip=clip)


def choosing(_folder: Path) -> None:
    totals = unit_totals([([SHOP], [ITEM], [AMOUNT], [PERSON])], PROJECTION)
    choose_bound(totals, [1, 5, 100], epsilon=1.0)


def storing(folder: Path) -> None:
    sketch = ss.bound(ROWS, PLAIN)
    save_raw(sketch, folder / "a.raw-sketch")
    load_raw(folder / "a.raw-sketch")
    ledger = ss.Ledger(folder / "l.sqlite")
    ledger.dataset("sales", unit="customer", epsilon=3.0)
    sketch.release(epsilon=1.0, neighbours=PLAIN.neighbours, ledger=ledger, dataset="sales")


def history(_folder: Path) -> None:
    sketch = ss.bound(ROWS, PLAIN)
    noise = AdditiveNoise(epsilon=1.0, neighbours=PLAIN.neighbours, schedule=Tree(horizon=8))
    releaser = Releaser(noise, PROJECTION)
    for _ in range(3):
        releaser.add(sketch.copy())
    Releaser.restored(noise, PROJECTION, releaser.state)


@pytest.fixture(autouse=True)
def _same_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets of streams and ids are canaries, too."""
    drawn = iter(range(1 << 20))
    monkeypatch.setattr(secrets, "token_bytes", lambda size=32: (SECRET * (size // 32 + 1))[:size])
    monkeypatch.setattr(
        "os.urandom", lambda size: (b"secret-id" + next(drawn).to_bytes(7, "big"))[:size].ljust(size, b".")
    )


def streaming(folder: Path) -> None:
    for name, schedule in (("plain", None), ("rows", Tree(horizon=4, max_windows=1))):
        (folder / name).mkdir()
        times: dict[str, Any] = {"time": "at", "window": "1 day", "start": "2026-11-22", "delay": 0}
        policy = followed(PLAIN, **times, epsilon=1.0, folder=str(folder / name), schedule=schedule)
        stream = Stream(*policy, folder / f"{name}.raw-stream")
        for day in (22, 24):
            at = [f"2026-11-{day}T00:10:00Z"]
            rows = {"at": at, "item": [ITEM], "sold": [AMOUNT], "customer": [PERSON]}
            stream.add(pa.RecordBatch.from_pydict(rows), 1)
            stream.save({})
        read_state(folder / f"{name}.raw-stream")


def releasing_once(folder: Path) -> None:
    publisher = AdditiveNoise(epsilon=1.0, neighbours=ss.L1(1, unit="sale")).calibrated(PROJECTION)
    once = ReleaseOnce(publisher, SECRET, FileSink(folder), "sales", public_keys=["north"])
    sketch = PROJECTION.sketch()
    sketch.update([ITEM], [AMOUNT])
    once.release(0, {"north": sketch})


def consuming(folder: Path) -> None:
    row = {"person": PERSON, "shop": "north", "item": ITEM, "at": f"{np.datetime64(topic.BASE, 's')}Z"}
    log = topic.Topic(1)
    log.write(0, *(json.dumps({**row, **more}).encode() for more in ({}, {"at": PERSON})))
    log.write(0, b"", second=200)
    topic.read_to_end(log, folder, policy={"clock": "heartbeats"})


def a_pipeline(_folder: Path) -> None:
    noise = AdditiveNoise(epsilon=1.0, neighbours=NEIGHBOURS)
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        rows = pipeline | beam.Create([(SHOP, ITEM, AMOUNT, PERSON)])
        events = rows | RowsToBatches(AGREEMENT, columns=["shop", "item", "sold", "customer"])
        sketches = events | BoundContributions(AGREEMENT) | SketchPerKey(AGREEMENT)
        _ = sketches | ReleasePerKey(noise, public_keys=["a", "b"], projection=PROJECTION)


WORK: list[Callable[[Path], None]] = [
    bounding,
    choosing,
    storing,
    history,
    streaming,
    releasing_once,
    consuming,
    a_pipeline,
]


@pytest.mark.parametrize("work", WORK, ids=lambda work: work.__name__)
def test_no_object_prints_rows_sums_or_secrets(work: Callable[[Path], None], tmp_path: Path) -> None:
    walk = Walk()
    before = sys.getprofile()
    threading.setprofile(walk)
    sys.setprofile(walk)
    try:
        work(tmp_path)
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    assert len(walk.seen) > 3
    assert walk.shown == {}, f"give these the decorator `concealed`: {', '.join(sorted(walk.shown))}"
