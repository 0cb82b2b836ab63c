"""The private format: what is written is read, what is not valid is refused, and releases are remembered."""

import contextlib
import datetime as dt
import multiprocessing
import os
import random
import shutil
import sqlite3
import stat
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.storage import load_raw, releases, save_raw, sketches
from streamsketch.storage.database import Database, Row
from streamsketch.storage.raw_files import append_raw, read_header, transaction
from streamsketch.storage.sketches import PastRelease, RawSketch, distinct_releases
from tests.patience import PATIENCE
from tests.tampering import executed, raw_bytes, raw_from_bytes, rewritten, with_fields

PROJECTION = ss.SJLT(dim=1000, sketch_dim=16, sparsity=4, seed=3, resolution="1/2")


def one() -> ss.Sketch:
    sketch = PROJECTION.sketch()
    sketch.update([1, 2], [3, -4])
    return sketch


def many(keys: list[object]) -> ss.SketchTable:
    table = PROJECTION.table()
    table.update(keys, list(range(len(keys))), list(range(1, len(keys) + 1)))
    return table


PAST = PastRelease(one().release(epsilon=0.5, neighbours=ss.L1(1)).guarantee, "ab" * 8)
STATES = [one(), PROJECTION.sketch(), many(["a", "ü", ""]), many([b"\0"]), many([-7, 9]), PROJECTION.table()]
STATES += [many([dt.date(1969, 12, 31), dt.date(2026, 1, 1)])]


@pytest.mark.parametrize("state", STATES)
def test_round_trip(state: ss.Sketch | ss.SketchTable, tmp_path: Path) -> None:
    path = tmp_path / "a.raw-sketch"
    save_raw(RawSketch(state, events=5), path)
    back = load_raw(path)
    assert back.state == state
    assert back.events == 5
    for before, after in zip(_sketches(state), _sketches(back.state), strict=True):
        assert before.mass == after.mass
    back.state.merge(state)  # type: ignore[arg-type] # it can be added to


def _sketches(state: ss.Sketch | ss.SketchTable) -> list[ss.Sketch]:
    return [state] if isinstance(state, ss.Sketch) else list(state.values())


def test_the_file_is_its_owners_and_says_so(tmp_path: Path) -> None:
    save_raw(RawSketch(one()), tmp_path / "a.raw-sketch")
    assert stat.S_IMODE((tmp_path / "a.raw-sketch").stat().st_mode) == 0o600
    assert b"SECRET" in (tmp_path / "a.raw-sketch").read_bytes()[:4096]
    assert "3" not in repr(RawSketch(one())).replace("seed=3", "")


