"""Follow a growing log, and resume reading it from a saved position."""

import codecs
import os
import select
import stat
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self

from streamsketch.core.documents import Json
from streamsketch.data.readers.rows import LONGEST_ROW
from streamsketch.errors import InvalidInputError
from streamsketch.intake.files import RowReader
from streamsketch.intake.framing import ONE_LINE
from streamsketch.intake.lines import BLOCK_BYTES, Add, LineFormat, Stop, pipe_blocks
from streamsketch.intake.rotation import (
    KNOWN_BY,
    LogFile,
    LostLogError,
    Opened,
    chain,
    digest,
    end_of_newest,
    grown_after,
    holds,
    identity,
    identity_at,
    open_again,
    open_rotated,
    size_of,
    unread,
)

_LOOK = 0.2  # seconds between checks of a file that has not grown
_TRIES = 5  # how often a file is looked for, as a rotation renames several one after the other


class _Next(NamedTuple):
    """The file to go on with.

    It is one of four: the next file; a copy of this one, to read from the same position; an earlier file, of which no
    row was read; or the file at the log's path, if the others are lost.
    """

    file: LogFile | None
    is_copy: bool = False
    was_missed: bool = False
    lost: str = ""

    @property
    def follows(self) -> bool:
        """Whether it is the next one."""
        return not (self.is_copy or self.was_missed or self.lost)


