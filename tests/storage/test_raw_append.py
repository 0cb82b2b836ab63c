"""What is appended to a raw file: added in one transaction, whole or not at all."""

import contextlib
import multiprocessing
import os
import random
import shutil
import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.storage import load_raw, save_raw
from streamsketch.storage.raw_files import append_raw, read_header
from streamsketch.storage.sketches import RawHeader, RawSketch
from tests.powered import synchronised_connect

PROJECTION = ss.SJLT(dim=1000, sketch_dim=16, sparsity=4, seed=3)


def one(*indices: int) -> ss.Sketch:
    sketch = PROJECTION.sketch()
    sketch.update(list(indices), list(range(1, len(indices) + 1)))
    return sketch


def many(keys: list[str], first: int = 0) -> ss.SketchTable:
    table = PROJECTION.table()
    table.update(keys, list(range(first, first + len(keys))), 3)
    return table


FIRST: list[Any] = [one(1, 2), many(["a", "b"])]
MORE: list[list[Any]] = [[one(3), one(), one(1)], [many(["b", "c"], 5), many([]), many(["c", "a"], 7)]]


def appended(path: Path, first: Any, more: list[Any]) -> Any:
    """Write a file and append to it; return the exact sum."""
    save_raw(RawSketch(first, 1), path)
    total = first.copy()
    for state in more:
        added = RawHeader.of(load_raw(path)).empty()
        added.merge(state)
        append_raw(RawSketch(added, 10), path)
        total.merge(state)
    return total


@pytest.mark.parametrize(("first", "more"), list(zip(FIRST, MORE, strict=True)))
def test_what_is_appended_is_read_as_the_sum(first: Any, more: list[Any], tmp_path: Path) -> None:
    total = appended(tmp_path / "a", first, more)
    raw, header = load_raw(tmp_path / "a"), read_header(tmp_path / "a")
    state: Any = raw.state
    assert state == total
    assert raw.events == header.events == 1 + 10 * len(more)
    assert header.keys == (None if isinstance(total, ss.Sketch) else len(total))
    assert RawHeader.of(raw).empty() == header.empty()
    assert raw.state.data_ids == header.empty().data_ids
    sketches = [(total, state)] if isinstance(total, ss.Sketch) else [(total[key], state[key]) for key in total]
    assert all(wanted.mass == got.mass for wanted, got in sketches)
    assert raw.state.largest == total.largest


