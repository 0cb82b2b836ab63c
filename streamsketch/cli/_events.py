"""Events from files and streams, and into a sketch."""

import os
import re
import select
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Literal, Self, TypeAlias

import numpy as np
import pyarrow as pa
import typer

import streamsketch as ss
from streamsketch.agreement import Events
from streamsketch.data import batches, csv_header, csv_piece, format_of, json_batch, parts_of
from streamsketch.release import State, check_size
from streamsketch.sketching import keyed_steps

Format: TypeAlias = Literal["csv", "jsonl", "parquet"]

STDIN = "-"
_PIECE_BYTES = 1 << 20
_LONGEST_LINE = 1 << 24
# RFC 4180, and Arrow: a quote opens a field only at its start, and is a letter like any other within or after one
_QUOTED = re.compile(rb'(?:\A|(?<=[,\r\n]))"[^"]*+(?:""[^"]*+)*+(?:"|\Z)')


@dataclass(frozen=True)
class Columns:
    """Which columns hold the events."""

    key: str | None
    index: tuple[str, ...]
    value: str | None
    agreement: ss.Agreement | None = None

    @classmethod
    def of(cls, agreement: ss.Agreement) -> Self:
        """Return the columns of an agreement."""
        key = None if agreement.key is None else agreement.key.name
        return cls(key, tuple(column.name for column in agreement.index), agreement.value, agreement)

    @property
    def text(self) -> list[str]:
        """Those that are read as text; under an agreement, which casts it, all of them."""
        if self.agreement is not None:
            return self.agreement.names
        return list(dict.fromkeys([*([] if self.key is None else [self.key]), *self.index]))

    @property
    def all(self) -> list[str]:
        """All of them."""
        if self.agreement is not None:
            return self.agreement.names
        return list(dict.fromkeys([*self.text, *([] if self.value is None else [self.value])]))


def add_events(state: State, batch: pa.RecordBatch, columns: Columns, first: int = 1) -> int:
    """Add a batch of events, return how many were left out; after an error the state is as it was.

    Under an agreement, its types hold, and rows are counted from ``first``.

    Where indices are hashed, numbers and dates count as their text, so that files of all formats agree. A projection
    with a smaller dim wants integers.
    """
    if columns.agreement is not None:
        return _add_agreed(state, columns.agreement.events(batch, first))
    for name in columns.all:
        if nulls := batch.column(name).null_count:
            raise ss.InvalidInputError(
                f"the column {name} has nulls ({nulls} of {batch.num_rows} rows read together); drop or fill those "
                f"rows first"
            )
    hashed = state.projection.dim == ss.HASHED_DIM
    parts = [_as_text(batch, name) if hashed else _as_integers(batch, name) for name in columns.index]
    indices = state.projection.indices_of(*parts)
    values = 1 if columns.value is None else batch.column(columns.value)
    if isinstance(state, ss.Sketch):
        state.update(indices, values)
    else:
        distinct, codes, *steps = keyed_steps(state.projection, _as_text(batch, str(columns.key)), indices, values)
        new = sum(distinct[code] not in state for code in np.unique(codes))
        check_size(state.projection, len(state) + new)  # before memory is filled with what no file holds
        state.add_steps(distinct, codes, *steps)
    return 0


def _add_agreed(state: State, events: Events) -> int:
    if isinstance(state, ss.Sketch):
        state.add_steps(events.indices, events.steps)
    else:
        keys: Any = events.keys
        new = sum(key not in state for key in keys.unique().to_pylist())
        check_size(state.projection, len(state) + new)
        state.add_events(events)
    return events.dropped


def _as_text(batch: pa.RecordBatch, name: str) -> pa.Array:
    column = batch.column(name)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_integer(kind) or pa.types.is_date(kind):
        return column.cast(pa.string())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_timestamp(kind):
        return column
    raise ss.InvalidInputError(f"the column {name} holds {kind}; keys and indices must be text, integers or dates")