@pytest.mark.parametrize("write", ["save", "append", "record"])
def test_a_file_that_others_may_read_is_its_owners_again_once_it_is_written(write: str, tmp_path: Path) -> None:
    path = tmp_path / "a.raw-sketch"
    save_raw(RawSketch(one()), path)
    path.chmod(0o664)
    load_raw(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o664, "reading changes nothing"
    if write == "record":
        with transaction(path) as file:
            file.record(PAST)
    elif write == "append":
        append_raw(RawSketch(one()), path)
    else:
        save_raw(RawSketch(one()), path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_loop_of_links_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "a")
    with pytest.raises(OSError, match="symbolic links"):
        load_raw(tmp_path / "a")


def test_the_journal_is_its_owners_too_and_nothing_stays_beside_the_file(tmp_path: Path) -> None:
    path, seen = tmp_path / "a.raw-sketch", set()
    save_raw(RawSketch(one()), path)
    mask = os.umask(0)
    try:
        with transaction(path) as file:
            file.record(PAST)
            file._database._connection.execute("PRAGMA cache_spill = 1")
            for other in tmp_path.iterdir():
                seen.add(other.name)
                assert stat.S_IMODE(other.stat().st_mode) == 0o600
    finally:
        os.umask(mask)
    assert seen == {path.name, f"{path.name}-journal"}
    assert [other.name for other in tmp_path.iterdir()] == [path.name]


def test_of_what_was_replaced_nothing_stays_in_the_file(tmp_path: Path) -> None:
    path, rare = tmp_path / "a.raw-sketch", 0x5EC4E7DA7A5EC4E7
    table = PROJECTION.table()
    table.add_steps(["the key"], np.zeros(1, np.int64), np.ones(1, np.int64), np.array([rare]))
    save_raw(RawSketch(table), path)
    names = [sign * rare for sign in (1, -1)]
    assert any(name.to_bytes(8, "little", signed=True) in path.read_bytes() for name in names)
    save_raw(RawSketch(many(["another"])), path)
    data = path.read_bytes()
    assert b"the key" not in data
    assert not any(name.to_bytes(8, "little", signed=True) in data for name in names)


def test_it_is_no_release(tmp_path: Path) -> None:
    save_raw(RawSketch(one()), tmp_path / "a.raw-sketch")
    with pytest.raises(ss.errors.WireFormatError, match="bytes 0-7"):
        ss.load(tmp_path / "a.raw-sketch")
    one().release(epsilon=1.0, neighbours=ss.L1(1)).save(tmp_path / "b.sketch")
    with pytest.raises(ss.errors.WireFormatError, match="first line"):
        load_raw(tmp_path / "b.sketch")


def test_any_changed_byte_is_noticed_or_changes_nothing() -> None:
    """SQLite has bytes without a meaning, such as those of free space."""
    raw, noticed = RawSketch(many(["a", "b"]), 2, (PAST,)), 0
    data = raw_bytes(raw)
    chance = random.Random(1)  # noqa: S311 - it draws places
    for place in [*range(0, 110, 3), *(chance.randrange(len(data)) for _ in range(50)), *places_of(raw, data)]:
        changed = bytearray(data)
        changed[place] ^= 0x10
        try:
            back = raw_from_bytes(bytes(changed))
        except ss.errors.WireFormatError:
            noticed += 1
            continue
        assert (back.state, back.events, back.releases) == (raw.state, raw.events, raw.releases)
    assert noticed > 75


def places_of(raw: RawSketch, data: bytes) -> list[int]:
    """Return places of cells, and of the header."""
    starts = [data.index(row.tobytes()) for row in raw.state.cells]  # type: ignore[union-attr]
    header = data.index(b"largest")
    return [*(start + at for start in starts for at in range(0, 128, 5)), *range(header, header + 40)]


def test_any_cut_is_noticed(tmp_path: Path) -> None:
    data = raw_bytes(RawSketch(many(["a", "b"]), 2))
    for end in range(0, len(data), 97):
        with pytest.raises(ss.errors.WireFormatError):
            raw_from_bytes(data[:end])
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(ss.errors.WireFormatError, match="over the limit of 100"):
        load_raw(tmp_path / "a", max_bytes=100)


def test_rows_that_are_not_all_of_one_time_are_noticed(tmp_path: Path) -> None:
    """As in a copy that was made while the file was written, without its journal: each row by itself is valid."""
    table = many(["a", "b"])
    before = raw_bytes(RawSketch(table))
    table.update(["a"], [5])
    after = raw_bytes(RawSketch(table))
    (tmp_path / "after").write_bytes(after)

    def mixed(_: Database, connection: sqlite3.Connection) -> None:
        connection.execute("ATTACH ? AS other", (str(tmp_path / "after"),))
        connection.execute(
            "UPDATE rows SET (number, data, digest) = (SELECT number, data, digest FROM other.rows AS o "
            "WHERE o.key = rows.key) WHERE key = x'7361'"
        )

    with pytest.raises(ss.errors.WireFormatError, match="not all as they were written"):
        raw_from_bytes(rewritten(before, mixed))
    with pytest.raises(ss.errors.WireFormatError, match="not all as they were written"):
        raw_from_bytes(executed(before, "DELETE FROM rows WHERE key = x'7361'"))


def test_a_schema_of_somebody_else_is_refused() -> None:
    data = raw_bytes(RawSketch(one()))
    for statement in (
        "CREATE TRIGGER t AFTER UPDATE ON rows BEGIN DELETE FROM rows; END",
        "CREATE VIEW v AS SELECT 1",
        "CREATE TABLE more (x)",
        "ALTER TABLE rows ADD COLUMN x",
    ):
        forged = executed(data, statement)
        with pytest.raises(ss.errors.WireFormatError, match="schema"):
            raw_from_bytes(forged)
    for name, said in (("user_version = 9", "version: 9, but this version"), ("application_id = 7", "another kind")):
        forged = executed(data, f"PRAGMA {name}")
        with pytest.raises(ss.errors.WireFormatError, match=said):
            raw_from_bytes(forged)


def test_cells_that_no_data_could_give_are_refused_without_being_shown() -> None:
    row = Row(b"1", one().mass, np.full(16, 77777, "<i8").tobytes())

    def forged(database: Database, _: Any) -> None:
        database.change("sketch", database.header("sketch").fields, [row], lambda _, new: new)

    with pytest.raises(ss.errors.WireFormatError, match="do not belong together") as caught:
        raw_from_bytes(rewritten(raw_bytes(RawSketch(one())), forged))
    assert "77777" not in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("projection", 1, "text"),
        ("keyed", 1, "true or false"),
        ("events", -77777, "an integer from 0 to 2^63 - 1"),
        ("events", True, "an integer from 0 to 2^63 - 1"),
        ("releases", None, "a list"),
    ],
)
def test_a_header_field_of_another_kind_is_named_and_not_shown(field: str, value: object, wanted: str) -> None:
    with pytest.raises(ss.errors.WireFormatError) as caught:
        raw_from_bytes(with_fields(raw_bytes(RawSketch(one())), **{field: value}))
    assert str(caught.value) == f"header.{field} must be {wanted}"