@pytest.mark.parametrize("first", FIRST)
def test_a_killed_append_leaves_the_file_as_it_was_or_complete(first: Any, tmp_path: Path) -> None:
    """Killed at any time, also while SQLite writes: what is there is what some number of appends make."""
    path, kills = tmp_path / "a", random.Random(4)  # noqa: S311 - it draws times
    save_raw(RawSketch(first), path)
    added, expected, count = RawHeader.of(RawSketch(first)).empty(), first.copy(), 0
    added.merge(first)
    for _ in range(6):
        done, told = os.pipe()
        child = os.fork()
        if not child:
            try:
                while True:
                    append_raw(RawSketch(added, 1), path)
                    os.write(told, b".")
            finally:
                os._exit(1)
        os.read(done, 1)
        time.sleep(0.02 * kills.random())
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(done)
        os.close(told)
        raw = load_raw(path)
        assert raw.events > count
        for _ in range(raw.events - count):
            expected.merge(added)
        count = raw.events
        assert raw.state == expected
    append_raw(RawSketch(added, 1), path)  # clears up what a killed one left
    assert [found.name for found in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("first", FIRST)
def test_a_kill_before_any_statement_leaves_the_file_as_it_was(
    first: Any, every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, more, real = tmp_path / "a", RawSketch(first, 1), sqlite3.connect
    save_raw(RawSketch(first), path)

    def append_seen_by(see: Callable[[str], None]) -> None:
        def connect(*given: Any, **options: Any) -> Any:
            connection = real(*given, **options)
            connection.set_trace_callback(see)  # called before a statement runs
            return connection

        with monkeypatch.context() as patch:
            patch.setattr(sqlite3, "connect", connect)
            append_raw(more, path)

    statements: list[str] = []
    append_seen_by(statements.append)
    assert "COMMIT" in statements
    before = load_raw(path)
    for number in {*range(isinstance(first, ss.Sketch), len(statements), every), statements.index("COMMIT")}:
        left = [number]

        def kill(_: str, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)

        child = os.fork()
        if not child:
            try:
                append_seen_by(kill)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        raw = load_raw(path)
        assert (raw.state, raw.events) == (before.state, before.events)


def test_a_failed_append_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a"
    save_raw(RawSketch(one(1)), path)
    before = path.read_bytes()
    other = ss.SJLT(dim=1000, sketch_dim=16, sparsity=4, seed=4).sketch()
    with pytest.raises(ss.errors.IncompatibleProjectionsError):
        append_raw(RawSketch(other), path)
    with pytest.raises(ss.InvalidInputError, match="one holds one stream"):
        append_raw(RawSketch(many(["a"])), path)
    with pytest.raises(ss.InvalidInputError, match="was made by another process"):
        append_raw(RawSketch(one(1)), path, new=True)
    (tmp_path / "b").hardlink_to(path)
    with pytest.raises(ss.InvalidInputError, match="one of several names of one file"):
        append_raw(RawSketch(one(1)), path)
    (tmp_path / "b").unlink()
    assert path.read_bytes() == before


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the statements that SQLite executes from now on, in order."""
    executed: list[str] = []

    def traced(*arguments: Any, **options: Any) -> Any:
        connection = synchronised_connect(*arguments, **options)
        connection.set_trace_callback(executed.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    return executed


def test_an_append_survives_a_power_failure(tmp_path: Path, statements: list[str]) -> None:
    """The folder is synchronised after the journal was removed, which would undo it."""
    save_raw(RawSketch(PROJECTION.table()), path := tmp_path / "a")
    statements.clear()
    append_raw(RawSketch(PROJECTION.table()), path)
    assert statements.index("PRAGMA synchronous = EXTRA") < statements.index("BEGIN IMMEDIATE")


@pytest.mark.parametrize("rule", ["temp_store = MEMORY", "secure_delete = ON"])
def test_nothing_secret_is_left_beside_a_file_or_in_it(tmp_path: Path, statements: list[str], rule: str) -> None:
    """Neither in temporary files, of which SQLite says nothing, nor in pages that are free."""
    save_raw(RawSketch(PROJECTION.table()), path := tmp_path / "a")
    for work in (lambda: append_raw(RawSketch(PROJECTION.table()), path), lambda: load_raw(path)):
        statements.clear()
        work()
        begins = next(place for place, text in enumerate(statements) if text.startswith(("BEGIN", "SELECT")))
        assert statements.index(f"PRAGMA {rule}") < begins


def test_an_append_without_room_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, wide = tmp_path / "a", PROJECTION.replace(sketch_dim=1 << 12)
    tables = [wide.table(), wide.table()]
    for number, table in enumerate(tables):
        table.update([f"{number}{key}" for key in range(4)], [1] * 4)
    save_raw(tables[0], path)
    before = path.read_bytes()
    real = sqlite3.connect

    def full(*given: Any, **options: Any) -> Any:
        connection = real(*given, **options)
        connection.execute(f"PRAGMA max_page_count = {len(before) // 4096 + 1}")
        return connection

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", full)
        with pytest.raises(OSError, match="full"):
            append_raw(RawSketch(tables[1]), path)
    assert path.read_bytes() == before
    assert [found.name for found in tmp_path.iterdir()] == ["a"]
    with ss.limits.reading_limits(
        max_raw_bytes=len(before) + (1 << 16)
    ):  # a row of another size is written beside the old one
        with pytest.raises(ss.InvalidInputError, match="a raw file holds at most"):
            append_raw(RawSketch(tables[1]), path)
        assert path.read_bytes() == before
        append_raw(RawSketch(tables[0]), path)  # keys count once
        assert read_header(path).keys == 4


def test_an_append_reads_and_writes_no_other_keys(tmp_path: Path) -> None:
    path, table = tmp_path / "a", PROJECTION.table()
    table.update([f"{key:04}" for key in range(1000)], np.arange(1000))
    save_raw(RawSketch(table), path)
    before = bytearray(path.read_bytes())
    damaged = before.index(table["0700"].state().tobytes())
    before[damaged] ^= 1
    path.write_bytes(before)
    append_raw(RawSketch(many(["0001", "0002"])), path)
    after = path.read_bytes()
    pages = [after[at : at + 4096] != before[at : at + 4096] for at in range(0, len(before), 4096)]
    assert len(after) == len(before)
    assert 0 < sum(pages) < 6 < len(pages)
    with pytest.raises(ss.errors.WireFormatError, match="checksum"):
        load_raw(path)
    with pytest.raises(ss.errors.WireFormatError, match="checksum"):
        append_raw(RawSketch(many(["0700"])), path)
    assert path.read_bytes() == after


def appending(path: Path, keys: list[str], ready: Any) -> None:
    ready.wait()
    for _ in range(10):
        append_raw(RawSketch(many(keys), 1), path)


@pytest.mark.parametrize("folders_lock", [True, False])
def test_what_several_processes_append_at_once_all_counts(
    folders_lock: bool,  # noqa: FBT001
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not folders_lock:  # as on some network file systems
        append_raw(RawSketch(PROJECTION.table()), tmp_path / "a")
        monkeypatch.setattr("streamsketch.storage.raw_files.locked", contextlib.nullcontext)
    context = multiprocessing.get_context("fork")
    ready = context.Barrier(3)
    keys = (["a", "b"], ["b", "c"], ["c"])
    workers = [context.Process(target=appending, args=(tmp_path / "a", each, ready)) for each in keys]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    expected = PROJECTION.table()
    for each in keys:
        for _ in range(10):
            expected.merge(many(each))
    raw = load_raw(tmp_path / "a")
    assert (raw.state, raw.events) == (expected, 30)


@pytest.mark.parametrize("act", [load_raw, read_header, lambda path: append_raw(RawSketch(one(2)), path)])
def test_readers_and_writers_wait_for_one_who_writes(act: Callable[[Path], Any], tmp_path: Path) -> None:
    """However long it takes: also before the transaction, where pragmas read the first page."""
    path = tmp_path / "a"
    save_raw(RawSketch(one(1), 1), path)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN EXCLUSIVE")
        later = threading.Timer(0.6, other.execute, ["COMMIT"])
        later.start()
        assert act(path).events == 1
        later.join()


def test_a_release_of_an_appended_file_is_remembered_with_all_that_is_in_it(tmp_path: Path) -> None:
    total = appended(tmp_path / "a", FIRST[0], MORE[0])
    release = ss.storage.release_raw(tmp_path / "a", epsilon=1.0, neighbours=ss.L1(1))
    raw = load_raw(tmp_path / "a")
    assert (raw.state, len(raw.releases)) == (total, 1)
    append_raw(RawSketch(one(5), 1), tmp_path / "a")
    shutil.copy(tmp_path / "a", tmp_path / "b")  # a copy is as good
    assert load_raw(tmp_path / "b").releases == raw.releases
    assert raw.releases[0].release_id == release.release_ids[0].hex()  # type: ignore[union-attr]
