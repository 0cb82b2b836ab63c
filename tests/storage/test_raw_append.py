"""What is appended to a raw file: written behind what is there, whole or not at all, and read as one."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.storage import RawSketch, append_raw, emptied, load_raw, read_head, save_raw
from streamsketch.storage import append as raw_append
from streamsketch.storage import files as raw_file
from streamsketch.storage import log as raw_log

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
        added = emptied(load_raw(path).state)
        added.merge(state)  # type: ignore[arg-type]
        append_raw(RawSketch(added, 10), path)
        total.merge(state)
    return total


@pytest.mark.parametrize(("first", "more"), list(zip(FIRST, MORE, strict=True)))
@pytest.mark.parametrize("parts", [1, 2, 256])
def test_what_is_appended_is_read_as_the_sum(
    first: Any, more: list[Any], parts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw_append, "_MOST_PARTS", parts)
    total = appended(tmp_path / "a", first, more)
    raw, head = load_raw(tmp_path / "a"), read_head(tmp_path / "a")
    assert raw.state == total
    assert raw.events == head.events == 1 + 10 * len(more)
    assert head.keys == (None if isinstance(total, ss.Sketch) else frozenset(total))
    assert emptied(raw.state) == head.empty
    assert raw.state.data_ids == head.empty.data_ids
    sketches = [(total, raw.state)] if isinstance(total, ss.Sketch) else [(total[key], raw.state[key]) for key in total]
    assert all(wanted.mass == got.mass for wanted, got in sketches)
    assert raw.state.largest == total.largest


@pytest.mark.parametrize(("first", "more"), list(zip(FIRST, MORE, strict=True)))
def test_an_append_writes_behind_what_is_there(first: Any, more: list[Any], tmp_path: Path) -> None:
    save_raw(RawSketch(first), tmp_path / "a")
    before, inode = (tmp_path / "a").read_bytes(), (tmp_path / "a").stat().st_ino
    append_raw(RawSketch(more[0]), tmp_path / "a")
    once = (tmp_path / "a").read_bytes()
    append_raw(RawSketch(more[2]), tmp_path / "a")
    twice = (tmp_path / "a").read_bytes()
    mark = slice(raw_log.log_start(len(before)) - raw_log._BYTES, raw_log.log_start(len(before)))
    assert once.startswith(before)
    assert twice[: mark.start] + twice[mark.stop :][: len(once) - mark.stop] == once[: mark.start] + once[mark.stop :]
    assert (tmp_path / "a").stat().st_ino == inode


def test_a_killed_append_leaves_the_file_as_it_was_or_complete(tmp_path: Path) -> None:
    path, steps = tmp_path / "a", []
    save_raw(RawSketch(many(["a", "b"]), 1), path)
    for number in (1, 2):
        before = path.read_bytes()
        state = load_raw(path).state
        append_raw(RawSketch(many(["b", "c"], number), 1), path)
        steps.append((before, path.read_bytes(), state))
    first = len(steps[0][0])
    place = raw_log.log_start(first) - raw_log._BYTES
    for before, after, state in steps:
        for end in range(len(before), len(after) + 1):  # all is written but for the mark
            torn = bytearray(after[:end])
            torn[place : place + raw_log._BYTES] = before[place : place + raw_log._BYTES].ljust(
                min(raw_log._BYTES, max(0, end - place)), b"\0"
            )
            path.write_bytes(torn)
            assert load_raw(path).state == state
        append_raw(RawSketch(many(["d"]), 1), path)  # the next one goes on from there
        assert sorted(load_raw(path).state) == sorted({*state, "d"})


def test_any_changed_byte_and_any_cut_of_what_was_appended_is_noticed(tmp_path: Path) -> None:
    save_raw(RawSketch(one(1)), tmp_path / "a")
    first = (tmp_path / "a").stat().st_size
    append_raw(RawSketch(one(2)), tmp_path / "a")
    data = (tmp_path / "a").read_bytes()
    for place in range(first, len(data)):
        changed = bytearray(data)
        changed[place] ^= 0x10
        (tmp_path / "b").write_bytes(changed)
        with pytest.raises(ss.WireFormatError):
            load_raw(tmp_path / "b")
    for end in range(raw_log.log_start(first), len(data)):
        (tmp_path / "b").write_bytes(data[:end])
        with pytest.raises(ss.WireFormatError, match="cut off"):
            load_raw(tmp_path / "b")
    (tmp_path / "b").write_bytes(data[:first] * 2)
    with pytest.raises(ss.WireFormatError, match="joined"):
        load_raw(tmp_path / "b")


def test_a_failed_append_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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

    for fails in (1, 2, 3, 4):  # the first append, then the second; of the bytes, then of the mark
        done: list[int] = []

        def full(_: int, done: list[int] = done, fails: int = fails) -> None:
            done.append(1)
            if len(done) == fails:
                raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(raw_log.os, "fsync", full)
            if fails > 2:
                append_raw(RawSketch(one(2)), path)
                before = path.read_bytes()
            with pytest.raises(OSError, match="No space"):
                append_raw(RawSketch(one(2)), path)
        assert path.read_bytes() == before


@pytest.mark.parametrize("added", [many(["b"]), many(["c"])])
def test_keys_count_once_where_the_size_of_a_file_is_bounded(
    added: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_raw(RawSketch(many(["a", "b"])), tmp_path / "a")
    before = (tmp_path / "a").read_bytes()
    for module in (raw_append, raw_file):
        monkeypatch.setattr(module, "MAX_BYTES", len(before) + 100)
    if "c" in added:
        with pytest.raises(ss.InvalidInputError, match="a raw file holds at most"):
            append_raw(RawSketch(added), tmp_path / "a")
        assert (tmp_path / "a").read_bytes() == before
    else:
        assert append_raw(RawSketch(added), tmp_path / "a").keys == {"a", "b"}


def test_an_append_decodes_no_keys(tmp_path: Path) -> None:
    save_raw(RawSketch(many(["a", "b"])), tmp_path / "a")
    damaged = (tmp_path / "a").read_bytes().replace(b"sb", b"?b")
    (tmp_path / "a").write_bytes(damaged)
    head = append_raw(RawSketch(many(["c"])), tmp_path / "a")
    assert head.most_keys == 3
    with pytest.raises(ss.WireFormatError, match="key 1"):
        _ = head.keys
    with pytest.raises(ss.WireFormatError, match="checksum"):
        load_raw(tmp_path / "a")


def test_an_append_reads_no_cell_and_writes_no_more_than_what_is_added(tmp_path: Path) -> None:
    written = []
    for keys in (10, 1000):
        path = tmp_path / str(keys)
        table = PROJECTION.table()
        table.update([f"{key:04}" for key in range(keys)], np.arange(keys) % 1000)
        save_raw(RawSketch(table), path)
        before = bytearray(path.read_bytes())
        before[before.index(table.cells.tobytes())] ^= 1
        path.write_bytes(before)
        append_raw(RawSketch(many(["0001"])), path)
        written.append(path.stat().st_size - len(before))
    assert max(written) < 2 * min(written)


def test_a_release_of_an_appended_file_is_remembered_with_all_that_is_in_it(tmp_path: Path) -> None:
    total = appended(tmp_path / "a", FIRST[0], MORE[0])
    release = ss.storage.release_raw(tmp_path / "a", epsilon=1.0, neighbours=ss.L1(1))
    raw = load_raw(tmp_path / "a")
    assert (raw.state, len(raw.releases)) == (total, 1)
    append_raw(RawSketch(one(5), 1), tmp_path / "a")
    shutil.copy(tmp_path / "a", tmp_path / "b")  # a copy is as good
    assert load_raw(tmp_path / "b").releases == raw.releases
    assert raw.releases[0].release_id == release.release_ids[0].hex()  # type: ignore[union-attr]
