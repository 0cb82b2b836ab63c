"""Many files as one log: however its lines are cut into files, and however often it is resumed, each is read once."""

import json
import os
import threading
from pathlib import Path
from typing import Any, BinaryIO, Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsketch import Agreement, CountSketch
from streamsketch.errors import InvalidInputError
from streamsketch.intake import BadLines, RowReader
from streamsketch.intake.daily import DailyFiles, is_pattern
from streamsketch.intake.log import Log
from streamsketch.intake.rotation import LostLogError

AGREEMENT = Agreement(CountSketch(sketch_dim=16, seed=7), index="item", value="sold", missing="drop")


class Reading:
    """Reads files, as a process that may end between two pieces does."""

    def __init__(self, pattern: Path, form: str = "csv") -> None:
        self.pattern, self.form, self.rows = pattern, form, list[tuple[str, str]]()
        self.position: dict[str, Any] | None = None
        self.bad, self.lost = 0, list[str]()

    def run(self, *, accepts_loss: bool = False, pieces: int | None = None) -> None:
        """Read what is there, or some pieces of it, and save the position."""
        bad = BadLines("skip")

        def log_of(file: BinaryIO, name: str, position: dict[str, Any] | None) -> Log:
            return Log(file, RowReader(AGREEMENT, bad=bad), self.form, name, position)  # type: ignore[arg-type]

        position = None if self.position is None else json.loads(json.dumps(self.position))
        on_loss = self.lost.append if accepts_loss else None
        with DailyFiles(self.pattern, log_of, position, on_loss=on_loss) as files:
            for number, piece in enumerate(files.pieces()):
                files.read(piece, lambda batch, _: self.add(batch))
                self.position = files.position
                if pieces is not None and number + 1 >= pieces:
                    break
            self.position = files.position
        self.bad += bad.count

    def add(self, batch: Any) -> None:
        self.rows += zip(batch.column("item").to_pylist(), map(str, batch.column("sold").to_pylist()), strict=True)


def write(folder: Path, number: int, rows: range, *, form: str = "csv", end: str = "\n") -> Path:
    path = folder / f"sales-2026-11-{number:02d}.{form}"
    if form == "csv":
        text = "item,sold\n" + "".join(f"item {row},1\n" for row in rows)
    else:
        text = "".join(json.dumps({"item": f"item {row}", "sold": "1"}) + "\n" for row in rows)
    path.write_text(text.removesuffix("\n") + end if rows else text)
    return path


@settings(max_examples=40, deadline=None)
@given(st.data(), st.lists(st.integers(0, 4), min_size=1, max_size=6), st.sampled_from(["csv", "jsonl"]))
def test_each_row_is_read_once_in_the_order_of_names(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, sizes: list[int], form: str
) -> None:
    folder = tmp_path_factory.mktemp("daily")
    reading, first = Reading(folder / f"sales-*.{form}", form), 0
    (folder / "other.txt").write_text("item,sold\nno,1\n")
    for number, size in enumerate(sizes):
        write(folder, number, range(first, first + size), form=form)
        first += size
        if data.draw(st.booleans()):
            reading.run(pieces=data.draw(st.sampled_from([None, 1])))
    reading.run()
    reading.run()
    assert [item for item, _ in reading.rows] == [f"item {row}" for row in range(first)]
    assert reading.bad == 0


def test_lines_that_are_appended_are_read_where_the_file_was_left(tmp_path: Path) -> None:
    reading = Reading(tmp_path / "sales-*.csv")
    path = write(tmp_path, 1, range(2))
    reading.run()
    with path.open("a") as file:
        file.write("item 2,1\nitem 3,")
    reading.run()
    assert len(reading.rows) == 3
    with path.open("a") as file:
        file.write("1\n")
    write(tmp_path, 2, range(4, 6))
    reading.run()
    assert [item for item, _ in reading.rows] == [f"item {row}" for row in range(6)]


def test_an_unfinished_line_before_another_file_is_a_bad_line(tmp_path: Path) -> None:
    write(tmp_path, 1, range(2), end="")
    write(tmp_path, 2, range(2, 3))
    reading = Reading(tmp_path / "sales-*.csv")
    reading.run()
    assert ([item for item, _ in reading.rows], reading.bad) == (["item 0", "item 2"], 1)


def test_a_file_among_those_that_were_read_is_refused(tmp_path: Path) -> None:
    write(tmp_path, 2, range(2))
    reading = Reading(tmp_path / "sales-*.csv")
    reading.run()
    late = write(tmp_path, 1, range(2, 3))
    with pytest.raises(InvalidInputError, match="would be late"):
        reading.run()
    late.unlink()
    reading.run()
    assert len(reading.rows) == 2


def test_files_that_were_read_may_go_but_not_the_last(tmp_path: Path) -> None:
    first, second = write(tmp_path, 1, range(2)), write(tmp_path, 2, range(2, 4))
    reading = Reading(tmp_path / "sales-*.csv")
    reading.run()
    first.unlink()
    write(tmp_path, 3, range(4, 5))
    before = dict(reading.position or {})
    second.unlink()
    with pytest.raises(LostLogError, match="gone"):
        reading.run()
    assert reading.position == before
    reading.run(accepts_loss=True)
    assert len(reading.lost) == 1
    assert [item for item, _ in reading.rows] == [f"item {row}" for row in range(5)]