def _as_integers(batch: pa.RecordBatch, name: str) -> pa.Array:
    try:
        return batch.column(name).cast(pa.int64())
    except pa.ArrowException:
        raise ss.InvalidInputError(
            f"the column {name} must hold integers for this projection, whose dim is not 2**60; only with that dim "
            f"is text hashed"
        ) from None


def file_batches(path: Path, form: Format | None, columns: Columns, on_read: Callable[[int], None]) -> Iterator[Any]:
    """Yield the batches of a file; report how far it was read, in bytes."""
    if not path.is_file():
        yield from _pipe_batches(path, form, columns)
        return
    # Arrow's own: its threads may outlive an error, and to let go of bytes of Python's while it ends would abort. Not
    # closed here, as they may be reading: it closes itself
    file = pa.OSFile(os.fspath(path))
    for part in range(parts_of(file, str(path), form)):
        for batch in batches(
            file, str(path), part, columns.all, columns.text, form, any_text=columns.agreement is not None
        ):
            yield batch
            if not file.closed:
                on_read(file.tell())


def _pipe_batches(path: Path, form: Format | None, columns: Columns) -> Iterator[Any]:
    """Yield what a pipe has until it ends, read as standard input is: Arrow, waiting for it, would heed no signal."""
    with path.open("rb", buffering=0) as pipe:
        known = form or format_of(path.suffix)
        if known not in ("csv", "jsonl"):
            raise ss.InvalidInputError(
                f"{path} is a pipe, and of a pipe CSV and JSON lines are read, not compressed: say --format csv, with "
                f"a header line, or --format jsonl; Parquet is read from files only"
            )
        with Stop() as stop:
            for batch in stream_batches(pipe.fileno(), str(path), known, columns, stop, lambda: None):
                if batch is not None:
                    yield batch
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


def stream_batches(
    descriptor: int, name: str, form: Format, columns: Columns, stop: Stop, wait: Callable[[], float | None]
) -> Iterator[Any]:
    """Yield what a stream has, as it comes; None when ``wait()`` seconds passed without any.

    Ends with the stream or at a signal. Lines are taken whole, so one that is not finished then is not taken.
    """
    header: list[str] | None = None
    rest, line = b"", 1
    ended = False
    while not ended:
        ready, _, _ = select.select([descriptor, stop.wakes], [], [], wait())
        if stop.number is not None:
            return
        if descriptor not in ready:
            yield None
            continue
        piece = os.read(descriptor, _PIECE_BYTES)
        ended = not piece
        whole, rest = _whole_lines(rest + piece, form, ended=ended)
        if len(rest) > _LONGEST_LINE:
            raise ss.InvalidInputError(f"a line of {name} is longer than {_LONGEST_LINE:,} bytes")
        if form == "csv" and header is None and whole:
            first, _, whole = whole.partition(b"\n")
            header = csv_header(first, name, columns.all)
            line = 2
        if not whole.strip():
            yield None
            continue
        count = whole.count(b"\n")
        try:
            if header is None:
                agreed = columns.agreement is not None
                yield json_batch(whole.split(b"\n"), name, columns.all, columns.text, line, any_text=agreed)
            else:
                yield csv_piece(whole, header, name, columns.all, columns.text)
        except ss.InvalidInputError as error:
            raise ss.InvalidInputError(f"lines {line} to {line + count - 1} were not taken: {error}") from None
        line += count
    if form == "csv" and header is None:  # what should have written it failed
        raise ss.InvalidInputError(f"{name} ended before its header line")


def _whole_lines(data: bytes, form: Format, *, ended: bool) -> tuple[bytes, bytes]:
    """Split off what follows the last line that is whole: in CSV, one whose quotes are closed."""
    if ended:
        return data if data.endswith(b"\n") or not data else data + b"\n", b""
    end = after = 0
    if form == "csv":
        for quoted in _QUOTED.finditer(data):
            end = max(end, data.rfind(b"\n", after, quoted.start()) + 1)
            after = quoted.end()
    end = max(end, data.rfind(b"\n", after) + 1)
    return data[:end], data[end:]
