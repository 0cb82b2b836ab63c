"""Windows that open as time passes, with or without data."""

import logging
import time
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.coders import BytesCoder, VarIntCoder
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import GlobalWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from streamsketch.beam.intake.windows import WindowRange, windowed_as
from streamsketch.beam.run.runner import refuse_lost_state
from streamsketch.beam.run.runs import RunSecret, run_secret
from streamsketch.beam.streams.secret import StreamSecret
from streamsketch.beam.streams.slots import decoded_key, encoded_key
from streamsketch.errors import InvalidInputError

_LOG = logging.getLogger(__name__)


class OpenWindows(beam.PTransform):
    """Return each key once in every window as time passes: ``PCollection[key] → PCollection[key]``.

    Each key has a timer that fires when the watermark reaches the start of a window. It puts the key into the window
    and is set for the next one. Until it fires it holds the watermark back, so no window is skipped.

    If the watermark jumps to the end of time, as when a job is drained, windows open only up to the present: the first
    window that begins more than one window's length after the worker's clock is not opened, nor are later ones.

    Parameters
    ----------
    clock
        A collection with the stream's watermark; its elements are not read.
    windows
        A range; without an end, windows open forever.
    """

    def __init__(self, clock: beam.PCollection, windows: WindowRange) -> None:
        super().__init__()
        self._clock, self._windows = clock, windows

    def expand(self, keys: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        refuse_lost_state(keys.pipeline)
        windowing = self._clock.windowing
        kind = beam.typehints.KV[bytes, None]
        named = keys | "Key by key" >> beam.Map(lambda key: (encoded_key(key), None)).with_output_types(kind)
        ticks = (
            self._clock
            | "Watermark alone" >> beam.FlatMap(lambda _: ()).with_output_types(kind)
            | "Outside of windows" >> beam.WindowInto(GlobalWindows())
        )
        first = self._windows.first(windowing).micros
        run = run_secret(keys.pipeline)
        stop = None if self._windows.stop is None else self._windows.stop.micros
        opener = _Open(first, stop, windowing.windowfn.size.micros, run if isinstance(run, StreamSecret) else None)
        return (
            (named, ticks)
            | "Keys and watermark" >> beam.Flatten()
            | "Open" >> beam.ParDo(opener).with_output_types(Any)
            | "Window keys" >> windowed_as(windowing)
        )


class _Open(beam.DoFn):
    NEXT = ReadModifyWriteStateSpec("next", VarIntCoder())
    ROOT_KEY = ReadModifyWriteStateSpec("root key", BytesCoder())
    START = TimerSpec("start", TimeDomain.WATERMARK)

    def __init__(self, first: int, stop: int | None, size: int, run: RunSecret | None) -> None:
        self._first, self._stop, self._size, self._run = first, stop, size, run

    def process(
        self,
        _: tuple[bytes, None],
        upcoming: Any = beam.DoFn.StateParam(NEXT),
        root_key: Any = beam.DoFn.StateParam(ROOT_KEY),
        start: Any = beam.DoFn.TimerParam(START),
    ) -> None:
        self._check(root_key)
        if upcoming.read() is None:
            upcoming.write(self._first)
            start.set(Timestamp(micros=self._first))

    @on_timer(START)
    def fire(
        self,
        key: bytes = beam.DoFn.KeyParam,
        upcoming: Any = beam.DoFn.StateParam(NEXT),
        root_key: Any = beam.DoFn.StateParam(ROOT_KEY),
        start: Any = beam.DoFn.TimerParam(START),
    ) -> Iterator[TimestampedValue]:
        self._check(root_key)
        due = upcoming.read()
        yield TimestampedValue(decoded_key(key), Timestamp(micros=due))
        due += self._size
        if self._stop is not None and due >= self._stop:
            return
        if due - self._size > time.time() * 1e6:
            _LOG.warning("No further windows are opened, because the watermark is ahead of this worker's clock")
            return
        upcoming.write(due)
        start.set(Timestamp(micros=due))

    def _check(self, held: Any) -> None:
        """Keep the root key's fingerprint and the clock in the state; raise `InvalidInputError` if a job has others."""
        if not isinstance(self._run, StreamSecret):
            return
        own, stored = self._run.fingerprint() + self._run.clock.encode(), held.read()
        if stored is None:
            held.write(own)
        elif stored != own:
            raise InvalidInputError(
                "the job's state was written with another root key or clock than this worker has; restore it with "
                "the root key and the clock that the stream began with"
            )
