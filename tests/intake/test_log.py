"""Logs that grow: followed, left and read on, and recognised by their bytes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.intake import BadLines, Log, RowReader

AGREEMENT = ss.Agreement(
    ss.SJLT(dim=ss.HASHED_DIM, sketch_dim=16, sparsity=1, seed=7), index="item", value="n", missing="drop"
)
READER = RowReader(AGREEMENT)
HEADER, FIRST, SECOND = b"item,n\n", b"a,1\nb,2\n", b'"c\nd",3\ne,4\n'


class Rows(list[tuple[str, str]]):
    """The rows that were read, and the number of each."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: list[int] = []

    def add(self, batch: pa.RecordBatch, first: int) -> None:
        if "bad" in batch.column("item").to_pylist():
            raise ss.InvalidInputError("a bad item")
        self += zip(batch.column("item").to_pylist(), batch.column("n").to_pylist(), strict=True)
        self.numbers += range(first, first + batch.num_rows)


@contextmanager
def opened(path: Path) -> Iterator[int]:
    with path.open("rb", buffering=0) as file:
        yield file.fileno()


@contextmanager
def piped(data: bytes) -> Iterator[int]:
    source, sink = os.pipe()
    os.write(sink, data)
    os.close(sink)
    try:
        yield source
    finally:
        os.close(source)


def rows_of(log: Log, **options: Any) -> Rows:
    rows = Rows()
    for piece in log.pieces(**options):
        log.read(piece, rows.add)
    return rows


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
        assert (rows, rows.numbers) == ([("c\nd", "3"), ("e", "4")], [4, 5])


@pytest.mark.parametrize("left", [b"", HEADER, HEADER + FIRST])
def test_a_pipe_brings_the_log_from_its_beginning(left: bytes) -> None:
    with piped(left) as descriptor:
        log = Log(descriptor, READER, "csv")
        if left:
            rows_of(log)
        position = log.position
    with piped(HEADER + FIRST + SECOND) as descriptor:
        rows = rows_of(Log(descriptor, READER, "csv", position=position))
    assert rows == [("a", "1"), ("b", "2"), ("c\nd", "3"), ("e", "4")][2 * (left == HEADER + FIRST) :]


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
        (HEADER + b"a,1\n", "the log has 11 bytes, and 15 of it were read before"),
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
        with pytest.raises(ss.InvalidInputError, match="the log has 7 bytes, and 15 of it were read before"):
            next(pieces)


@pytest.mark.parametrize("changes", [{"bytes": -1}, {"bytes": "9"}, {"line": None}, {"header": "z"}, {"head": 1}])
def test_a_position_that_does_not_say_how_far_the_log_was_read_is_refused(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "log.csv").write_bytes(HEADER)
    with opened(tmp_path / "log.csv") as descriptor:
        position = Log(descriptor, READER, "csv").position
        Log(descriptor, READER, "csv", position=position)
        with pytest.raises(ss.InvalidInputError, match="does not say how far the log was read"):
            Log(descriptor, READER, "csv", position=position | changes)


def test_bad_lines_of_a_log_are_left_out_and_kept(tmp_path: Path) -> None:
    path, kept = tmp_path / "log.csv", tmp_path / "bad.csv"
    path.write_bytes(HEADER + FIRST + b"bad,3\ntoo,many,cells\n" + SECOND)
    with opened(path) as descriptor, BadLines(str(kept)) as bad:
        rows = rows_of(Log(descriptor, RowReader(AGREEMENT, bad=bad), "csv"))
    assert (rows, rows.numbers) == ([("a", "1"), ("b", "2"), ("c\nd", "3"), ("e", "4")], [2, 3, 6, 7])
    assert kept.read_bytes() == HEADER + b"bad,3\ntoo,many,cells\n"
    assert str(bad) == f"2 bad lines left out, kept in {kept}, secret"
