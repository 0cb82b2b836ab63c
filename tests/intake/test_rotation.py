"""Logs that are rotated: read on through every way of it, and no row twice or in silence lost."""

import gzip
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.intake import BadLines, Log, RowReader, rotation
from streamsketch.intake import log as log_module
from streamsketch.intake.rotation import LostLogError
from tests.intake.logs import (
    AGREEMENT,
    FIRST,
    HEADER,
    READER,
    Rotating,
    Rows,
    eager,
    numbers_of,
    opened,
    read_on,
    rows_of,
)


@pytest.mark.parametrize("how", ["renamed", "copied", "dated", "compressed"])
@pytest.mark.parametrize("rotations", [[2], [2, 3], [0, 0, 4], [1, 0, 3]])
def test_rotated_files_are_read_on_in_their_order_after_a_pause(how: str, rotations: list[int], tmp_path: Path) -> None:
    written = Rotating(tmp_path)
    written.write(3)
    with opened(written.path) as descriptor, Log(descriptor, READER, "jsonl", path=written.path) as log:
        rows = rows_of(log)
        position = json.loads(json.dumps(log.position))
    written.write(1)
    for more in rotations:
        written.rotate(how if written.path.stat().st_size else "renamed" if how == "compressed" else how)
        written.write(more)
    for _ in range(2):  # the second one has nothing left to read
        with (
            opened(written.path) as descriptor,
            Log(descriptor, READER, "jsonl", position=position, path=written.path) as log,
        ):
            rows += rows_of(log)
            position = log.position
    assert numbers_of(rows) == list(range(written.count))


@pytest.mark.parametrize("seed", range(8))
def test_a_log_is_followed_through_rotation_and_restarts(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "BLOCK_BYTES", 64)
    written, rows, bits = Rotating(tmp_path), Rows(), random.Random(seed)  # noqa: S311 - a test's data
    how, position = ["renamed", "copied", "compressed"][seed % 3], None
    written.write(1)
    for _ in range(4):
        with (
            opened(written.path) as descriptor,
            eager(descriptor, READER, "jsonl", position=position, path=written.path) as log,
        ):
            position = log.position
            for piece in log.pieces(follow=True, wait=lambda: 0):
                log.read(piece, rows.add)
                if not piece and bits.random() < 0.3:  # all is read, and the next row is unfinished or there is none
                    break
                if bits.random() < 0.3:
                    written.write(bits.randrange(4))
                if bits.random() < 0.3 and written.path.stat().st_size:
                    written.rotate(how)
            position = json.loads(json.dumps(log.position))
        written.write(bits.randrange(4))  # while nobody reads
        if written.path.stat().st_size:
            written.rotate(how)
    with (
        opened(written.path) as descriptor,
        eager(descriptor, READER, "jsonl", position=position, path=written.path) as log,
    ):
        rows += rows_of(log)
    assert numbers_of(rows) == list(range(written.count))