def test_the_file_remembers_releases_while_a_stream_goes_on_replacing_it(tmp_path: Path) -> None:
    path = tmp_path / "a.raw-sketch"
    stream = RawSketch(one())
    save_raw(stream, path)
    release = ss.storage.release_raw(path, epsilon=0.5, neighbours=ss.OneCoordinate("1/2", unit="patient"))
    save_raw(stream, path)  # the stream knows of no release
    (past,) = load_raw(path).releases
    assert past.guarantee == release.guarantee
    assert past.guarantee.mechanism.is_record
    assert past.release_id == release.release_ids[0].hex()  # type: ignore[union-attr]


def test_a_save_reads_the_header_of_what_it_replaces_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.raw-sketch"
    save_raw(RawSketch(one(), 0, (PAST,)), path)
    data = path.read_bytes()
    cells = data.index(one().state().tobytes())
    path.write_bytes(data[:cells] + bytes([data[cells] ^ 1]) + data[cells + 1 :])
    with pytest.raises(ss.errors.WireFormatError, match="checksum"):
        load_raw(path)
    assert read_header(path).releases == (PAST,)
    save_raw(RawSketch(one()), path)
    assert load_raw(path).releases == (PAST,)
    path.write_bytes(data.replace(b"largest", b"largesT"))
    with pytest.raises(ss.InvalidInputError, match="is not replaced"):
        save_raw(RawSketch(one()), path)


def test_what_is_no_raw_sketch_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.raw-sketch").write_text("my notes")
    with pytest.raises(
        ss.InvalidInputError, match=r"a\.raw-sketch is not replaced, because it is not a valid raw sketch"
    ):
        save_raw(RawSketch(one()), tmp_path / "a.raw-sketch")
    assert (tmp_path / "a.raw-sketch").read_text() == "my notes"


def test_a_release_in_two_records_counts_once() -> None:
    guarantee = one().release(epsilon=0.5, neighbours=ss.L1(1)).guarantee
    first, second = PastRelease(guarantee, "aa"), PastRelease(guarantee, "bb")
    assert distinct_releases([[first], [second, first]]) == (first, second)


def test_a_table_from_its_parts_checks_them() -> None:
    table = many(["a", "b"])
    assert ss.SketchTable.from_state(PROJECTION, list(table), table.cells, table.masses) == table
    with pytest.raises(ss.InvalidInputError, match="1 different keys"):
        ss.SketchTable.from_state(PROJECTION, ["a", "a"], table.cells, table.masses)
    with pytest.raises(ss.InvalidInputError, match="masses must be int64"):
        ss.SketchTable.from_state(PROJECTION, ["a", "b"], table.cells, table.masses.astype(float))
    with pytest.raises(ss.InvalidInputError, match="cannot belong together"):
        ss.SketchTable.from_state(PROJECTION, ["a", "b"], table.cells, np.zeros(2, dtype=np.int64))


def test_what_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    table, path = many(["a", "b"]), tmp_path / "a.raw-sketch"
    size = len(raw_bytes(RawSketch(table)))
    said = rf"take {size:,} bytes, .* at most {size - 1:,}: "  # with all that is around the cells
    with ss.limits.reading_limits(max_raw_bytes=size - 1), pytest.raises(ss.InvalidInputError, match=said):
        save_raw(table, path)
    assert not list(tmp_path.iterdir())
    with ss.limits.reading_limits(max_raw_bytes=size):
        save_raw(table, path)
        assert load_raw(path).state == table
    with pytest.raises(
        ss.InvalidInputError, match="2 sketches of 16 cells take 272 bytes, and a raw file holds at most 100: "
    ):
        sketches.check_size(table.projection, 2, 100)


