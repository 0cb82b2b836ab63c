"""Events from files and streams, and into a sketch."""

import contextlib
import os
import select
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from types import FrameType, TracebackType
from typing import Any, Literal, Self, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import typer

import streamsketch as ss
from streamsketch.agreement import Events
from streamsketch.cli._lines import BadLines, Lines, blocks_of
from streamsketch.data import batches, format_of, parts_of, uncompressed
from streamsketch.intake import times_in, window_names
from streamsketch.storage import RawHead, State, check_size

Format: TypeAlias = Literal["csv", "jsonl", "parquet"]

STDIN = "-"
PIECE_BYTES = 1 << 20


@dataclass(frozen=True)
class Columns:
    """Which columns hold the events."""

    agreement: ss.Agreement
    time: str | None = None
    time_format: str | None = None
    window: float | None = None
    """In seconds: each key's events in each window are a stream of their own."""

    @property
    def all(self) -> list[str]:
        """All of them."""
        return list(dict.fromkeys([*self.agreement.names, *([] if self.time is None else [self.time])]))

    @property
    def text(self) -> list[str]:
        """Those that are read as text where a format leaves it open: of an agreement that casts values, all."""
        return self.all if self.any_text else [name for name in self.all if name != self.agreement.value]

    @property
    def any_text(self) -> bool:
        """Whether all that JSON can hold is text, and values are, for the agreement to cast."""
        return self.agreement.missing != "keep"

    def events(self, batch: pa.RecordBatch, first: int) -> Events:
        """Return the events of a batch that was cast, its rows counted from ``first``; windows are part of their keys.

        A key in a window is their names with a space between; without a key it is that of the window.
        """
        events = self.agreement.events(batch, first)
        if self.window is None:
            return events
        keys: pa.Array = window_names(times_in(batch.column(self.time), str(self.time), self.time_format), self.window)
        if events.keys is not None:
            keys = pc.binary_join_element_wise(events.keys.cast(pa.string()), keys.cast(pa.string()), " ")
        return events._replace(keys=keys)


def add_events(state: State, events: Events, there: RawHead) -> None:
    """Add a batch of events; after an error the state is as it was.

    ``there`` is what is known of the file that the state will be added to.
    """
    if isinstance(state, ss.Sketch):
        state.add_steps(events.indices, events.steps)
        return
    keys: Any = events.keys if pa.types.is_dictionary(events.keys.type) else events.keys.dictionary_encode()  # type: ignore[union-attr]
    _check_room(state, there, keys.unique().to_pylist())
    state.add_events(events._replace(keys=keys))


def _check_room(state: ss.SketchTable, there: RawHead, keys: list[Any]) -> None:
    """Raise, before memory is filled with what no file holds, if a table with these keys too is too large for one."""
    with contextlib.suppress(ss.InvalidInputError):
        check_size(state.projection, len(state) + there.most_keys + len(keys))
        return
    new = sum(key not in state for key in (there.keys or frozenset()).union(keys))
    try:
        check_size(state.projection, len(state) + new)
    except ss.InvalidInputError as error:
        raise ss.StreamsketchError(str(error)) from None  # which is no fault of a line


