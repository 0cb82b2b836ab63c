"""The version of a window's sums, with each of them: so that a sink publishes one version of a window."""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import apache_beam as beam
from apache_beam.coders import BytesCoder, TupleCoder
from apache_beam.transforms.userstate import BagStateSpec, ReadModifyWriteStateSpec
from apache_beam.transforms.window import BoundedWindow, GlobalWindows, IntervalWindow, TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from streamsketch.beam.compare.blocks import order
from streamsketch.beam.intake.windows import windowed_as
from streamsketch.beam.run.ordering import InOrder
from streamsketch.beam.run.runner import refuse_lost_state
from streamsketch.beam.run.runs import RunSecret
from streamsketch.beam.run.steps import Each, Step
from streamsketch.beam.streams.slots import decoded_key, encoded_key
from streamsketch.errors import InvalidInputError
from streamsketch.once.keys import number_bytes
from streamsketch.once.versions import version_of, version_tag

USE = "version"
"""The use of the secret that keys versions, which is the same in all epochs of a stream."""


class VersionedDraw(Protocol):
    """What a draw knows of its totals, for their version."""

    @property
    def summed(self) -> type[Any]:
        """Type of the totals."""

    def name(self, total: Any, window: BoundedWindow) -> tuple[bytes, ...]:
        """Return the name of a draw (`name_of_draw`), the same in all epochs: **secret**."""

    def pack(self, total: Any) -> bytes:
        """Return a total as bytes."""

    def unpack(self, packed: bytes) -> Any:
        """Return the total."""

    def start(self, total: Any) -> int | None:
        """Return where the window of a row begins, in microseconds since 1970; None for totals that are no rows."""


