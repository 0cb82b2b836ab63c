"""Every law of what is released once, on every engine: one version a window, charge before draw, the same bytes again.

An engine is a function that publishes one window of rows, as it would after a restart (the same epoch) or a relaunch
(another one), into any sink.
"""

import contextlib
import dataclasses
import functools
import itertools
import json
import os
import secrets
import shutil
import sqlite3
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms.window import TimestampedValue

import streamsketch as ss
from streamsketch.beam import BoundContributions, ReleasePerKey, SketchPerKey, TumblingWindows
from streamsketch.beam.streams import WriteOnce, configure_stream
from streamsketch.errors import LedgerError
from streamsketch.once.alarms import OTHER_VERSION
from streamsketch.once.logs import EVENT
from streamsketch.once.slots import VERSION
from streamsketch.privacy.laplace import DiscreteLaplace
from streamsketch.privacy.noise import Noise
from streamsketch.release import AdditiveNoise
from streamsketch.spark import ReleaseBatches
from streamsketch.streams import DatabaseSink, FileSink, LedgerCharge, ReleaseOnce, Sink, Slot, Stream
from tests.spark.frames import LocalFrame
from tests.streams.naive import policy_of

PROJECTION = ss.SJLT(sketch_dim=16, sparsity=4, seed=7)
KEYS = ["east", "north", "south"]
NEAR = ss.L1(1, unit="customer", max_keys=1)
AGREEMENT = ss.Agreement(PROJECTION, key="shop", index="item", unit="customer", neighbours=NEAR)
EXACT = 20_000.0  # of ε: noise of 0 in all but one draw of 10^70
START = 1795352400 * 10**6  # of the policy: 2026-11-22T13:00Z
Rows = list[tuple[str, str]]
FIRST: Rows = [("ann", "north"), ("bob", "south"), ("cy", "east")]
OTHER: Rows = [("ann", "south"), ("bob", "south"), ("cy", "east")]  # Ann's one row is in another shop


