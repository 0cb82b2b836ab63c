"""Logs that grow: followed, left and read on, and recognised by their bytes."""

import os
from pathlib import Path
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.intake import BadLines, Log, RowReader
from tests.intake.logs import AGREEMENT, FIRST, HEADER, READER, SECOND, Rows, opened, piped, rows_of


class StopAfter:
    """Ends reading once some pieces were read."""

    def __init__(self, pieces: int) -> None:
        self.wakes, self._wake = os.pipe()
        self.left = pieces

    def is_set(self) -> bool:
        self.left -= 1
        return self.left < 0


def test_a_file_is_read_on_where_it_was_left(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(HEADER + FIRST + b"unfini")
    with opened(path) as descriptor:
        log = Log(descriptor, READER, "csv")
        rows = rows_of(log)
        assert (rows, rows.numbers) == ([("a", "1"), ("b", "2")], [2, 3])
        position = log.position
    path.write_bytes(HEADER + FIRST + SECOND)
    with opened(path) as descriptor:
        log = Log(descriptor, READER, "csv", position=position)
        assert log.position == position
        rows = rows_of(log)
        assert (rows, rows.numbers) == ([("c, d", "3"), ("e", "4")], [4, 5])


@pytest.mark.parametrize("left", [b"", HEADER, HEADER + FIRST])
def test_a_pipe_brings_the_log_from_its_beginning(left: bytes) -> None:
    with piped(left) as descriptor:
        log = Log(descriptor, READER, "csv")
        if left:
            rows_of(log)
        position = log.position
    with piped(HEADER + FIRST + SECOND) as descriptor:
        rows = rows_of(Log(descriptor, READER, "csv", position=position))
    assert rows == [("a", "1"), ("b", "2"), ("c, d", "3"), ("e", "4")][2 * (left == HEADER + FIRST) :]


def test_a_file_is_followed_as_it_grows(tmp_path: Path) -> None:
    path, rows = tmp_path / "log.jsonl", Rows()
    path.write_bytes(b'{"item": "a", "n": 1}\n')
    with opened(path) as descriptor, path.open("ab", buffering=0) as writer:
        log = Log(descriptor, READER, "jsonl")
        for count, piece in enumerate(log.pieces(follow=True, wait=lambda: 0)):
            log.read(piece, rows.add)
            if not piece:
                writer.write(b'{"item": "b", "n": 2}\n{"item"')
            if count == 2:
                break
    assert rows == [("a", "1"), ("b", "2")]


def test_reading_ends_when_it_is_stopped(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(HEADER + FIRST)
    with opened(path) as descriptor:
        assert rows_of(Log(descriptor, READER, "csv"), follow=True, stop=StopAfter(1)) == [("a", "1"), ("b", "2")]
    with piped(HEADER + FIRST) as descriptor:
        log = Log(descriptor, READER, "csv")
        assert rows_of(log, stop=StopAfter(0)) == []
        assert log.position["bytes"] == 0
        position = log.position | {"bytes": 3}
    with piped(HEADER) as descriptor:
        log = Log(descriptor, READER, "csv", position=position)
        assert rows_of(log, stop=StopAfter(0)) == []
        assert log.position == position


@pytest.mark.parametrize("kind", ["file", "pipe"])
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (HEADER + b"x,1\nb,2\n" + SECOND, "is not the log that was read before"),
        (HEADER + b"a,1\nb,9\n" + SECOND, "is not the log that was read before"),
        (HEADER + b"a,1\n", "the log has 11 bytes, but 15 were read before"),
    ],
)
def test_another_log_is_refused(data: bytes, said: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(HEADER + FIRST)
    with opened(path) as descriptor:
        log = Log(descriptor, READER, "csv")
        rows_of(log)
    path.write_bytes(data)
    with opened(path) if kind == "file" else piped(data) as descriptor, pytest.raises(ss.InvalidInputError, match=said):
        rows_of(Log(descriptor, READER, "csv", position=log.position))


def test_a_file_that_becomes_shorter_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(HEADER + FIRST)
    with opened(path) as descriptor:
        pieces = Log(descriptor, READER, "csv").pieces(follow=True)
        next(pieces)
        path.write_bytes(HEADER)
        with pytest.raises(ss.InvalidInputError, match="the log has 7 bytes, but 15 were read before"):
            next(pieces)


@pytest.mark.parametrize(
    "changes", [{"bytes": -1}, {"bytes": "9"}, {"inside": 1}, {"line": None}, {"header": "z"}, {"head": 1}]
)
def test_a_position_that_does_not_say_how_far_the_log_was_read_is_refused(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "log.csv").write_bytes(HEADER)
    with opened(tmp_path / "log.csv") as descriptor:
        position = Log(descriptor, READER, "csv").position
        Log(descriptor, READER, "csv", position=position)
        with pytest.raises(ss.InvalidInputError, match="does not record how far the log was read"):
            Log(descriptor, READER, "csv", position=position | changes)


def test_bad_lines_of_a_log_are_left_out_and_kept(tmp_path: Path) -> None:
    path, kept = tmp_path / "log.csv", tmp_path / "bad.csv"
    path.write_bytes(HEADER + FIRST + b"bad,3\ntoo,many,cells\n" + SECOND)
    with opened(path) as descriptor, BadLines(str(kept)) as bad:
        rows = rows_of(Log(descriptor, RowReader(AGREEMENT, bad=bad), "csv"))
    assert (rows, rows.numbers) == ([("a", "1"), ("b", "2"), ("c, d", "3"), ("e", "4")], [2, 3, 6, 7])
    assert kept.read_bytes() == HEADER + b"bad,3\ntoo,many,cells\n"
    assert str(bad) == f"2 bad lines left out and written to {kept} (secret)"
