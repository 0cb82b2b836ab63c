"""Rows that a stream on one machine drops, kept once each, whatever is interrupted."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch.once import dead_letters as module
from streamsketch.streams import DeadLetters, RowCounts, Stream
from streamsketch.streams import stream as stream_module
from streamsketch.streams.state import Saved, write_state
from tests.streams.naive import Row, batch_of, beat, policy_of

LOG = [
    beat(0),
    Row(5, "north", "a", 1, "Ann"),
    beat(100),
    *(Row(place, "north", "late", 1, f"c{place}") for place in range(20)),
    Row(9000, "north", "ahead", 1, "Eve"),
    Row(101, "north", "a", 1, "Bob"),
]


def letters(folder: Path) -> list[tuple[str, str, str]]:
    """Return the kind of each row, with its item and customer."""
    found = []
    for path in sorted(folder.iterdir()):
        assert path.stat().st_mode & 0o777 == 0o600
        rows = pq.read_table(path).to_pylist()
        found += [(path.name.partition("-")[0], row["item"], row["customer"]) for row in rows]
    return sorted(found)


EXPECTED = sorted([("ahead", "ahead", "Eve"), *(("late", "late", f"c{place}") for place in range(20))])


@pytest.mark.parametrize("size", [1 << 22, 1])
@pytest.mark.parametrize("killed", [None, 2, 7, 16, 19])
def test_rows_are_kept_once_each_wherever_a_stream_is_killed(killed: int | None, size: int, tmp_path: Path) -> None:
    folder, out = tmp_path / "letters", tmp_path / "out"
    folder.mkdir()
    out.mkdir()
    policy = policy_of(out, clock="heartbeats", max_ahead="1 hour")
    bad = batch_of([Row(102, "north", "a", 1, "Dan")]).to_pylist()[0] | {"n": "many"}

    def follow(at: int, steps: int, state: str = "s.raw-stream") -> Stream:
        stream = Stream(*policy, tmp_path / state, dead_letters=DeadLetters(folder, file_bytes=size))
        for place in range(at, len(LOG), steps):
            stream.add(batch_of(LOG[place : place + steps]), place + 1)
            if place == killed:  # before the state is written
                return stream
            if place % 4 == 0:
                stream.save({"at": place + steps})
        stream.add(type(batch_of([])).from_pylist([bad], schema=batch_of([]).schema), len(LOG) + 1)
        stream.save({"at": len(LOG)})
        return stream

    stream = follow(0, 1)
    if killed is not None:
        saved = Stream(*policy, tmp_path / "s.raw-stream").position if killed > 0 else None
        killed = None
        stream = follow(0 if saved is None else saved["at"], 3)
    assert letters(folder) == sorted([*EXPECTED, ("malformed", "a", "Dan")])
    assert stream.row_counts.late == 20


def test_kinds_that_are_counted_together_are_kept_once_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, out = tmp_path / "letters", tmp_path / "out"
    folder.mkdir()
    out.mkdir()
    policy = policy_of(out, clock="heartbeats", max_ahead="1 hour")
    rows = batch_of([Row(102, "north", "a", 1, f"c{place}") for place in range(3)]).to_pylist()
    malformed = type(batch_of([])).from_pylist([row | {"n": "many"} for row in rows], schema=batch_of([]).schema)
    log = [batch_of([beat(0)]), malformed, batch_of([Row(9000, "north", "ahead", 1, "Eve")])]

    def follow(at: int) -> Stream:
        stream = Stream(*policy, tmp_path / "s.raw-stream", dead_letters=DeadLetters(folder))
        for place in range(at, len(log)):
            stream.add(log[place], place + 1)
            stream.save({"at": place + 1})
        return stream

    def killed(saved: Saved, path: Path) -> None:
        if saved.header["place"] == {"at": 3}:
            raise KeyboardInterrupt
        write_state(saved, path)

    monkeypatch.setattr(stream_module, "write_state", killed)
    with pytest.raises(KeyboardInterrupt):
        follow(0)
    monkeypatch.undo()
    follow(2)
    assert letters(folder) == sorted(
        [("ahead", "ahead", "Eve"), *(("malformed", "a", f"c{place}") for place in range(3))]
    )


def test_rows_of_no_kind_are_kept_if_those_of_one_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a disk is full: the rows come again."""
    kept = DeadLetters(tmp_path, file_bytes=1)
    kept.begin("0123abcd", {"late": 0, "ahead": 0})
    rows = {kind: batch_of([Row(1, "north", kind, 1, kind)]) for kind in ("late", "ahead")}
    kept.add({"ahead": rows["ahead"]})

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as context:
        context.setattr(module, "write_whole", full)
        with pytest.raises(OSError, match="No space"):
            kept.add(rows)
    kept.add(rows)
    kept.flush()
    assert letters(tmp_path) == [("ahead", "ahead", "ahead")] * 2 + [("late", "late", "late")]


def test_what_has_no_room_is_counted(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    stream = Stream(
        *policy_of(tmp_path / "out", clock="heartbeats", max_ahead="1 hour"),
        tmp_path / "s.raw-stream",
        dead_letters=DeadLetters(tmp_path, most_bytes=10),
    )
    stream.add(batch_of(LOG), 1)
    stream.save({"at": 1})
    assert stream.row_counts == RowCounts(23, late=20, ahead=1, lost=21)
    assert not list(tmp_path.glob("*.parquet"))


def test_the_folder_is_there(tmp_path: Path) -> None:
    with pytest.raises(ss.InvalidInputError, match="an existing folder"):
        DeadLetters(tmp_path / "none")


def test_letters_of_another_stream_stay(tmp_path: Path) -> None:
    kept: Any = tmp_path / "late-0123abcd-000000000007.parquet"
    kept.write_bytes(b"of another")
    (tmp_path / "out").mkdir()
    how: Any = {"dead_letters": DeadLetters(tmp_path)}
    Stream(*policy_of(tmp_path / "out"), tmp_path / "s.raw-stream", **how)
    assert kept.exists()
