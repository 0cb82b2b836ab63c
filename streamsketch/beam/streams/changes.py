"""Comparisons of a stream's releases: of a key with the window before, and between the keys of a window."""

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.coders import BytesCoder, TupleCoder, VarIntCoder
from apache_beam.transforms.userstate import BagStateSpec
from apache_beam.transforms.window import FixedWindows, GlobalWindows, IntervalWindow, TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from streamsketch.beam.compare.blocks import gaps, keyed_block, order
from streamsketch.beam.compare.results import in_form, taken
from streamsketch.beam.intake.windows import windowed_as
from streamsketch.beam.run.runner import refuse_lost_state
from streamsketch.beam.streams.slots import decoded_key, encoded_key
from streamsketch.core import check_int
from streamsketch.errors import InvalidInputError
from streamsketch.estimation import By, Estimate, check_by, pairwise
from streamsketch.release import PrivateSketch

_KEPT = 4  # windows that a key waits for, should they come out of order


class WindowChanges(beam.PTransform):
    """Compare each key with itself in the window before: ``KV[key, PrivateSketch] → KV[key, Estimate]``.

    Input is what `ReleasePerKey` gives in `TumblingWindows`; an estimate is in the later of its two windows and comes
    when both releases have. Nothing more is spent. The last release of each key is kept in the job's state: it is
    published anyway.

    Parameters
    ----------
    by
        ``"distance"`` (squared), ``"cosine"``, ``"profile"`` or ``"mean"``, as in `PairwiseDistances`.

    Raises
    ------
    InvalidInputError
        For another ``by``, and for releases in other windows.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from apache_beam.transforms.window import TimestampedValue
    >>> from streamsketch import L1, SJLT, Agreement
    >>> from streamsketch.beam import ReleasePerKey, RowsToBatches, SketchPerKey, TumblingWindows
    >>> from streamsketch.beam.streams import WindowChanges
    >>> from streamsketch.release import AdditiveNoise
    >>> projection = SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7)
    >>> agreement = Agreement.of(projection, key="carrier", index="day", value="flights")
    >>> noise = AdditiveNoise(epsilon=1.0, neighbours=L1(1))
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     changes = (
    ...         pipeline
    ...         | beam.Create([TimestampedValue(("AA", 17, 1), 3600)])
    ...         | TumblingWindows(3600)
    ...         | RowsToBatches(agreement)
    ...         | SketchPerKey(agreement)
    ...         | ReleasePerKey(noise, public_keys=["AA"], public_windows=(0, 7200))
    ...         | WindowChanges()
    ...     )
    """

    def __init__(self, *, by: By = "distance") -> None:
        super().__init__()
        check_by(by)
        self._by: By = by

    def expand(self, releases: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        refuse_lost_state(releases.pipeline)
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
            >> beam.ParDo(_Compare(windowing.windowfn.size.micros, self._by)).with_output_types(
                beam.typehints.KV[Any, Estimate]
            )
            | "Back to their windows" >> windowed_as(windowing)
        )


def _with_start(
    keyed: tuple[Any, PrivateSketch], window: IntervalWindow = beam.DoFn.WindowParam
) -> tuple[bytes, tuple[int, bytes]]:
    return encoded_key(keyed[0]), (int(window.start.micros), keyed[1].to_bytes())


class _Compare(beam.DoFn):
    RECENT = BagStateSpec("recent", TupleCoder((VarIntCoder(), BytesCoder())))

    def __init__(self, size: int, by: By) -> None:
        self._size = size
        self._by: By = by

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
                estimates = pairwise([_loaded(held[later]), _loaded(before)], by=self._by)
                yield TimestampedValue((decoded_key(key), estimates[0, 1]), Timestamp(micros=later))
        recent.clear()
        for kept in sorted(held)[-_KEPT:]:
            recent.add((kept, held[kept]))


def _loaded(image: bytes) -> PrivateSketch:
    return PrivateSketch.from_bytes(image, max_bytes=len(image))


class WindowDistances(beam.PTransform):
    """Compare all keys within each window: ``KV[key, PrivateSketch] → PCollection[list of rows]``.

    One list a window, in the order of its keys, when all of them are there; a row is a dictionary as
    `PairwiseDistances` gives it. That transform is for more keys: it shares the work out by a side input, which Flink
    cannot keep for streams, and its groups wait for a watermark that releases may come behind.

    Parameters
    ----------
    keys
        How many keys a window has.
    by
        As in `PairwiseDistances`.
    """

    def __init__(self, keys: int, *, by: By = "distance") -> None:
        super().__init__()
        check_by(by)
        self._by: By = by
        self._keys = check_int(keys, "keys", 1)

    def expand(self, releases: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        refuse_lost_state(releases.pipeline)
        windowing = releases.windowing
        kind = beam.typehints.KV[int, tuple[bytes, bytes]]
        return (
            releases
            | "By window" >> beam.Map(_by_start).with_output_types(kind)
            | "Outside of windows" >> beam.WindowInto(GlobalWindows())
            | "Compare all" >> beam.ParDo(_CompareAll(self._keys, self._by)).with_output_types(list[dict[str, Any]])
            | "Back to their windows" >> windowed_as(windowing)
        )


def _by_start(
    keyed: tuple[Any, PrivateSketch], window: IntervalWindow = beam.DoFn.WindowParam
) -> tuple[int, tuple[bytes, bytes]]:
    return int(window.start.micros), (encoded_key(keyed[0]), keyed[1].to_bytes())


class _CompareAll(beam.DoFn):
    HELD = BagStateSpec("held", TupleCoder((BytesCoder(), BytesCoder())))

    def __init__(self, keys: int, by: By) -> None:
        self._keys = keys
        self._by: By = by

    def process(
        self, placed: tuple[int, tuple[bytes, bytes]], held: Any = beam.DoFn.StateParam(HELD)
    ) -> Iterator[TimestampedValue]:
        start, one = placed
        found = dict([*held.read(), one])
        if len(found) < self._keys:
            held.add(one)
            return
        held.clear()
        pairs = _pairs([(decoded_key(key), _loaded(image)) for key, image in found.items()], self._by)
        yield TimestampedValue(pairs, Timestamp(micros=start))


def _pairs(keyed: Iterable[tuple[Any, PrivateSketch]], by: By) -> list[dict[str, Any]]:
    ordered = sorted(keyed, key=lambda one: order(one[0]))
    keys = [key for key, _ in ordered]
    block = keyed_block(0, keys, [release for _, release in ordered])
    rows, columns = np.triu_indices(len(keys), 1)
    return list(in_form((keys, keys), rows, columns, taken(gaps(block, block, by), rows, columns), "rows", by))