def test_a_table_is_written_without_a_second_copy_of_it(tmp_path: Path) -> None:
    cells = 1 << 18
    table = ss.CountSketch(dim=1 << 40, sketch_dim=cells, seed=3).table()
    table.update(list(range(20)), list(range(20)))  # 40 MiB
    tracemalloc.start()
    try:
        save_raw(RawSketch(table), tmp_path / "a.raw-sketch")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < table.nbytes / 2
    assert load_raw(tmp_path / "a.raw-sketch").state == table


def test_what_a_killed_write_left_is_removed_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "a+.raw-sketch"
    others = [
        ".a+.raw-sketch.0123abcd.txt",
        ".a+.raw-sketch.notes",
        ".aa.raw-sketch.0123abcd",
        "a+.raw-sketch.0123abcd",
    ]
    for name in (".a+.raw-sketch.0123abcd", ".a+.raw-sketch.ffffffff", *others):
        (tmp_path / name).write_bytes(b"secret")
    save_raw(RawSketch(one()), path)
    assert {found.name for found in tmp_path.iterdir()} == {path.name, *others}


def test_a_release_through_a_link_is_remembered_by_the_file_itself(tmp_path: Path) -> None:
    target, link = tmp_path / "a.raw-sketch", tmp_path / "sub" / "link.raw-sketch"
    link.parent.mkdir()
    save_raw(RawSketch(PROJECTION.sketch()), target)
    link.symlink_to(target)
    ss.storage.release_raw(link, epsilon=1.0, neighbours=ss.L1(1))
    assert link.is_symlink()
    assert len(load_raw(target).releases) == len(load_raw(link).releases) == 1
    assert sorted(path.name for path in link.parent.iterdir()) == ["link.raw-sketch"]


def test_a_file_of_several_names_is_not_released_by_one_of_them(tmp_path: Path) -> None:
    one, other = tmp_path / "a.raw-sketch", tmp_path / "b.raw-sketch"
    save_raw(RawSketch(PROJECTION.sketch()), one)
    other.hardlink_to(one)
    before = one.read_bytes()
    with pytest.raises(ss.InvalidInputError, match="one of several names of one file"):
        save_raw(RawSketch(PROJECTION.sketch()), other)
    with pytest.raises(ss.InvalidInputError, match="one of several names of one file"):
        ss.storage.release_raw(other, epsilon=1.0, neighbours=ss.L1(1))
    assert one.read_bytes() == other.read_bytes() == before


def test_a_file_that_cannot_be_written_is_read() -> None:
    with tempfile.TemporaryDirectory() as name:  # where another user gets to
        folder, path = Path(name), Path(name) / "a.raw-sketch"
        save_raw(RawSketch(one(), 7), path)
        path.chmod(0o444)
        folder.chmod(0o555)
        child = os.fork()
        if not child:
            status = 1
            try:
                if os.getuid() == 0:  # root writes whatever the mode says
                    os.setuid(65534)
                status = int(load_raw(path).events != 7 or read_header(path).events != 7)
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        folder.chmod(0o755)


def released(path: Path, ready: Any, results: Any) -> None:
    ready.wait()
    try:
        ss.storage.release_raw(path, epsilon=1.0, neighbours=ss.L1(1))
        results.put("released")
    except ss.InvalidInputError as error:
        results.put(str(error).partition(":")[0])


@pytest.mark.parametrize(("copies", "folders_lock"), [(1, True), (2, True), (1, False)])
def test_of_two_releases_at_once_one_is_refused(
    copies: int,
    folders_lock: bool,  # noqa: FBT001
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not folders_lock:  # as on some network file systems
        monkeypatch.setattr("streamsketch.storage.raw_files.locked", contextlib.nullcontext)
    paths = [tmp_path / f"{number}.raw-sketch" for number in range(copies)]
    save_raw(RawSketch(one()), paths[0])
    for path in paths[1:]:
        shutil.copy(paths[0], path)
    real = releases.released_before

    def slow(*given: Any) -> Any:
        found = real(*given)
        time.sleep(0.05)
        return found

    monkeypatch.setattr(releases, "released_before", slow)
    context = multiprocessing.get_context("fork")
    ready, results = context.Barrier(2), context.Queue()
    workers = [context.Process(target=released, args=(path, ready, results)) for path in (paths[0], paths[-1])]
    for worker in workers:
        worker.start()
    found = sorted(results.get(timeout=PATIENCE) for _ in workers)
    for worker in workers:
        worker.join()
    assert found[1] == "released"
    assert "released before" in found[0]
