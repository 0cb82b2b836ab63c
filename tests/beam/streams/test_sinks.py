"""A slot is filled once: the same bytes again are nothing, other bytes an alarm."""

import hashlib
import json
import sqlite3
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms.window import TimestampedValue

import streamsketch as ss
from streamsketch.beam import TumblingWindows
from streamsketch.beam.streams import WriteAlarms, WriteFilesOnce, WriteRowsOnce
from streamsketch.beam.streams.slots import slot_of
from streamsketch.data.windows import window_time
from streamsketch.once.databases import connection
from streamsketch.once.slots import key_of_file, named_key
from streamsketch.streams import Alarm, Slot
from tests.beam.running import append_to, recorded
from tests.postgres import NO_SERVER, programs, server

PROJECTION = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=11)
Release = tuple[float, Any, ss.PrivateSketch]
Sink = Callable[[], beam.PTransform]
Contents = Callable[[], dict[Slot, bytes]]


def release() -> ss.PrivateSketch:
    return PROJECTION.sketch().release(epsilon=1.0, neighbours=ss.L1(1))


@pytest.fixture
def files(tmp_path: Path) -> tuple[Sink, Contents]:
    def contents() -> dict[Any, bytes]:
        found = {}
        for path in (tmp_path / "out" / "test").rglob("*.sketch"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o644
            found[path.parent.name, path.stem] = path.read_bytes()
        return found

    return lambda: WriteFilesOnce(str(tmp_path / "out"), "test", epoch=3), contents


@pytest.fixture
def sqlite(tmp_path: Path) -> tuple[Sink, Contents]:
    path = str(tmp_path / "releases.db")
    return rows(lambda: sqlite3.connect(path))


@pytest.fixture(scope="module")
def postgres() -> Iterator[Callable[[], Any]]:
    pytest.importorskip("psycopg")
    found = programs()
    if found is None:
        pytest.skip(NO_SERVER)
    with server(found) as socket, pytest.MonkeyPatch.context() as environment:
        for name, value in {"PGHOST": str(socket), "PGUSER": "owner", "PGDATABASE": "postgres"}.items():
            environment.setenv(name, value)
        yield connection("postgresql")


def rows(connect: Callable[[], Any]) -> tuple[Sink, Contents]:
    def contents() -> dict[Any, bytes]:
        connection = connect()
        cursor = connection.cursor()
        cursor.execute("SELECT stream, window_start, kind, key, release FROM releases")
        found = {Slot(*row[:4]): bytes(row[4]) for row in cursor.fetchall()}
        connection.close()
        return {(slot.window, slot.file): content for slot, content in found.items()}

    return lambda: WriteRowsOnce(connect, "test", table="releases", epoch=3), contents


@pytest.fixture(params=["files", "sqlite", "postgres"])
def sink(request: pytest.FixtureRequest) -> tuple[Sink, Contents]:
    found: tuple[Sink, Contents]
    if request.param == "postgres":
        found = rows(request.getfixturevalue("postgres"))
    else:
        found = request.getfixturevalue(request.param)
    return found


def write(sink: Sink, releases: list[Release], folder: Path) -> tuple[list[Slot], list[Alarm]]:
    folder.mkdir()
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        stamped = [TimestampedValue((key, found), at) for at, key, found in releases]
        given = pipeline | beam.Create(stamped).with_output_types(tuple[Any, Any])
        held, alarms = given | TumblingWindows(60) | sink()
        held | "Slots" >> beam.Map(_slot) | "Record slots" >> beam.Map(append_to, str(folder / "slots"))
        alarms | WriteAlarms(str(folder / "kept"))
        alarms | "Record alarms" >> beam.Map(append_to, str(folder / "alarms"))
    return recorded(folder / "slots"), recorded(folder / "alarms")


def _slot(keyed: tuple[Any, ss.PrivateSketch], window: Any = beam.DoFn.WindowParam) -> Slot:
    return slot_of("test", keyed[0], window)


def test_each_slot_is_filled_once(
    sink: tuple[Sink, Contents], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    transform, contents = sink
    releases = [(at, key, release()) for at in (0, 60) for key in ("AA", "a/b ü", 7, "=7", b"\x00\xff")]
    slots, alarms = write(transform, releases, tmp_path / "first")
    assert len(set(slots)) == 10
    assert alarms == []
    held = contents()
    assert sorted(held.values()) == sorted(found.to_bytes() for *_, found in releases)

    assert set(write(transform, releases, tmp_path / "again")[0]) == set(slots)
    at, key, _ = releases[0]
    caplog.clear()
    refused = release()
    others, (alarm,) = write(transform, [(at, key, refused), *releases[1:3]], tmp_path / "other")
    assert set(others) < set(slots)
    assert len(others) == 2
    assert alarm.slot == Slot("test", 0, "text", "AA")
    assert alarm.epoch == 3
    assert [alarm.held, alarm.offered] == [
        hashlib.sha256(one.to_bytes()).hexdigest() for one in (releases[0][2], refused)
    ]
    (said,) = [json.loads(one.getMessage()) for one in caplog.records if "alarm" in one.getMessage()]
    assert (said["event"], said["stream"], said["epoch"], said["key"]) == ("alarm", "test", 3, "AA")
    assert alarm.offered not in str(said), "it is not public"
    (kept,) = (tmp_path / "other/kept").iterdir()
    assert kept.name == f"1970-01-01T00-00-00Z AA.{alarm.result}.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert json.loads(kept.read_bytes())["offered"] == alarm.offered
    assert contents() == held, "the first stays"


def test_two_long_keys_share_no_file(files: tuple[Sink, Contents], tmp_path: Path) -> None:
    transform, contents = files
    slots, alarms = write(transform, [(0, "ü" * 200 + end, release()) for end in "ab"], tmp_path / "long")
    assert len(slots) == len(contents()) == 2
    assert alarms == []


@pytest.mark.parametrize("start", [0, 1, 1_356_998_400_000_000, 1_356_998_400_250_000, -60_000_000])
def test_a_window_is_read_back_from_its_name(start: int) -> None:
    assert window_time(Slot("test", start, "text", "AA").window) == start


@pytest.mark.parametrize("key", ["AA", "a b/c", "ü", "=", "", ".", "..", ".a", "=all", "%2E", b"\x00\xff", 7, -7])
def test_a_key_is_read_back_from_the_name_of_its_file(key: Any) -> None:
    slot = Slot("test", 0, *named_key(key))
    assert key_of_file(slot.file) == slot.key
    assert not slot.file.startswith(".")
    assert slot.file


@pytest.mark.parametrize("table", ["", "a b", "a;drop", 'a"', "ü"])
def test_tables_have_plain_names(table: str) -> None:
    with pytest.raises(ss.InvalidInputError, match="table must be letters"):
        WriteRowsOnce(lambda: None, "test", table=table)