class WithVersion(beam.PTransform):
    """Add the version of its window to each total: ``KV[key, total] → KV[key, (total, version)]``.

    The tags of all keys of a window, 32 bytes each, are gathered, and their digest is the version (`version_of`). A
    second shuffle brings it to the totals, in the order of windows and keys. Rows of a schedule that never end have
    left their windows, so they are gathered by number once all keys have one: in the job's state, which is **secret**.

    Parameters
    ----------
    draw
        The draw of the totals.
    run
        The run's secret.
    shards
        As in `InOrder`.
    keys
        The number of keys in each window, None if it is not known.
    """

    def __init__(self, draw: VersionedDraw, run: RunSecret, *, shards: int | None, keys: int | None) -> None:
        super().__init__()
        self._draw, self._run, self._shards, self._keys = draw, run, shards, keys

    def expand(self, totals: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        draw = self._draw
        # rows are pairs of a number and bytes
        kind = tuple[int, bytes] if hasattr(draw, "sums") else draw.summed
        result = beam.typehints.KV[Any, tuple[kind, bytes]]  # type: ignore[valid-type]
        tag = beam.ParDo(_Tag(draw), run=self._run).with_output_types(
            beam.typehints.KV[int, tuple[bytes, bytes, bytes]]
        )
        if hasattr(draw, "sums") and not totals.is_bounded:
            if self._keys is None:
                raise InvalidInputError(
                    "rows of a schedule in a stream without an end need the number of keys before the job runs; pass "
                    "public_keys as a list"
                )
            refuse_lost_state(totals.pipeline)
            together = beam.ParDo(_Together(draw, self._keys)).with_output_types(result)
            return (
                totals
                | "Tag" >> tag
                | "Outside of windows" >> beam.WindowInto(GlobalWindows())
                | "Rows of a window" >> together
                # as in SumBySchedule: the publishing step must not be fused with one that has state
                | "To what publishes" >> beam.transforms.util.ReshufflePerKey()
                | "Back to their windows" >> windowed_as(totals.windowing)
            )
        part = beam.typehints.KV[Any, list[bytes]]
        tags = totals | "Tag" >> tag
        versions = (
            tags
            | "Tags alone"
            >> beam.ParDo(Each(_tag_alone)).with_output_types(beam.typehints.KV[int, tuple[bytes, bytes]])
            | "Tags of a window" >> beam.GroupByKey()
            | "Version" >> beam.ParDo(Each(_versions)).with_output_types(part)
        )
        packed = tags | "Totals alone" >> beam.ParDo(Each(_total_alone)).with_output_types(part)
        # two parts of each key come together; no part is late, as both are made when a window ends
        both, _ = (packed, versions) | beam.Flatten() | "To their totals" >> InOrder(list[bytes], self._shards)
        return both | "Unpack" >> beam.ParDo(Each(_unpacked, draw)).with_output_types(result)


_TOTAL, _VERSION = b"t", b"v"


class _Tag(Step):
    def __init__(self, draw: VersionedDraw) -> None:
        self._draw = draw

    def process(
        self, keyed: tuple[Any, Any], window: BoundedWindow = beam.DoFn.WindowParam, *, run: RunSecret
    ) -> Iterator[tuple[int, tuple[bytes, bytes, bytes]]]:
        key, total = keyed
        encoded, start = encoded_key(key), self._draw.start(total)
        tag = version_tag(run.derive(USE, ""), [encoded, *self._draw.name(total, window)])
        yield 0 if start is None else start, (encoded, tag, self._draw.pack(total))


def _tag_alone(element: tuple[int, tuple[bytes, bytes, bytes]]) -> Iterator[tuple[int, tuple[bytes, bytes]]]:
    _, (key, tag, _) = element
    yield 0, (key, tag)


def _total_alone(element: tuple[int, tuple[bytes, bytes, bytes]]) -> Iterator[tuple[Any, list[bytes]]]:
    _, (key, _, packed) = element
    yield decoded_key(key), [_TOTAL + packed]


def _versions(group: tuple[int, Iterable[tuple[bytes, bytes]]]) -> Iterator[tuple[Any, list[bytes]]]:
    tags = {decoded_key(key): tag for key, tag in group[1]}
    version = version_of(tags)
    for key in tags:
        yield key, [_VERSION + version]


def _unpacked(keyed: tuple[Any, list[bytes]], draw: VersionedDraw) -> Iterator[tuple[Any, tuple[Any, bytes]]]:
    key, parts = keyed
    by_kind = {part[:1]: part[1:] for part in parts}
    yield key, (draw.unpack(by_kind[_TOTAL]), by_kind[_VERSION])


class _Together(beam.DoFn):
    """Gathers the rows of a window, and emits them with their version once there is one of each key."""

    HELD = BagStateSpec("held", TupleCoder((BytesCoder(), BytesCoder(), BytesCoder())))
    DONE = ReadModifyWriteStateSpec("done", BytesCoder())

    def __init__(self, draw: VersionedDraw, keys: int) -> None:
        self._draw, self._keys = draw, keys

    def process(
        self,
        placed: tuple[int, tuple[bytes, bytes, bytes]],
        held: Any = beam.DoFn.StateParam(HELD),
        done: Any = beam.DoFn.StateParam(DONE),
    ) -> Iterator[TimestampedValue]:
        start, row = placed
        if done.read() is not None:  # the runner repeated an element
            return
        rows = {entry[0]: entry for entry in [*held.read(), row]}
        if len(rows) < self._keys:
            held.add(row)
            return
        held.clear()
        done.write(b"1")
        version = version_of({decoded_key(key): tag for key, tag, _ in rows.values()})
        for key in sorted(map(decoded_key, rows), key=order):
            total = self._draw.unpack(rows[encoded_key(key)][2])
            yield TimestampedValue((key, (total, version)), Timestamp(micros=start))


def window_start(window: BoundedWindow) -> bytes:
    """Return where a window begins, for the name of what is drawn in it."""
    start = window.start.micros if isinstance(window, IntervalWindow) else 0
    return number_bytes(int(start))