class OwnSink(Sink):
    """A sink of a user's own: a file of JSON lines."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def put(self, slot: Slot, content: bytes) -> bytes | None:
        if (held := self.get(slot)) is None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps([*slot, content.hex()]) + "\n")
        return held

    def get(self, slot: Slot) -> bytes | None:
        lines = self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else []
        return {tuple(line[:4]): bytes.fromhex(line[4]) for line in map(json.loads, lines)}.get(tuple(slot))


class DyingError(RuntimeError):
    """The process is killed."""


class Dying(Sink):
    """A sink whose process is killed before one of its puts; notes each in a file, as workers have copies."""

    def __init__(self, inner: Sink, noted: Path, most: int = 1 << 30) -> None:
        self._inner, self._noted, self._most, self.result = inner, noted, most, inner.result

    def open(self) -> None:
        self._inner.open()

    def close(self) -> None:
        self._inner.close()

    def put(self, slot: Slot, content: bytes) -> bytes | None:
        if len(self.puts) >= self._most:
            raise DyingError("the process is killed")
        with self._noted.open("a", encoding="utf-8") as file:
            file.write(json.dumps([*slot, len(content)]) + "\n")
        return self._inner.put(slot, content)

    def get(self, slot: Slot) -> bytes | None:
        return self._inner.get(slot)

    @property
    def puts(self) -> list[Any]:
        text = self._noted.read_text(encoding="utf-8") if self._noted.exists() else ""
        return [json.loads(line) for line in text.splitlines()]


SINKS: dict[str, Callable[[Path], Sink]] = {
    "files": FileSink,
    "database": lambda folder: DatabaseSink(functools.partial(sqlite3.connect, f"{folder}.sqlite")),
    "own": lambda folder: OwnSink(folder.with_suffix(".jsonl")),
}


@dataclasses.dataclass(frozen=True)
class Place:
    """Secrets, state and ledger of a stream, which outlive its processes."""

    folder: Path
    epsilon: float = EXACT
    budget: float | None = None

    def __post_init__(self) -> None:
        if not self.key.exists():
            self.key.touch(mode=0o600)
            self.key.write_bytes(secrets.token_bytes(32))
            (self.folder / "claims").mkdir()
            if self.budget is not None:
                ss.Ledger(self.ledger_path).dataset("shops", unit="customer", epsilon=self.budget)

    @property
    def key(self) -> Path:
        return self.folder / "root.key"

    @property
    def ledger_path(self) -> Path:
        return self.folder / "ledger.sqlite"

    @property
    def ledger(self) -> dict[str, Any]:
        return {} if self.budget is None else {"ledger": ss.Ledger(self.ledger_path), "dataset": "shops"}

    @property
    def charges(self) -> int:
        return ss.Ledger(self.ledger_path).left("shops").charges


Engine = Callable[[Place, Sink, Rows, int], None]


def table_of(rows: Rows) -> pa.Table:
    columns = {"customer": [who for who, _ in rows], "shop": [shop for _, shop in rows], "item": ["tea"] * len(rows)}
    return pa.table({name: pa.array(column, pa.string()) for name, column in columns.items()})


def in_window(unit: str) -> ss.L1:
    return dataclasses.replace(NEAR, unit=unit)


def release_once(place: Place, sink: Sink, rows: Rows, epoch: int) -> None:
    publisher = AdditiveNoise(epsilon=place.epsilon, neighbours=NEAR).calibrated(PROJECTION)
    bounded = ss.bound(table_of(rows), AGREEMENT, public_keys=KEYS)
    with sink:
        ReleaseOnce(publisher, place.key, sink, "shops", public_keys=KEYS, epoch=epoch, **place.ledger).release(
            START, bounded
        )


def stream(place: Place, sink: Sink, rows: Rows, epoch: int) -> None:
    """One machine has no epochs: each launch continues the first state, as from a backup."""
    del epoch
    times = {"window": "1 min", "delay": "10 s", "start": "2026-11-22T13:00Z", "stream": "shops"}
    policy = policy_of(place.folder / "unused", AGREEMENT, epsilon=place.epsilon, public_keys=KEYS, **times)
    state, backup = place.folder / "s.raw-stream", place.folder / "backup"
    charge = LedgerCharge(*place.ledger.values(), PROJECTION) if place.ledger else None
    with sink:
        if not backup.exists():
            Stream(*policy, state, charge, sink=sink).save({})
            shutil.copy(state, backup)
        shutil.copy(backup, state)
        running = Stream(*policy, state, charge, sink=sink)
        timed = table_of([*rows, ("dora", "east")])  # whose row is in the next window, and ends this one
        ats = ["2026-11-22T13:00:05Z"] * len(rows) + ["2026-11-22T13:01:15Z"]
        running.add(timed.append_column("at", pa.array(ats)).combine_chunks().to_batches()[0], 1)
        running.save({})


def on_beam(place: Place, sink: Sink, rows: Rows, epoch: int) -> None:
    claimed = len(list((place.folder / "claims").glob("*.epoch")))
    options = {} if place.budget is None else {"ledger": str(place.ledger_path), "dataset": "shops"}
    noise = AdditiveNoise(epsilon=place.epsilon, neighbours=in_window("customer in one window of 60 s"))
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        known: dict[str, Any] = {"root_key": place.key, "claims": str(place.folder / "claims")}
        configure_stream(pipeline, stream="shops", epoch=epoch if epoch <= claimed else None, **known)
        stamped = [TimestampedValue(table_of([row]), START / 10**6 + 5) for row in rows]
        batches = pipeline | beam.Create(stamped).with_output_types(pa.Table) | TumblingWindows(60)
        bounded = batches | BoundContributions(AGREEMENT, public_keys=KEYS)
        windows = START / 10**6, START / 10**6 + 60
        release = ReleasePerKey(noise, public_keys=KEYS, public_windows=windows, **options)
        bounded | SketchPerKey(AGREEMENT) | release | WriteOnce(sink, "shops", epoch=epoch)


def on_spark(place: Place, sink: Sink, rows: Rows, epoch: int) -> None:
    publish = ReleaseBatches(
        AGREEMENT,
        AdditiveNoise(epsilon=place.epsilon, neighbours=NEAR),
        place.key,
        sink,
        "shops",
        public_keys=KEYS,
        epoch=epoch,
        window=lambda number: START + number,
        **place.ledger,
    )
    publish(LocalFrame.of(table_of(rows), 2), 0)


ENGINES: dict[str, Engine] = {"ReleaseOnce": release_once, "Stream": stream, "Beam": on_beam, "Spark": on_spark}
every_engine = pytest.mark.parametrize("engine", ENGINES)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def launch(engine: str, place: Place, sink: Sink, rows: Rows, epoch: int = 1) -> str:
    """Publish; return how the launch ended."""
    with quiet():
        try:
            ENGINES[engine](place, sink, rows, epoch)
        except (DyingError, LedgerError) as error:
            return type(error).__name__
        except Exception as error:  # Beam's, which has the text of ours
            if "process is killed" not in str(error):
                raise
            return DyingError.__name__
    return "ended"


def held(sink: Sink, start: int = START) -> dict[str, bytes]:
    """Return the releases of a window that a sink holds, by key."""
    with sink:
        found = {key: sink.get(Slot("shops", start, "text", key)) for key in KEYS}
    return {key: content for key, content in found.items() if content is not None}


def claim(sink: Sink) -> bytes | None:
    with sink:
        return sink.get(Slot("shops", START, VERSION, ""))


def shown(contents: dict[str, bytes]) -> dict[str, list[int]]:
    return {key: ss.PrivateSketch.from_bytes(one).values.tolist() for key, one in contents.items()}


def exact(rows: Rows) -> dict[str, list[int]]:
    table = ss.bound(table_of(rows), AGREEMENT, public_keys=KEYS)
    assert isinstance(table, ss.SketchTable)
    return {key: table.sketch_of(key).state().tolist() for key in KEYS}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


CRASHES = [(puts, "files") for puts in range(5)] + [(2, "database"), (2, "own")]
ON_BEAM = {(1, "files"), (3, "files"), (4, "files"), (2, "own")}  # whose launches take the longest
TIMES = (1, 2, 3)


def of_engines(cases: Iterable[Any], on_beam: Collection[Any]) -> list[Any]:
    """Return each case on every engine; on Beam those that are named, and the others with the long tests."""
    return [
        pytest.param(engine, case, marks=[pytest.mark.long] * (engine == "Beam" and case not in on_beam))
        for engine, case in itertools.product(ENGINES, cases)
    ]


@pytest.mark.parametrize(("engine", "crash"), of_engines(CRASHES, ON_BEAM))
def test_a_window_is_of_one_version_of_its_rows(engine: str, crash: tuple[int, str], place: Place) -> None:
    """A launch is killed before any of its puts; then there are other rows, in another epoch."""
    puts, kind = crash
    sink = SINKS[kind](place.folder / "out")
    ended = launch(engine, place, Dying(sink, place.folder / "first", puts), FIRST)
    assert (ended == "ended") == (puts == 4)
    assert launch(engine, place, sink, OTHER, epoch=2) == "ended"
    versions = [exact(rows) for rows in (FIRST, OTHER)]
    found = shown(held(sink))
    assert any(found == {key: version[key] for key in found} for version in versions), "of one of them alone"
    # whoever claimed the window is the one; on one machine the state has what it drew, and restores are of before that
    assert found == ({} if puts == 1 else {key: versions[min(puts, 1) - 1][key] for key in found})
    assert (puts > 0) == (claim(sink) is not None and found != versions[1])


@pytest.mark.parametrize(("engine", "puts"), of_engines(TIMES, {2}))
def test_equal_rows_of_a_later_launch_are_the_same_version(engine: str, puts: int, place: Place) -> None:
    """It fills what the first left empty, with its own noise."""
    sink = FileSink(place.folder / "out")
    launch(engine, place, Dying(sink, place.folder / "first", puts), FIRST)
    assert launch(engine, place, sink, FIRST, epoch=2) == "ended"
    assert shown(held(sink)) == exact(FIRST)


@every_engine
def test_a_launch_that_is_repeated_publishes_the_same_bytes(engine: str, tmp_path: Path) -> None:
    place = Place(tmp_path, epsilon=1.0)
    sinks = [FileSink(tmp_path / name) for name in ("one", "other", "third")]
    for sink, epoch in zip(sinks, (1, 1, 2), strict=True):
        assert launch(engine, place, sink, FIRST, epoch) == "ended"
    one, other, third = map(held, sinks)
    assert len(one) == len(KEYS)
    assert one == other
    assert (one == third) == (engine == "Stream"), "another epoch has other noise; on one machine there is none"
    assert len({claim(sink) for sink in sinks}) == 3, "claims show not even that"


@every_engine
def test_releases_of_a_window_state_the_same_data_in_every_launch(engine: str, tmp_path: Path) -> None:
    """Whoever composes the releases of two launches knows that they are of the same data, whatever rows each read."""
    place = Place(tmp_path, epsilon=1.0)
    sinks = [FileSink(tmp_path / name) for name in ("one", "other")]
    for sink, rows, epoch in zip(sinks, (FIRST, OTHER), (1, 2), strict=True):
        assert launch(engine, place, sink, rows, epoch) == "ended"
    one, other = (
        {key: ss.PrivateSketch.from_bytes(content).data_ids for key, content in held(sink).items()} for sink in sinks
    )
    assert one == other
    ids = [single for several in one.values() for single in several]
    assert len(set(ids)) == len(ids) == 16 * len(KEYS), "and those of its keys apart"


@every_engine
def test_the_operator_is_told_of_a_second_version_and_the_log_shows_no_digest(
    engine: str, place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    sink = FileSink(place.folder / "out")
    assert launch(engine, place, sink, FIRST) == "ended"
    caplog.clear()
    assert launch(engine, place, sink, OTHER, epoch=2) == "ended"
    events = [getattr(record, EVENT) for record in caplog.records if hasattr(record, EVENT)]
    alarms = [event for event in events if event["event"] == "alarm"]
    assert alarms
    for alarm in alarms:
        assert alarm.keys() <= {"time", "level", "event", "stream", "epoch", "window", "key", "result", "text"}
        assert (alarm["text"], alarm["result"], alarm["stream"]) == (OTHER_VERSION, "sketch", "shops")
        assert alarm["window"] == "2026-11-22T13-00-00Z"


@every_engine
def test_nothing_is_drawn_or_put_before_it_is_charged(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path, epsilon=1.0, budget=1.5)
    sink = FileSink(tmp_path / "out")
    watched = Dying(sink, tmp_path / "puts")
    drawn: list[int] = []
    original = DiscreteLaplace.sample

    def sample(noise: Any, size: int, bits: Any) -> Any:
        drawn.append(place.charges)
        return original(noise, size, bits)

    monkeypatch.setattr(DiscreteLaplace, "sample", sample)
    monkeypatch.setattr(DiscreteLaplace, "sample_each", Noise.sample_each)  # by `sample`
    assert launch(engine, place, watched, FIRST) == "ended"
    assert set(drawn) == {1}
    assert len(held(sink)) == len(KEYS)
    for epoch in (1, 1):
        launch(engine, place, watched, FIRST, epoch)
    assert place.charges == 1, "once"
    before, puts = len(drawn), len(watched.puts)
    empty = Dying(FileSink(tmp_path / "empty"), tmp_path / "puts of empty")
    ended = launch(engine, place, empty, OTHER, epoch=2)
    assert ended == ("LedgerError" if engine == "Stream" else "ended")
    assert (len(drawn), len(watched.puts), empty.puts) == (before, puts, [])
    assert place.charges == 1


@every_engine
def test_nothing_shows_that_there_were_no_rows(engine: str, tmp_path: Path) -> None:
    """One person's rows, none, and many: slots, their order and sizes of claims, and what releases state."""
    seen = []
    for number, rows in enumerate(([("ann", "north")], [], FIRST)):
        (tmp_path / str(number)).mkdir()
        place = Place(tmp_path / str(number), epsilon=1.0)
        sink = Dying(FileSink(place.folder / "out"), place.folder / "puts")
        assert launch(engine, place, sink, rows) == "ended"
        releases = [ss.PrivateSketch.from_bytes(one) for one in held(sink).values()]
        stated = [(one.guarantee.to_json(), one.clip, one.agreement) for one in releases]
        slots = [put[:4] for put in sink.puts]
        claims = [put[4] for put in sink.puts if put[2] == VERSION]
        assert slots[0][2] == VERSION, "the claim is before the first slot"
        seen.append((slots, claims, stated))
    assert seen[0] == seen[1] == seen[2]
    assert all("enforced" in one for one, *_ in seen[0][2])


@pytest.mark.parametrize(("engine", "links"), of_engines(TIMES, {2}))
def test_no_second_draw_stays_readable(
    engine: str, links: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the writing and the name of a file, and relaunched in another epoch: one draw of each slot."""
    place, sink = Place(tmp_path, epsilon=1.0), FileSink(tmp_path / "out")
    original, left = os.link, []

    def link(source: Any, target: Any) -> None:
        left.append(source)
        if len(left) > links and "out" in str(target):
            raise DyingError("the process is killed")
        original(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", link)
        patch.setattr(os, "unlink", lambda *_, **__: None)  # a killed process removes nothing
        assert launch(engine, place, sink, FIRST) == "DyingError"
    readable = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert all(path.suffix in {".sketch", ".version"} and path.name[0] != "." for path in readable)
    assert launch(engine, place, sink, FIRST, epoch=2) == "ended"
    draws = [path for path in tmp_path.rglob("*.sketch*") if path.is_file()]
    assert sorted(path.name for path in draws) == [f"{key}.sketch" for key in KEYS]
    values = [ss.PrivateSketch.from_bytes(path.read_bytes()).values for path in sorted(draws)]
    assert len(values) == len(KEYS)
    assert np.unique(values, axis=0).shape[0] == len(KEYS)