def test_a_file_that_was_replaced_is_lost(tmp_path: Path) -> None:
    write(tmp_path, 1, range(2))
    reading = Reading(tmp_path / "sales-*.csv")
    reading.run()
    write(tmp_path, 1, range(7, 9))
    with pytest.raises(LostLogError):
        reading.run()


@pytest.mark.parametrize(
    "position", [{}, {"bytes": 1}, {"files": ["../x"], "name": "a", "log": {}}, {"files": [], "name": 1, "log": {}}]
)
def test_positions_of_other_logs_are_refused(tmp_path: Path, position: dict[str, Any]) -> None:
    write(tmp_path, 1, range(2))
    reading = Reading(tmp_path / "sales-*.csv")
    reading.position = position
    with pytest.raises(InvalidInputError, match="position"):
        reading.run()


def test_no_file_is_an_error_that_speaks_of_quotes(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="in quotes"):
        Reading(tmp_path / "sales-*.csv").run()


def test_following_waits_for_lines_and_for_files(tmp_path: Path) -> None:
    path = write(tmp_path, 1, range(2))
    stop, found = Waking(), list[str]()

    def log_of(file: BinaryIO, name: str, position: dict[str, Any] | None) -> Log:
        return Log(file, RowReader(AGREEMENT, bad=BadLines("skip")), "csv", name, position)

    def go_on() -> None:
        if len(found) == 2:
            with path.open("a") as file:
                file.write("item 2,1\n")
        elif len(found) == 3:
            write(tmp_path, 2, range(3, 4))
        elif len(found) == 4:
            stop.set()

    with stop, DailyFiles(tmp_path / "sales-*.csv", log_of, look=0.01) as files:
        for piece in files.pieces(follow=True, stop=stop, wait=lambda: 0):
            files.read(piece, lambda batch, _: found.extend(batch.column("item").to_pylist()))
            go_on()
    assert found == [f"item {row}" for row in range(4)]


class Waking:
    """A request to stop, as of a signal."""

    def __enter__(self) -> Self:
        self.wakes, self._end = os.pipe()
        self._set = threading.Event()
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.wakes)
        os.close(self._end)

    def set(self) -> None:
        self._set.set()
        os.write(self._end, b"x")

    def is_set(self) -> bool:
        return self._set.is_set()


def test_patterns_are_in_the_last_part_of_a_path(tmp_path: Path) -> None:
    assert is_pattern(tmp_path / "sales-*.csv")
    assert not is_pattern(Path("logs*/sales.csv"))
    (tmp_path / "sales[1].csv").touch()
    assert not is_pattern(tmp_path / "sales[1].csv")  # as browsers name a second download


class Writing:
    """Is asked whether to stop, and at the n-th time a writer appends to the first file and begins the second."""

    wakes = 0

    def __init__(self, folder: Path, place: int, rows: int = 1) -> None:
        self.folder, self.left, self.rows, self.is_wanted = folder, place, rows, False

    def is_set(self) -> bool:
        self.left -= 1
        if self.left == 0:
            last = 2 + self.rows
            with (self.folder / "sales-2026-11-01.csv").open("a") as file:
                file.write("".join(f"item {row},1\n" for row in range(2, last)))
            write(self.folder, 2, range(last, last + 1))
        return self.is_wanted


@pytest.mark.parametrize("place", range(1, 7))
def test_what_is_written_before_the_next_file_is_begun_is_read(place: int, tmp_path: Path) -> None:
    """Whenever it is written: the end of a file was seen, and then it grew."""
    write(tmp_path, 1, range(2))
    found = list[str]()

    def log_of(file: BinaryIO, name: str, position: dict[str, Any] | None) -> Log:
        return Log(file, RowReader(AGREEMENT, bad=BadLines("skip")), "csv", name, position)

    stop, position = Writing(tmp_path, place), None
    for _ in range(2):
        with DailyFiles(tmp_path / "sales-*.csv", log_of, position) as files:
            for piece in files.pieces(stop=stop):
                files.read(piece, lambda batch, _: found.extend(batch.column("item").to_pylist()))
            position = files.position
    assert stop.left <= 0
    assert found == [f"item {row}" for row in range(4)]


@pytest.mark.parametrize("place", range(1, 7))
def test_a_stop_within_a_file_goes_on_there(place: int, tmp_path: Path) -> None:
    """Also if the next file is there: the signal comes behind the first piece of what was appended."""
    many = (3 << 20) // len("item 100000,1\n")  # several pieces
    write(tmp_path, 1, range(2))
    found, stop = list[str](), Writing(tmp_path, place, rows=many)

    def log_of(file: BinaryIO, name: str, position: dict[str, Any] | None) -> Log:
        return Log(file, RowReader(AGREEMENT, bad=BadLines("skip")), "csv", name, position)

    position = None
    for _ in range(8):  # a piece each
        with DailyFiles(tmp_path / "sales-*.csv", log_of, position) as files:
            for piece in files.pieces(stop=stop):
                files.read(piece, lambda batch, _: found.extend(batch.column("item").to_pylist()))
                stop.is_wanted = len(found) > 2
            position, stop.is_wanted = files.position, False
    assert stop.left <= 0
    assert found == [f"item {row}" for row in range(3 + many)]
