"""Inputs of commands: formats, signals that end reading, and snapshots."""

import os
import select
import signal
from time import monotonic
from types import FrameType, TracebackType
from typing import Annotated, Any, Literal, Self, TypeAlias

from streamsketch.cli._options import option

Format: TypeAlias = Literal["csv", "jsonl", "parquet"]

Delimiter = Annotated[str, option("Input", "CHARACTER", "Character between the cells of CSV. \\t is a tab.")]
Encoding = Annotated[
    str | None,
    option(
        "Input", "NAME", "Encoding of CSV, JSON lines and text, such as utf-16, cp1252 or iso8859-2. By default UTF-8."
    ),
]
Decimal = Annotated[str, option("Input", ".|,", "Decimal point of numbers in CSV: . or ,")]

Multiline = Annotated[
    bool | None,
    option(
        "Input",
        "",
        "Whether cells of CSV may hold line breaks within quotes. With a unit column, the guarantee then depends "
        "on the file's writer. By default, they may if there is no unit column; in a log, never.",
        "--multiline/--no-multiline",
    ),
]

BadLinesOption = Annotated[
    str,
    option(
        "Input",
        "stop|skip|FILE",
        "What to do with lines of CSV or JSON that cannot be read: stop, skip them, or keep them in a file.",
        "--bad-lines",
    ),
]

STDIN = "-"


class Stop:
    """Within this context, SIGINT and SIGTERM are recorded, and end nothing by themselves.

    A sketch is changed in steps. An exception between two steps, as Python raises on SIGINT, would corrupt the sketch.
    """

    def __init__(self) -> None:
        self._number: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self.wakes, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)  # before a handler that does nothing
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, _do_nothing)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(-1)
        os.close(self.wakes)
        os.close(self._wake)

    @property
    def number(self) -> int | None:
        """The first signal that arrived, if any.

        It is read where the system wrote it: Python runs a handler a little later, when a stream may have ended too.
        """
        if self._number is None and select.select([self.wakes], [], [], 0)[0]:
            self._number = os.read(self.wakes, 1)[0]
        return self._number

    def is_set(self) -> bool:
        """Return whether a signal arrived."""
        return self.number is not None


def _do_nothing(_: int, __: FrameType | None) -> None:
    """Stand in for Python's own handler, which would raise."""


class Snapshots:
    """The time of the next snapshot. The first is due immediately: a mistake should not appear only after an hour."""

    def __init__(self, every: float) -> None:
        self._every, self._due = every, monotonic()

    def taken(self) -> None:
        """Count from now on."""
        self._due = monotonic() + self._every

    def wait(self) -> float:
        """Return how many seconds are left."""
        return max(0.0, self._due - monotonic())
