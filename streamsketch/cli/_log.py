"""A log that grows: read from where it was left, and known again."""

import hashlib
import os
import select
import stat
from collections.abc import Callable, Iterator
from typing import Any

import streamsketch as ss
from streamsketch.cli._events import PIECE_BYTES, Stop, stream_blocks
from streamsketch.cli._lines import Lines
from streamsketch.cli._showing import counted

_KNOWN_BY = 4096  # bytes at either end of what was taken
_LOOK = 0.2  # seconds between looks at a file that has not grown


class Log:
    """The bytes of a log, and how many of them were taken in whole lines.

    A file is sought in; of a pipe, what was taken before is read again and left out, so it must be the log from its
    beginning. Both are known again by the first and the last bytes that were taken. A file that is replaced by another,
    as by rotation, is not followed into the other.

    Parameters
    ----------
    descriptor
        Open for reading.
    name
        For errors.
    """

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor, self._name = descriptor, name
        self.is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        self._taken, self._head, self._tail = 0, b"", b""

    def mark(self, data: bytes) -> None:
        """Note bytes that were taken."""
        self._taken += len(data)
        self._head = (self._head + data[:_KNOWN_BY])[:_KNOWN_BY]
        self._tail = data[-_KNOWN_BY:] if len(data) >= _KNOWN_BY else (self._tail + data)[-_KNOWN_BY:]

    def place(self, lines: Lines) -> dict[str, Any]:
        """Return how far the log was taken, as what JSON can hold: secret."""
        number, header = lines.place
        return {
            "bytes": self._taken,
            "line": number,
            "header": header.hex(),
            "head": _digest(self._head),
            "tail": _digest(self._tail),
        }

    def go_on(self, place: dict[str, Any], lines: Lines, blocks: Iterator[bytes | None]) -> bytes:
        """Go to where the log was left, and return what was read beyond it.

        Raises
        ------
        InvalidInputError
            If it is not the log that was read before.
        """
        if not _is_place(place):
            raise ss.InvalidInputError("the state of the stream does not say how far the log was read; take a backup")
        taken, after = place["bytes"], b""
        if self.is_file:
            size = os.fstat(self._descriptor).st_size
            if size < taken:
                raise ss.InvalidInputError(self._shorter(size, taken))
            head = os.pread(self._descriptor, min(taken, _KNOWN_BY), 0)
            tail = os.pread(self._descriptor, min(taken, _KNOWN_BY), max(0, taken - _KNOWN_BY))
            os.lseek(self._descriptor, taken, os.SEEK_SET)
            self._taken, self._head, self._tail = taken, head, tail
        else:
            while self._taken < taken:
                block = next(blocks, None)
                if not block:
                    raise ss.InvalidInputError(self._shorter(self._taken, taken))
                after = block[taken - self._taken :]
                self.mark(block[: taken - self._taken])
        if (_digest(self._head), _digest(self._tail)) != (place["head"], place["tail"]):
            raise ss.InvalidInputError(
                f"{self._name} is not the log that was read before, as its first or last bytes up to there differ: "
                f"give the same log from its beginning, or begin a new state and a new folder"
            )
        lines.go_on(place["line"], bytes.fromhex(place["header"]))
        return after

    def _shorter(self, size: int, taken: int) -> str:
        return (
            f"{self._name} has {counted(size, 'byte')}, and {taken:,} of it were taken before: give the same log from "
            f"its beginning, or begin a new state and a new folder"
        )

    def blocks(self, stop: Stop, wait: Callable[[], float], *, follow: bool) -> Iterator[bytes | None]:
        """Yield what the log has, as it comes; None when ``wait()`` seconds passed without any.

        It never says that the log has ended, so that a line that is not finished is not taken.
        """
        if not self.is_file:
            yield from (block for block in stream_blocks(self._descriptor, stop, wait) if block != b"")
            return
        while stop.number is None:
            if block := os.read(self._descriptor, PIECE_BYTES):
                yield block
                continue
            if not follow:
                return
            at, size = os.lseek(self._descriptor, 0, os.SEEK_CUR), os.fstat(self._descriptor).st_size
            if size < at:
                raise ss.InvalidInputError(self._shorter(size, at))
            select.select([stop.wakes], [], [], min(_LOOK, wait()))
            if not wait():
                yield None


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _is_place(place: dict[str, Any]) -> bool:
    """Return whether a state's place is one that `Log.place` gave."""
    numbers, texts = (place.get(name) for name in ("bytes", "line")), ("header", "head", "tail")
    try:
        bytes.fromhex(place["header"])
    except (KeyError, TypeError, ValueError):
        return False
    return all(type(number) is int and 0 <= number < 1 << 62 for number in numbers) and all(
        isinstance(place.get(name), str) for name in texts
    )
