"""How far a key has moved from one window to the next."""

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.coders import BytesCoder, TupleCoder, VarIntCoder
from apache_beam.transforms.userstate import BagStateSpec
from apache_beam.transforms.window import FixedWindows, GlobalWindows, IntervalWindow, TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from streamsketch.beam.streams.slots import decoded_key, encoded_key
from streamsketch.beam.windows import windowed_as
from streamsketch.errors import InvalidInputError
from streamsketch.estimation import Estimate, squared_distance
from streamsketch.release import PrivateSketch

_KEPT = 4  # windows that a key waits for, should they come out of order


class WindowChanges(beam.PTransform):
    """Estimate each key's squared distance to the window before: ``KV[key, PrivateSketch] → KV[key, Estimate]``.

    Input is what `ReleasePerKey` gives in `TumblingWindows`; an estimate is in the later of its two windows and comes
    when both releases have. Nothing more is spent. The last release of each key is kept in the job's state: it is
    published anyway.

    Raises
    ------
    InvalidInputError
        For releases in other windows.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from apache_beam.transforms.window import TimestampedValue
    >>> from streamsketch import L1, SJLT
    >>> from streamsketch.beam import ReleasePerKey, SketchPerKey, TumblingWindows
    >>> from streamsketch.beam.streams import WindowChanges
    >>> projection = SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7)
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     changes = (
    ...         pipeline
    ...         | beam.Create([TimestampedValue(("AA", 17, 1), 3600)])
    ...         | TumblingWindows(3600)
    ...         | SketchPerKey(projection)
    ...         | ReleasePerKey(epsilon=1.0, neighbours=L1(1), public_keys=["AA"], public_windows=(0, 7200))
    ...         | WindowChanges()
    ...     )
    """

    def expand(self, releases: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        windowing = releases.windowing
        if not isinstance(windowing.windowfn, FixedWindows):
            raise InvalidInputError(
                f"WindowChanges compares windows that follow each other, got {type(windowing.windowfn).__name__}. "
                f"Window the events by TumblingWindows(size)"
            )
        kind = beam.typehints.KV[bytes, tuple[int, bytes]]
        return (
            releases
            | "Name the window" >> beam.Map(_with_start).with_output_types(kind)
            | "Outside of windows" >> beam.WindowInto(GlobalWindows())
            | "Compare with the window before"
            >> beam.ParDo(_Compare(windowing.windowfn.size.micros)).with_output_types(beam.typehints.KV[Any, Estimate])
            | "Back to their windows" >> windowed_as(windowing)
        )


def _with_start(
    keyed: tuple[Any, PrivateSketch], window: IntervalWindow = beam.DoFn.WindowParam
) -> tuple[bytes, tuple[int, bytes]]:
    return encoded_key(keyed[0]), (int(window.start.micros), keyed[1].to_bytes())


class _Compare(beam.DoFn):
    RECENT = BagStateSpec("recent", TupleCoder((VarIntCoder(), BytesCoder())))

    def __init__(self, size: int) -> None:
        self._size = size

    def process(
        self, keyed: tuple[bytes, tuple[int, bytes]], recent: Any = beam.DoFn.StateParam(RECENT)
    ) -> Iterator[TimestampedValue]:
        key, (start, image) = keyed
        held = dict(recent.read())
        if start in held:  # a runner repeats itself
            return
        held[start] = image
        for later in (start, start + self._size):
            before = held.get(later - self._size)
            if later in held and before is not None:
                estimate = squared_distance(_loaded(held[later]), _loaded(before))
                yield TimestampedValue((decoded_key(key), estimate), Timestamp(micros=later))
        recent.clear()
        for moment in sorted(held)[-_KEPT:]:
            recent.add((moment, held[moment]))


def _loaded(image: bytes) -> PrivateSketch:
    return PrivateSketch.from_bytes(image, max_bytes=len(image))