class Log:
    r"""A growing file or pipe of CSV or JSON lines, read in whole lines.

    `position` records how far the log was read, and a later `Log` can resume there. A file is then read from that
    offset on. A pipe must deliver the log from its beginning again; what was read before is skipped. In both cases, the
    first and last bytes that were read before identify the log. As long as no row of a file was read, the end of the
    file before it does: a file that was copied and truncated meanwhile is found after that one.

    A newline always ends a row, in CSV also within quotes: no file of a log need begin with a row, and what one row
    holds cannot decide where others begin. So cells with line breaks need JSON lines, and releases of CSV logs state a
    condition (`conditions`).

    A log with a path is followed through rotation. Once another file that has bytes is at the path, the old file is
    read to its end, then all files into which the log was rotated since (`rotation.rotated`), then the new one. If a
    file was copied and truncated (``copytruncate``), the rest of the copy is read, then the file from its beginning. A
    CSV file that continues the log may begin with a header line or with a row.

    Parameters
    ----------
    source
        A binary file open for reading, or its file descriptor.
    reader
        The `RowReader` that reads the rows.
    form
        ``"csv"``, with a header line, or ``"jsonl"``.
    name
        Name of the log in error messages.
    position
        The `position` of an earlier `Log`, to resume from.
    path
        Path of the file, to follow it through rotation. Without it, a file that replaces this one is not read.
    on_loss
        A function that is called with a message if what was read last no longer exists. The log is then read from the
        beginning of the file at ``path``. Without a function, this is an error.
    longest
        Bytes of the longest line. A longer one is bad, and is left out up to its newline.
    look
        Seconds between checks of a file that has not grown.

    Raises
    ------
    LostLogError
        If this file is not the one that was read before, and the earlier one is not among the rotated files. For a
        pipe, `pieces` raises this error.
    InvalidInputError
        If the position is not valid, or the order of rotated files is unknown.

    Examples
    --------
    Add the rows of a log to a sketch, and later those written since:

    >>> from streamsketch import Agreement, CountSketch, Sketch
    >>> from streamsketch.intake import BadLines
    >>> agreement = Agreement(CountSketch(sketch_dim=64, seed=7), index="item", missing="drop")
    >>> reader, sketch = RowReader(agreement, bad=BadLines("skip")), Sketch(agreement)
    >>> path = getfixture("tmp_path") / "log.csv"
    >>> _ = path.write_text("item\nmilk\npears\n")
    >>> with path.open("rb") as file:
    ...     log = Log(file, reader, "csv")
    ...     for piece in log.pieces():
    ...         log.read(piece, lambda batch, first: sketch.update_rows(batch))
    >>> with path.open("a") as file:
    ...     _ = file.write("milk\n")
    >>> with path.open("rb") as file:
    ...     log = Log(file, reader, "csv", position=log.position)
    ...     for piece in log.pieces():
    ...         log.read(piece, lambda batch, first: sketch.update_rows(batch))
    >>> sketch.mass
    3
    """

    def __init__(  # noqa: PLR0913 - keyword-only where there are many
        self,
        source: BinaryIO | int,
        reader: RowReader,
        form: LineFormat,
        name: str = "the log",
        position: Json | None = None,
        *,
        path: Path | None = None,
        on_loss: Callable[[str], None] | None = None,
        longest: int = LONGEST_ROW,
        look: float = _LOOK,
    ) -> None:
        self._descriptor = source if isinstance(source, int) else source.fileno()
        self._name, self._position, self._path, self._on_loss, self._look = name, position, path, on_loss, look
        reader.check_utf8(name)
        self._lines, self._block_bytes = reader.lines(name, form, longest=longest), reader.block_bytes
        self.conditions: tuple[str, ...] = (ONE_LINE,) if form == "csv" else ()
        """Conditions under which rows of one unit are only its own, as in `Guarantee`."""
        self._lines.mark = self._mark
        status = os.fstat(self._descriptor)
        self.is_file = stat.S_ISREG(status.st_mode)
        """Whether it is a regular file, which can grow after its end was read."""
        self._consumed, self._head, self._tail, self._last, self._read_to = 0, b"", b"", b"", 0
        self._left: tuple[FileIO, int] | None = None  # the file before this one, and its size then
        self._next: _Next | None = None
        self._missed = 0
        # the end of the file before this one: empty if this is the first of the log, None if that is not known
        self._before: Json | None = None
        if self.is_file:
            self._file: Opened = FileIO(self._descriptor, closefd=False)
            self._identity = identity(status)
        if position is None:
            if self.is_file and not _has_row(os.pread(self._descriptor, KNOWN_BY, 0), form):
                self._before = self._end_before()
            return
        if not _is_position(position):
            raise InvalidInputError(
                "the saved position does not record how far the log was read; restore the state from a backup"
            )
        if self.is_file:
            try:
                self._resume(position)
            except BaseException:
                self.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files that the log opened. The given file stays open."""
        if self.is_file:
            self._file.close()
        if self._left is not None:
            self._left[0].close()

    @property
    def position(self) -> Json:
        """How far the log was read, as a dictionary that JSON can hold. Secret."""
        if self._position is not None:
            return self._position
        own = self._own_position
        if self._before is None:
            return own
        if self._is_unread:  # a header may be in every file
            none = digest(b"")
            own |= {"bytes": 0, "line": 1, "head": none, "tail": none, "row": ""}
        return own | {"after": self._before}

    @property
    def _is_unread(self) -> bool:
        """Whether no row of this file was read."""
        header = self._lines.position[1]
        read = self._head.removeprefix(codecs.BOM_UTF8).strip()
        return self._consumed == len(self._head) and read in (b"", header.strip())

    @property
    def _own_position(self) -> Json:
        """The position, without the file before this one."""
        number, header = self._lines.position
        ends = {"head": digest(self._head), "tail": digest(self._tail), "row": _first_row(self._head, header)}
        file = {"file": self._identity} if self.is_file else {}
        inside = {"inside": True} if self._lines.is_inside else {}
        return {"bytes": self._consumed, "line": number, "header": header.hex(), **inside, **ends, **file}

    def pieces(
        self, *, follow: bool = False, stop: Stop | None = None, wait: Callable[[], float | None] = lambda: None
    ) -> Iterator[bytes]:
        """Yield whole lines as they arrive, for `read`; empty bytes after ``wait()`` seconds without lines.

        An unfinished line is not read, even at the end of the log. At the end of a rotated file it counts as a bad
        line.

        Parameters
        ----------
        follow
            Whether to wait for a file to grow; a pipe is always read until it ends.
        stop
            A request to stop, which ends the reading.
        wait
            A function that returns how many seconds to wait for lines, or None to wait for ever.

        Raises
        ------
        InvalidInputError
            If a file has become shorter or was replaced, and what was read last is not among the rotated files; if a
            pipe does not deliver the log that was read before; or if a CSV log ends without a header line.
        """
        if not self.is_file:
            yield from self._lines.pieces(self._pipe_blocks(stop, wait))
            return
        while True:
            yield from self._lines.pieces(self._file_blocks(stop, wait, follow=follow))
            if self._next is None:
                return
            if self._next.follows:
                yield from self._rest()
            self._advance(self._next)

    def read(self, piece: bytes, add: Add) -> None:
        """Pass the rows of a piece to ``add`` in batches, without bad lines; see `RowReader.read`."""
        self._lines.read(piece, add)

    def _mark(self, data: bytes) -> None:
        """Record bytes that were read: how many, and the first and last of them."""
        self._consumed += len(data)
        self._head = (self._head + data[:KNOWN_BY])[:KNOWN_BY]
        self._tail = data[-KNOWN_BY:] if len(data) >= KNOWN_BY else (self._tail + data)[-KNOWN_BY:]

    def _resume(self, position: Json) -> None:
        """Find the file in which a position is, and go to it."""
        try:
            ends = self._opened(position)
        except LostLogError:
            if self._path is not None:
                select.select([], [], [], self._look)  # a rotation renames several files, one after the other
            try:
                ends = self._opened(position)
            except LostLogError as error:
                self._begin_at_path(position, str(error))
                return
        self._head, self._tail = ends
        self._consumed, self._last, self._read_to = position["bytes"], self._tail, position["bytes"]
        self._file.seek(self._consumed)
        self._go_on_lines(position)
        self._position, self._before = None, position.get("after")
        if self._path is not None and self._before and (grown := grown_after(self._path, self._before)) > 0:
            if self._on_loss is None:
                raise LostLogError(self._grown(grown))
            self._on_loss(self._grown(grown))
            self._before = None  # it is reported once

    def _opened(self, position: Json) -> tuple[bytes, bytes]:
        """Open the file in which a position is; return its first bytes, and the last ones before the position."""
        path = self._path
        if path is not None and position.get("file") is not None:
            is_unread = not position["bytes"] and "after" in position
            first = (unread(path, position) if is_unread else chain(path, position))[0]
            if first.file != self._identity:
                self._open(*open_again(path, first))
        ends = holds(self._file, position)
        if ends is None:
            size, consumed = os.fstat(self._file.fileno()).st_size, position["bytes"]
            raise LostLogError(self._shorter(size, consumed) if size < consumed else self._other)
        return ends

    def _begin_at_path(self, position: Json, why: str) -> None:
        """Begin the log's file from its beginning, if loss is accepted and none of its rows was read before."""
        if self._on_loss is None or self._path is None:
            raise LostLogError(why)
        self._open(open_rotated(self._path), self._path)
        header, after = bytes.fromhex(position["header"]), position.get("after") or {}
        if _first_row(self._file.read(KNOWN_BY) or b"", header) in {position.get("row"), after.get("row")} - {"", None}:
            raise InvalidInputError(
                f"{why}. It begins with a row that was read before, so that row would be read twice"
            )
        self._on_loss(
            f"{self._path} is read from its beginning; what was written to earlier files after byte "
            f"{position['bytes']:,} of the one read last is lost"
        )
        self._begin(header, before=self._end_before())

    def _end_before(self) -> Json | None:
        """Return where the file before this one ends, if this one is at the log's path; None if that is not known."""
        if self._path is None or not self.is_file:
            return None
        before = end_of_newest(self._path)
        return before if identity_at(self._path) == self._identity else None

    def _rest(self) -> Iterator[bytes]:
        """Yield whole lines that were written at the end of a rotated file meanwhile; leave out an unfinished one."""
        self._go_back()
        data: bytes = self._file.read()
        yield from self._lines.pieces(iter([data] if data else []))
        self._refuse_unfinished(data, "was rotated")

    def rest(self, *, stop: Stop | None = None) -> Iterator[bytes]:
        """Yield whole lines that were written to a file since `pieces` ended."""
        self._go_back()
        yield from self.pieces(stop=stop)

    def end(self) -> None:
        """Leave out an unfinished line at the end of a file that does not grow any more: it is a bad line."""
        self._go_back()
        self._refuse_unfinished(self._file.read(), "is followed by another file")

    def _refuse_unfinished(self, data: bytes, why: str) -> None:
        if (rest := data.rpartition(b"\n")[2]) and not self._lines.is_inside:
            self._lines.refuse(rest, f"{self._lines.name} {why}, and its last line is incomplete")

    def _advance(self, to: _Next) -> None:
        """Go on with another file; it is noted before anything of it is read."""
        own, header = self._own_position, self._lines.position[1]
        if to.lost:
            self._begin_at_path(self.position, to.lost)
            return
        path = self._path
        if path is None or to.file is None:
            return
        try:
            file, place = open_again(path, to.file)
        except LostLogError:
            self._go_back()  # and look again
            return
        if to.is_copy and holds(file, own) is None:
            file.close()
        else:
            self._open(file, place, keep=to.follows)
        if to.is_copy:
            self._go_back()
        else:
            self._begin(header, before=own if to.follows else self._before)

    def _go_back(self) -> None:
        """Go to the end of the whole lines that were read."""
        self._file.seek(self._consumed)
        self._last, self._read_to = self._tail, self._consumed

    def _begin(self, header: bytes, before: Json | None) -> None:
        self._file.seek(0)
        self._consumed, self._head, self._tail, self._last, self._read_to = 0, b"", b"", b"", 0
        self._before = before
        self._lines.go_on(1, header)
        self._position = None

    def _open(self, file: Opened, path: Path, *, keep: bool = False) -> None:
        """Read another file from now on; keep this one to see whether it still grows."""
        if self._left is not None:
            self._left[0].close()
            self._left = None
        if isinstance(self._file, FileIO) and keep:
            self._left = self._file, self._file.tell()
        else:
            self._file.close()
        self._file, self._identity = file, identity(os.fstat(file.fileno()))
        self._lines.name = str(path)

    def _was_cut(self) -> bool:
        """Return whether the last bytes that were read of the file are not there any more."""
        if not isinstance(self._file, FileIO):
            return False
        count = len(self._last)
        return os.pread(self._file.fileno(), count, self._read_to - count) != self._last

    def _successor(self) -> _Next | None:
        """Return the file to go on with if this one is not, or not any more, the last file of the log."""
        path, cut = self._path, self._was_cut()
        if path is None:
            if cut:
                raise LostLogError(self._shorter(os.fstat(self._file.fileno()).st_size, self._consumed))
            return None
        position = self.position
        if self._is_unread and "after" in position:
            files = unread(path, position)
            if cut or files[0].file != self._identity:
                return _Next(files[0], was_missed=True)
        else:
            here = identity_at(path)
            if not cut and here in (None, self._identity):  # its writer has not begun another one yet
                self._check_left()
                return None
            files = chain(path, position)
            if cut or files[0].file != self._identity:
                return _Next(files[0], is_copy=True)
        others = files[1:]
        if not others:
            self._check_left()
        # its writer uses a new file once that has bytes
        return None if not others or (others[0].path == path and not size_of(path)) else _Next(others[0])

    def _check_left(self) -> None:
        if self._left is not None and (grown := os.fstat(self._left[0].fileno()).st_size - self._left[1]) > 0:
            raise InvalidInputError(self._grown(grown))

    def _grown(self, grown: int) -> str:
        return (
            f"{self._path} was rotated, and {grown:,} bytes were written to the previous file after the new one was "
            "begun. They are not read. Stop all writers of a log before others write to its new file"
        )

    def _go_on(self, position: Json) -> None:
        """Resume a pipe from a position, after the bytes before it were read."""
        if (digest(self._head), digest(self._tail)) != (position["head"], position["tail"]):
            raise InvalidInputError(self._other)
        self._go_on_lines(position)
        self._position = None

    def _go_on_lines(self, position: Json) -> None:
        header, is_inside = bytes.fromhex(position["header"]), "inside" in position
        self._lines.go_on(position["line"], header, is_inside=is_inside)

    def _pipe_blocks(self, stop: Stop | None, wait: Callable[[], float | None]) -> Iterator[bytes | None]:
        """Yield the blocks of a pipe after the position; no empty one, so that an unfinished last line is not read."""
        if (position := self._position) is not None:
            before = pipe_blocks(self._descriptor, stop)
            while self._consumed < position["bytes"]:
                block = next(before, None)
                if block is None:
                    return  # stopped
                if not block:
                    raise InvalidInputError(self._shorter(self._consumed, position["bytes"]))
                rest = position["bytes"] - self._consumed
                self._mark(block[:rest])
                block = block[rest:]
            self._go_on(position)
            if position["bytes"] and block:
                yield block
        yield from (block for block in pipe_blocks(self._descriptor, stop, wait) if block != b"")

    def _file_blocks(
        self, stop: Stop | None, wait: Callable[[], float | None], *, follow: bool
    ) -> Iterator[bytes | None]:
        """Yield the blocks of a growing file until `_next` is set to the file to go on with.

        No block is empty, so that an unfinished last line is not read.
        """
        self._next, self._missed = None, 0
        while stop is None or not stop.is_set():
            begins, at = self._is_unread, self._file.tell()
            block = b"" if self._was_cut() else self._file.read(self._block_bytes or BLOCK_BYTES)
            successor = self._find_successor() if begins or not block else None
            if begins and self._missed:  # it is not known yet whether it is the file that comes next
                self._file.seek(at)
                block = b""
            if successor is not None and successor.follows:
                block = block or self._file.read(
                    self._block_bytes or BLOCK_BYTES
                )  # written before the next one was begun
            if successor is not None and not (successor.follows and block):
                self._next = successor
                return
            if block:
                self._last, self._read_to = (self._last + block)[-KNOWN_BY:], self._file.tell()
                yield block
                continue
            if not follow and not self._missed:
                return
            left = wait()
            seconds = self._look if left is None else min(self._look, left)
            select.select([] if stop is None else [stop.wakes], [], [], seconds)
            if wait() == 0:
                yield None

    def _find_successor(self) -> _Next | None:
        """Return the file to go on with, once it was looked for often enough; None as long as this is the last one."""
        try:
            successor = self._successor()
        except LostLogError as error:
            self._missed += 1
            if self._missed < _TRIES and self._path is not None:
                return None
            if self._on_loss is None or self._path is None:
                raise
            return _Next(None, lost=str(error))
        self._missed = 0
        return successor

    @property
    def _other(self) -> str:
        return (
            f"{self._name} is not the log that was read before: the bytes at the beginning or the end of what was "
            "read differ. Pass the same log from its beginning, or begin a new state and a new folder"
        )

    def _shorter(self, size: int, consumed: int) -> str:
        return (
            f"{self._name} has {size:,} byte{'' if size == 1 else 's'}, but {consumed:,} were read before: pass the "
            "same log from its beginning, or begin a new state and a new folder"
        )


