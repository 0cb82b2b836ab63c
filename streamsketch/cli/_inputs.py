"""Inputs of commands: formats, signals that end reading, and snapshots."""

import os
import select
import signal
from dataclasses import dataclass, field
from time import monotonic
from types import FrameType, TracebackType
from typing import Any, Literal, Self, TypeAlias, get_args

import streamsketch as ss
from streamsketch.cli._fields import Field, yes_or_no
from streamsketch.core.numbers import short
from streamsketch.data.readers.delimited import check_delimiter
from streamsketch.intake.files import RowReader
from streamsketch.intake.lines import BadLines

Format: TypeAlias = Literal["csv", "jsonl", "parquet"]


def _texts(text: str) -> list[str]:
    return [part for part in text.split(",") if part]


READING = {
    "format": Field("csv|jsonl|parquet", "what the rows are written as; by default it follows from the file name"),
    "delimiter": Field("CHARACTER", "between the cells of CSV; \\t is a tab", check_delimiter),
    "encoding": Field("NAME", "of text, such as utf-16, cp1252 or iso8859-2; by default UTF-8"),
    "decimal": Field(".|,", "decimal point of numbers in CSV"),
    "thousands": Field("MARK", "between groups of three digits in CSV, such as . or ,"),
    "null-values": Field("TEXTS", "cells of CSV that are missing values, with commas between: NA,-", _texts),
    "multiline": Field(
        "yes|no",
        "whether quoted cells of CSV may hold line breaks, by default if there is no unit column; with one, the "
        "guarantee depends on the file's writer",
        yes_or_no,
    ),
}
"""How rows are written, where `release`, `sketch` and `choose-bound` read them."""


@dataclass
class Reading:
    """How rows are written, and what to do with those that cannot be read."""

    format: str | None = None
    delimiter: str = ","
    encoding: str | None = None
    decimal: str = "."
    thousands: str | None = None
    null_values: list[str] = field(default_factory=list)
    multiline: bool | None = None
    bad_lines: str = "stop"
    every: float = 60.0

    def reader(self, agreed: ss.Agreement, bad: BadLines | None = None) -> RowReader:
        """Return the reader of these rows, and of the times of the agreement's windows."""
        if self.format not in (None, *(formats := get_args(Format))):
            raise ss.InvalidInputError(f"--set format takes {'|'.join(formats)}, got {short(self.format)}")
        return RowReader(
            agreed,
            time=None if agreed.windows is None else agreed.windows.time.name,
            format=self.format,  # type: ignore[arg-type] # as checked
            delimiter=self.delimiter,
            bad=BadLines() if bad is None else bad,
            encoding=self.encoding,
            decimal=self.decimal,
            thousands=self.thousands,
            null_values=self.null_values,
            multiline=self.multiline,
        )


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