@dataclass(frozen=True)
class Reading:
    """How inputs are read.

    Parameters
    ----------
    columns
        Those that hold the events.
    form
        The format; by default, what a file's name says.
    delimiter
        Of CSV.
    bad
        What becomes of lines that cannot be read.
    """

    columns: Columns
    form: Format | None = None
    delimiter: str = ","
    bad: BadLines = field(default_factory=lambda: BadLines("stop"))

    def batches(self, path: Path, on_read: Callable[[int], None] = lambda _: None) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a file; report how far it was read, in bytes."""
        # Arrow's own: its threads may outlive an error, and to let go of bytes of Python's while it ends would abort.
        # Not closed here, as they may be reading: it closes itself
        file, columns = pa.OSFile(os.fspath(path)), self.columns
        how: Any = {"delimiter": self.delimiter, "any_text": columns.any_text}
        for part in range(parts_of(file, str(path), self.form)):
            for batch in batches(file, str(path), part, columns.all, columns.text, self.form, **how):
                yield batch
                if not file.closed:
                    on_read(file.tell())

    def lines(self, name: str, form: str) -> Lines:
        """Return how the lines of a stream are read."""
        columns = self.columns
        return Lines(name, form, columns.all, columns.text, self.bad, self.delimiter, columns.any_text)


def read_file(
    path: Path, reading: Reading, add: Callable[[pa.RecordBatch, int], None], on_read: Callable[[int], None]
) -> None:
    """Pass the events of a file on in batches; report how far it was read, in bytes; errors name the file."""
    known = reading.form or format_of(path.suffix)
    if not path.is_file():
        _read_pipe(path, reading, known, add)
        return
    named = reading.form or format_of(str(path))
    if named in ("csv", "jsonl") and not reading.bad.stops:
        file = pa.OSFile(os.fspath(path))
        lines = reading.lines(str(path), named)
        for piece in lines.pieces(blocks_of(uncompressed(file, str(path)), str(path), PIECE_BYTES)):
            lines.add(piece, add)
            on_read(file.tell())
        return
    row = 2 if named == "csv" else 1
    for batch in reading.batches(path, on_read):
        try:
            add(batch, row)
        except ss.InvalidInputError as error:
            where = f"{path}, {'row' if named == 'csv' else 'line' if named == 'jsonl' else 'record'}s {row:,} to"
            raise ss.InvalidInputError(f"{where} {row + batch.num_rows - 1:,}: {error}") from None
        row += batch.num_rows


def _read_pipe(path: Path, reading: Reading, form: str, add: Callable[[pa.RecordBatch, int], None]) -> None:
    """Read what a pipe has until it ends, as standard input is: Arrow, waiting for it, would heed no signal."""
    with path.open("rb", buffering=0) as pipe:
        if form not in ("csv", "jsonl"):
            raise ss.InvalidInputError(
                f"{path} is a pipe, and of a pipe CSV and JSON lines are read, not compressed: say --format csv, with "
                f"a header line, or --format jsonl; Parquet is read from files only"
            )
        with Stop() as stop:
            lines = reading.lines(str(path), form)
            for piece in lines.pieces(stream_blocks(pipe.fileno(), stop, lambda: None)):
                if stop.number is None:
                    lines.add(piece, add)
            if stop.number is not None:
                raise typer.Exit(128 + stop.number)


class Stop:
    """Within it, SIGINT and SIGTERM are noted, and end nothing by themselves.

    A sketch is changed in steps, so that an exception between two of them, as Python raises on SIGINT, would spoil it.
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
        """The first signal that came, if any.

        It is read where the system wrote it: Python runs a handler a little later, when a stream may have ended too.
        """
        if self._number is None and select.select([self.wakes], [], [], 0)[0]:
            self._number = os.read(self.wakes, 1)[0]
        return self._number


def _do_nothing(_: int, __: FrameType | None) -> None:
    """Stand in for Python's own handler, which would raise."""


def stream_blocks(descriptor: int, stop: Stop, wait: Callable[[], float | None]) -> Iterator[bytes | None]:
    """Yield what a stream has, as it comes, and nothing last; None when ``wait()`` seconds passed without any.

    A signal ends it before.
    """
    while True:
        ready, _, _ = select.select([descriptor, stop.wakes], [], [], wait())
        if stop.number is not None:
            return
        if descriptor not in ready:
            yield None
        else:
            yield (block := os.read(descriptor, PIECE_BYTES))
            if not block:
                return


class Snapshots:
    """When the next one is due."""

    def __init__(self, every: float) -> None:
        self._every = every
        self.taken()

    def taken(self) -> None:
        """Count from now on."""
        self._due = monotonic() + self._every

    def wait(self) -> float:
        """Return how many seconds are left."""
        return max(0.0, self._due - monotonic())