def test_a_csv_file_goes_on_with_a_header_or_a_row(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(HEADER + FIRST)
    with opened(path) as descriptor, Log(descriptor, READER, "csv", path=path) as log:
        rows_of(log)
        position = log.position
    for number, content in ((3, None), (2, HEADER + b"c,3\n"), (1, b"n,item\n4,d\n"), (0, b"5,e\n")):
        if content is None:
            path.rename(tmp_path / "log.csv.3")
        else:
            (tmp_path / f"log.csv.{number}" if number else path).write_bytes(content)
    with opened(path) as descriptor, Log(descriptor, READER, "csv", position=position, path=path) as log:
        assert rows_of(log) == [("c", "3"), ("d", "4"), ("e", "5")]


@pytest.mark.parametrize("first", [b"item,1\n", b"a,n\n", b"n;item\n"])
def test_a_row_that_names_a_column_is_no_header(first: bytes, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(HEADER + FIRST)
    with opened(path) as descriptor, Log(descriptor, READER, "csv", path=path) as log:
        rows_of(log)
        path.rename(tmp_path / "log.csv.1")
        path.write_bytes(first + b"e,5\n")
        assert list(log.pieces()) == [first + b"e,5\n"]


@pytest.mark.parametrize("header", [b"secret,c1\n", b"item,c1\n", b"secret;c1\n"])
def test_a_first_line_that_is_no_header_is_quoted_nowhere(header: bytes, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(header + FIRST)
    refused = pytest.raises(ss.InvalidInputError, match=r"has (no column|one column only)")
    with opened(path) as descriptor, Log(descriptor, READER, "csv", path=path) as log, refused as caught:
        rows_of(log)
    assert "secret" not in str(caught.value)
    assert "c1" not in str(caught.value)


@pytest.mark.parametrize("accepted", [False, True])
def test_a_file_that_is_gone_is_an_error_or_an_accepted_loss(accepted: bool, tmp_path: Path) -> None:  # noqa: FBT001
    written, losses = Rotating(tmp_path), list[str]()
    written.write(3)
    with opened(written.path) as descriptor, Log(descriptor, READER, "jsonl", path=written.path) as log:
        position = (rows_of(log), log.position)[1]
    for _ in range(3):
        written.write(1)
        written.rotate("renamed")
    written.write(2)
    options: dict[str, Any] = {"path": written.path, "on_loss": losses.append if accepted else None}
    for missing in ("log.jsonl.2", "log.jsonl.3"):
        (tmp_path / missing).unlink()
        with opened(written.path) as descriptor:
            if not accepted:
                with pytest.raises(
                    LostLogError, match=r"number 2 is missing|none of its rotated files \(log.jsonl.1\)"
                ):
                    Log(descriptor, READER, "jsonl", position=position, **options)
                continue
            with Log(descriptor, READER, "jsonl", position=position, **options) as log:
                assert numbers_of(rows_of(log)) == [6, 7]
    assert len(losses) == 2 * accepted
    assert all("is lost" in text for text in losses)


def test_a_cut_file_without_a_copy_never_brings_rows_twice(tmp_path: Path) -> None:
    written, losses, rows = Rotating(tmp_path), list[str](), Rows()
    written.write(5)
    with (
        opened(written.path) as descriptor,
        eager(descriptor, READER, "jsonl", path=written.path, on_loss=losses.append) as log,
    ):
        for piece in log.pieces(follow=True, wait=lambda: 0):
            log.read(piece, rows.add)
            if piece and len(rows) == 5:
                os.truncate(written.path, 0)
                written.write(7)  # longer than what was read
            if len(rows) == 12:
                break
        position = log.position
    assert numbers_of(rows) == list(range(12))
    assert len(losses) == 1
    written.path.write_bytes(written.path.read_bytes()[:-9] + b"\n")  # shorter, and with rows that were read
    with opened(written.path) as descriptor, pytest.raises(ss.InvalidInputError, match="would be read twice"):
        eager(descriptor, READER, "jsonl", position=position, path=written.path, on_loss=losses.append)


def test_rotated_files_of_unknown_order_and_unfinished_lines_are_refused(tmp_path: Path) -> None:
    written = Rotating(tmp_path)
    written.write(1)
    with opened(written.path) as descriptor, eager(descriptor, READER, "jsonl", path=written.path) as log:
        position = (rows_of(log), log.position)[1]
    with written.path.open("a") as file:
        file.write('{"item"')
    written.rotate("renamed")
    written.write(1)
    with opened(written.path) as descriptor:
        with (
            eager(descriptor, READER, "jsonl", position=position, path=written.path) as log,
            pytest.raises(ss.InvalidInputError, match=r"log.jsonl.1 was rotated, and its last line is incomplete"),
        ):
            rows_of(log)
        reader = RowReader(AGREEMENT, bad=(bad := BadLines("skip")))
        with eager(descriptor, reader, "jsonl", position=position, path=written.path) as log:
            assert (numbers_of(rows_of(log)), bad.count) == ([1], 1)
        (tmp_path / "log-20261122.jsonl").touch()
        with pytest.raises(ss.InvalidInputError, match="by numbers and by dates"):
            eager(descriptor, READER, "jsonl", position=position, path=written.path)


@pytest.mark.parametrize("how", ["renamed", "copied", "dated"])
@pytest.mark.parametrize("opens_first", [False, True])
@pytest.mark.parametrize("times", [1, 2])
def test_a_file_that_is_rotated_while_it_is_opened_is_read(
    how: str,
    opens_first: bool,  # noqa: FBT001
    times: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written, rows, left = Rotating(tmp_path), Rows(), [3 * times, 2 * times]
    written.write(2)

    def rotate() -> None:
        for _ in range(times if left else 0):
            written.rotate(how)
            written.write(left[0])
        del left[:1]

    def open_again(path: Path, one: rotation.LogFile) -> tuple[rotation.Opened, Path]:
        if opens_first:
            found = rotation.open_again(path, one)
            rotate()
            return found
        rotate()
        return rotation.open_again(path, one)

    with opened(written.path) as descriptor, eager(descriptor, READER, "jsonl", path=written.path) as log:
        pieces = log.pieces(follow=True, wait=lambda: 0)
        log.read(next(pieces), rows.add)
        monkeypatch.setattr(log_module, "open_again", open_again)
        written.write(1)
        written.rotate(how)
        written.write(1)
        for piece, _ in zip(pieces, range(20), strict=False):
            log.read(piece, rows.add)
    assert not left
    assert numbers_of(rows) == list(range(written.count))


@pytest.mark.parametrize("how", ["renamed", "copied", "compressed"])
@pytest.mark.parametrize("older", [0, 2])
@pytest.mark.parametrize("begun", ["", '{"item": "a", '])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_file_that_is_rotated_before_anything_was_read_of_it_is_read(
    how: str,
    older: int,
    begun: str,
    restarts: bool,  # noqa: FBT001
    tmp_path: Path,
) -> None:
    written, rows, kept = Rotating(tmp_path), Rows(), None
    for _ in range(older):  # before the log is read for the first time
        written.write(1)
        written.rotate("renamed")

    def unfinished() -> None:
        with written.path.open("a") as file:
            file.write(begun)

    def finish() -> None:
        with written.path.open("a") as file:
            file.write(f'"n": {written.count}}}\n' if begun else "")
        written.count += bool(begun)
        written.write(2)

    unfinished()
    for _ in range(3):
        with (
            opened(written.path) as descriptor,
            eager(descriptor, READER, "jsonl", position=kept, path=written.path) as log,
        ):
            pieces = log.pieces(follow=True, wait=lambda: 0)
            for _ in range(1 if restarts else 3):
                for piece, _ in zip(pieces, range(6), strict=False):
                    log.read(piece, rows.add)
                finish()
                written.rotate(how)
                unfinished()
            if not restarts:
                for piece, _ in zip(pieces, range(12), strict=False):
                    log.read(piece, rows.add)
            kept = json.loads(json.dumps(log.position))
    finish()
    with (
        opened(written.path) as descriptor,
        eager(descriptor, READER, "jsonl", position=kept, path=written.path) as log,
    ):
        rows += rows_of(log)
    assert numbers_of(rows) == list(range(older, written.count))


def test_a_position_before_the_first_byte_needs_the_file_before_or_its_own(tmp_path: Path) -> None:
    written = Rotating(tmp_path)
    written.write(1)
    written.rotate("renamed")
    with opened(written.path) as descriptor, Log(descriptor, READER, "jsonl", path=written.path) as log:
        position = (rows_of(log), log.position)[1]
    written.write(1)
    (tmp_path / "log.jsonl.1").unlink()
    with opened(written.path) as descriptor, pytest.raises(LostLogError, match=r"is not the log|bytes?, but"):
        Log(descriptor, READER, "jsonl", position=position, path=written.path)
    written.rotate("renamed")
    written.write(1)
    with (
        opened(written.path) as descriptor,
        Log(descriptor, READER, "jsonl", position=position, path=written.path) as log,
    ):
        assert numbers_of(rows_of(log)) == [1, 2]


def test_a_file_of_which_nothing_was_read_is_not_taken_for_another(tmp_path: Path) -> None:
    written = Rotating(tmp_path)
    with opened(written.path) as descriptor, Log(descriptor, READER, "jsonl", path=written.path) as log:
        position = (rows_of(log), log.position)[1]
    written.write(1)
    with opened(written.path):  # so that the new file gets another inode
        written.rotate("compressed")
    written.write(1)
    with opened(written.path) as descriptor:
        with Log(descriptor, READER, "jsonl", position=position, path=written.path) as log:
            assert numbers_of(rows_of(log)) == [0, 1], "there was no file before"
        del position["after"]  # as if that was not known
        with pytest.raises(LostLogError, match="none of its rotated files"):
            Log(descriptor, READER, "jsonl", position=position, path=written.path)


def test_rows_written_to_the_old_file_after_the_new_one_was_begun_are_an_error(tmp_path: Path) -> None:
    written = Rotating(tmp_path)
    written.write(1)
    with (
        written.path.open("a") as late,
        opened(written.path) as descriptor,
        eager(descriptor, READER, "jsonl", path=written.path) as log,
    ):
        written.rotate("renamed")
        written.write(1)
        pieces = log.pieces(follow=True, wait=lambda: 0)
        assert next(pieces)
        assert next(pieces)
        late.write("{}\n")
        late.flush()
        with pytest.raises(ss.InvalidInputError, match="3 bytes were written to the previous file"):
            next(pieces)


def test_what_is_written_to_the_old_file_until_the_new_one_is_begun_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = Rotating(tmp_path)
    written.write(1)
    with (
        written.path.open("a") as old,
        opened(written.path) as descriptor,
        Log(descriptor, READER, "jsonl", path=written.path) as log,
    ):
        written.rotate("renamed")
        written.write(1)

        def chain(path: Path, position: dict[str, Any]) -> list[rotation.LogFile]:
            if not old.closed:  # the last write of the old file's writer, while the new one is looked for
                old.write('{"item": "a", "n": 9}\n')
                old.close()
            return rotation.chain(path, position)

        monkeypatch.setattr(log_module, "chain", chain)
        assert numbers_of(rows_of(log)) == [0, 9, 1]


@pytest.mark.parametrize("how", ["compressed", "copied"])
@pytest.mark.parametrize("follows", [False, True])
def test_a_file_of_which_only_the_header_was_read_is_not_taken_for_another(
    how: str,
    follows: bool,  # noqa: FBT001
    tmp_path: Path,
) -> None:
    """Every file of the log begins with that header."""
    path, found = tmp_path / "log.csv", Rows()
    path.write_text("item,n\n")

    def rotate() -> None:
        with path.open("a") as file:
            file.writelines(f"a,{number}\n" for number in range(100))
        if how == "copied":
            shutil.copy(path, tmp_path / "log.csv.1")
            os.truncate(path, 0)
        else:
            with gzip.open(tmp_path / "log.csv.1.gz", "wb") as file:
                file.write(path.read_bytes())
            path.rename(tmp_path / "kept")  # so that the new file gets another inode
        with path.open("a") as file:
            file.write("item,n\na,100\n")

    if follows:
        with opened(path) as descriptor, eager(descriptor, READER, "csv", path=path) as log:
            pieces = log.pieces(follow=True, wait=lambda: 0)
            log.read(next(pieces), found.add)
            rotate()
            for piece, _ in zip(pieces, range(20), strict=False):
                log.read(piece, found.add)
        assert numbers_of(found) == list(range(101))
        return
    _, position = read_on(path, "csv")
    rotate()
    assert read_on(path, "csv", position)[0] == list(range(101))


def test_rotated_files_that_were_deleted_before_anything_was_read_are_an_error(tmp_path: Path) -> None:
    written = Rotating(tmp_path)
    _, position = read_on(written.path)
    for _ in range(4):  # of which two are kept
        written.write(1)
        written.rotate("renamed")
        (tmp_path / "log.jsonl.3").unlink(missing_ok=True)
    written.write(1)
    with pytest.raises(LostLogError, match="rotated before anything was read of it"):
        read_on(written.path, position=position)


@pytest.mark.parametrize("step", ["while it is opened", "between two renames", "before the new file is made"])
def test_a_file_whose_predecessor_is_removed_or_renamed_meanwhile_is_read(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, rows, left = Rotating(tmp_path), Rows(), [1]
    written.write(1)

    def open_again(path: Path, one: rotation.LogFile) -> tuple[rotation.Opened, Path]:
        if left:
            left.clear()
            if step == "while it is opened":  # by a handler that keeps one file
                (tmp_path / "log.jsonl.1").unlink()
                written.rotate("renamed")
            elif step == "between two renames":
                (tmp_path / "log.jsonl.1").rename(tmp_path / "log.jsonl.2")
            else:
                written.path.rename(written.shift(""))
        return rotation.open_again(path, one)

    with opened(written.path) as descriptor, eager(descriptor, READER, "jsonl", path=written.path) as log:
        pieces = log.pieces(follow=True, wait=lambda: 0)
        log.read(next(pieces), rows.add)
        written.rotate("renamed")
        written.write(1)
        monkeypatch.setattr(log_module, "open_again", open_again)
        for count, piece in enumerate(pieces):
            log.read(piece, rows.add)
            if count == 1 and step == "between two renames":
                written.path.rename(tmp_path / "log.jsonl.1")
            if count == 1:
                written.write(1)
            if count == 20:
                break
    assert numbers_of(rows) == list(range(written.count))


def test_a_file_that_was_read_and_put_back_is_not_read_twice(tmp_path: Path) -> None:
    written = Rotating(tmp_path)
    written.write(2)
    _, position = read_on(written.path)
    written.rotate("renamed")
    written.path.write_text('{"item"')
    found, position = read_on(written.path, position=position)
    assert (found, position["bytes"]) == ([], 0)
    (tmp_path / "log.jsonl.1").rename(written.path)
    with pytest.raises(LostLogError, match="put the newer file back"):
        read_on(written.path, position=position)
    with pytest.raises(ss.InvalidInputError, match="would be read twice"):
        read_on(written.path, position=position, on_loss=lambda _: None)


def test_an_open_quote_at_the_end_of_a_rotated_file_costs_its_own_row_alone(tmp_path: Path) -> None:
    path, reader = tmp_path / "log.csv", RowReader(AGREEMENT, bad=(bad := BadLines("skip")))
    path.write_text("item,n\na,0\n" + '"a,1\n' + "".join(f"a,{number}\n" for number in range(2, 50)))
    first, position = read_on(path, "csv", reader=reader)
    path.rename(tmp_path / "log.csv.1")
    path.write_text("item,n\na,50\n")
    second, _ = read_on(path, "csv", position, reader=reader)
    assert (first + second, bad.count) == ([0, *range(2, 51)], 1)


def test_what_was_written_to_the_old_file_meanwhile_is_an_error_after_a_restart_or_an_accepted_loss(
    tmp_path: Path,
) -> None:
    written, losses = Rotating(tmp_path), list[str]()
    written.write(1)
    _, position = read_on(written.path)
    written.rotate("renamed")
    written.write(1)
    _, position = read_on(written.path, position=position)
    with (tmp_path / "log.jsonl.1").open("a") as late:
        late.write("{}\n")
    written.write(1)
    with pytest.raises(LostLogError, match="3 bytes were written to the previous file"):
        read_on(written.path, position=position)
    found, position = read_on(written.path, position=position, on_loss=losses.append)
    assert (found, len(losses)) == ([2], 1)
    assert read_on(written.path, position=position)[0] == []