def _first_row(head: bytes, header: bytes) -> str:
    """Return the digest of the first row in the first bytes of a file; empty if there is none."""
    head = head.removeprefix(codecs.BOM_UTF8)
    if header and head.startswith(header):
        head = head.partition(b"\n")[2]
    return digest(head.partition(b"\n")[0]) if head else ""


def _has_row(head: bytes, form: LineFormat) -> bool:
    """Return whether the first bytes of a file have a whole line, after the header of CSV."""
    return bool(head.partition(b"\n")[2].strip()) if form == "csv" else b"\n" in head


def _is_position(position: Json) -> bool:
    """Return whether a position is one that `Log.position` gave."""
    numbers, texts = (position.get(name) for name in ("bytes", "line")), ("header", "head", "tail")
    try:
        bytes.fromhex(position["header"])
    except (KeyError, TypeError, ValueError):
        return False
    file, after = position.get("file", []), position.get("after", {})
    return (
        all(type(number) is int and 0 <= number < 1 << 62 for number in numbers)
        and position.get("inside", True) is True
        and all(isinstance(position.get(name), str) for name in texts)
        and isinstance(position.get("row", ""), str)
        and (isinstance(file, list) and len(file) in (0, 2) and all(type(number) is int for number in file))
        and (after == {} or (isinstance(after, dict) and "after" not in after and _is_position(after)))
    )
