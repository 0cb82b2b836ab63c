"""Follow a growing log, and resume reading it from a saved position."""

import hashlib
import os
import select
import stat
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from streamsketch.errors import InvalidInputError
from streamsketch.intake.files import RowReader
from streamsketch.intake.lines import BLOCK_BYTES, Add, LineFormat, Stop, pipe_blocks

_KNOWN_BY = 4096  # bytes at each end of what was read, by which a log is recognised
_LOOK = 0.2  # seconds between checks of a file that has not grown


class Log:
    r"""A growing file or pipe of CSV or JSON lines, read in whole lines.

    `position` says how far the log was read, and a later `Log` can resume there. A file is then read from that offset
    on. A pipe must deliver the log from its beginning again; what was read before is skipped. In both cases, the log
    is recognised by the first and last bytes that were read before. Log rotation is not followed: a file that
    replaces this one is not read.

    Parameters
    ----------
    source
        A binary file open for reading, or its file descriptor.
    reader
        Reads the rows.
    form
        ``"csv"``, with a header line, or ``"jsonl"``.
    name
        Name of the log, for errors.
    position
        The `position` of an earlier `Log`, to resume from.

    Raises
    ------
    InvalidInputError
        If this file is not the one that was read before. For a pipe, `pieces` raises this error.

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

    def __init__(
        self,
        source: BinaryIO | int,
        reader: RowReader,
        form: LineFormat,
        name: str = "the log",
        position: dict[str, Any] | None = None,
    ) -> None:
        self._descriptor = source if isinstance(source, int) else source.fileno()
        self._name, self._position = name, position
        self._lines = reader.lines(name, form)
        self._lines.mark = self._mark
        self.is_file = stat.S_ISREG(os.fstat(self._descriptor).st_mode)
        """Whether it is a regular file, which can grow after its end was read."""
        self._consumed, self._head, self._tail = 0, b"", b""
        if position is None:
            return
        if not _is_position(position):
            raise InvalidInputError("the position does not say how far the log was read; take a backup")
        if self.is_file:
            self._seek(position)

    @property
    def position(self) -> dict[str, Any]:
        """How far the log was read, as a dictionary that JSON can hold: secret."""
        if self._position is not None:
            return self._position
        number, header = self._lines.position
        ends = {"head": _digest(self._head), "tail": _digest(self._tail)}
        return {"bytes": self._consumed, "line": number, "header": header.hex(), **ends}

    def pieces(
        self,
        *,
        follow: bool = False,
        stop: Stop | None = None,
        wait: Callable[[], float | None] = lambda: None,
    ) -> Iterator[bytes]:
        """Yield whole lines as they arrive, for `read`; empty bytes after ``wait()`` seconds without lines.

        An unfinished line is never read, even at the end of the log.

        Parameters
        ----------
        follow
            Whether to wait for a file to grow; a pipe is always read until it ends.
        stop
            Ends the reading.
        wait
            Returns how many seconds to wait for lines; None for ever.

        Raises
        ------
        InvalidInputError
            If a file has become shorter, a pipe does not deliver the log that was read before, or a log of CSV ends
            without a header line.
        """
        blocks = self._file_blocks(stop, wait, follow=follow) if self.is_file else self._pipe_blocks(stop, wait)
        yield from self._lines.pieces(blocks)

    def read(self, piece: bytes, add: Add) -> None:
        """Pass the rows of a piece to ``add`` in batches, without bad lines, as in `RowReader.read`."""
        self._lines.read(piece, add)

    def _mark(self, data: bytes) -> None:
        """Record bytes that were read: how many, and the first and last of them."""
        self._consumed += len(data)
        self._head = (self._head + data[:_KNOWN_BY])[:_KNOWN_BY]
        self._tail = data[-_KNOWN_BY:] if len(data) >= _KNOWN_BY else (self._tail + data)[-_KNOWN_BY:]

    def _seek(self, position: dict[str, Any]) -> None:
        consumed, size = position["bytes"], os.fstat(self._descriptor).st_size
        if size < consumed:
            raise InvalidInputError(self._shorter(size, consumed))
        self._head = os.pread(self._descriptor, min(consumed, _KNOWN_BY), 0)
        self._tail = os.pread(self._descriptor, min(consumed, _KNOWN_BY), max(0, consumed - _KNOWN_BY))
        self._consumed = consumed
        self._go_on(position)
        os.lseek(self._descriptor, consumed, os.SEEK_SET)

    def _go_on(self, position: dict[str, Any]) -> None:
        """Resume from a position, after the bytes before it were read."""
        if (_digest(self._head), _digest(self._tail)) != (position["head"], position["tail"]):
            raise InvalidInputError(
                f"{self._name} is not the log that was read before, as its first or last bytes up to there differ: "
                f"give the same log from its beginning, or begin a new state and a new folder"
            )
        self._lines.go_on(position["line"], bytes.fromhex(position["header"]))
        self._position = None

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
        """Yield the blocks of a growing file; no empty one, so that an unfinished last line is not read."""
        while stop is None or not stop.is_set():
            if block := os.read(self._descriptor, BLOCK_BYTES):
                yield block
                continue
            if not follow:
                return
            at, size = os.lseek(self._descriptor, 0, os.SEEK_CUR), os.fstat(self._descriptor).st_size
            if size < at:
                raise InvalidInputError(self._shorter(size, at))
            left = wait()
            select.select([] if stop is None else [stop.wakes], [], [], _LOOK if left is None else min(_LOOK, left))
            if wait() == 0:
                yield None

    def _shorter(self, size: int, consumed: int) -> str:
        return (
            f"{self._name} has {size:,} byte{'' if size == 1 else 's'}, and {consumed:,} of it were read before: give "
            f"the same log from its beginning, or begin a new state and a new folder"
        )


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _is_position(position: dict[str, Any]) -> bool:
    """Return whether a position is one that `Log.position` gave."""
    numbers, texts = (position.get(name) for name in ("bytes", "line")), ("header", "head", "tail")
    try:
        bytes.fromhex(position["header"])
    except (KeyError, TypeError, ValueError):
        return False
    return all(type(number) is int and 0 <= number < 1 << 62 for number in numbers) and all(
        isinstance(position.get(name), str) for name in texts
    )
