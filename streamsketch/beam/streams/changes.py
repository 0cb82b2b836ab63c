"""Comparisons of a stream's releases: between a key's consecutive windows, and between the keys of a window."""

import dataclasses
import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, get_args

import apache_beam as beam
import numpy as np
from apache_beam.coders import BytesCoder, TupleCoder, VarIntCoder
from apache_beam.transforms.userstate import BagStateSpec
from apache_beam.transforms.window import GlobalWindows, IntervalWindow, TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from streamsketch.beam.compare.blocks import gaps, keyed_block, order
from streamsketch.beam.compare.results import in_form, taken
from streamsketch.beam.intake.windows import OF_EVENTS, event_windows_of, windowed_as
from streamsketch.beam.run.runner import refuse_lost_state
from streamsketch.beam.streams.slots import decoded_key, encoded_key
from streamsketch.core.numbers import check_int
from streamsketch.data.calendar import EventWindows
from streamsketch.errors import InvalidInputError
from streamsketch.estimation.estimate import Estimate
from streamsketch.estimation.measures import By, check_by, pairwise
from streamsketch.estimation.same import SameBy, check_same_by, check_tolerance, sameness
from streamsketch.release.private_sketch import PrivateSketch

_KEPT = 4  # windows that a key waits for if they arrive out of order


@dataclasses.dataclass(frozen=True)
class WindowChange:
    """The difference between a key's releases in a window and in the window before.

    Parameters
    ----------
    estimate
        The comparison; NaN where it is not defined.
    p_value
        The p-value of `streamsketch.sameness`: small if the streams differ by more than the tolerance. None if the
        estimate is not defined.
    """

    estimate: Estimate
    p_value: float | None


class ChangesBetweenWindows(beam.PTransform):
    """Compare each key with itself in the window before: ``KV[key, PrivateSketch] → KV[key, WindowChange]``.

    The input is the output of `ReleasePerKey` in `TumblingWindows` or `CalendarWindows`. A change is in the later of
    its two windows. It is emitted once both releases have arrived, or for bounded input once all have. No further
    budget is spent. In a stream, the job's state keeps the last releases of each key, which are public.

    Each p-value is for its two windows alone: if nothing changes, about one window in twenty has a p-value of 0.05 or
    less. To control the false alarms of a finished series, call `streamsketch.changes`.

    Parameters
    ----------
    by
        As in `PairwiseDistances`.
    tolerance
        The distance, not squared and in data units, up to which windows count as the same, as in
        `streamsketch.sameness`.
    samples
        Whether units are samples of populations, as in `streamsketch.sameness`; for ``by="mean"``.

    Raises
    ------
    InvalidInputError
        If ``by`` is unknown, it has no test with ``tolerance`` or ``samples``, or the releases are in other windows. In
        the workers, as in `streamsketch.sameness`.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from apache_beam.transforms.window import TimestampedValue
    >>> from streamsketch import L1, SJLT, Agreement
    >>> from streamsketch.beam import ReleasePerKey, RowsToBatches, SketchPerKey, TumblingWindows
    >>> from streamsketch.beam.streams import ChangesBetweenWindows
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
    ...         | ChangesBetweenWindows()
    ...     )
    """

    def __init__(self, *, by: By = "distance", tolerance: float = 0.0, samples: bool = False) -> None:
        super().__init__()
        check_by(by)
        check_tolerance(tolerance)
        if tolerance or samples:
            check_same_by(by, samples=samples)
        self._test = _Test(by, tolerance, samples)

    def expand(self, releases: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        refuse_lost_state(releases.pipeline)
        windowing = releases.windowing
        if not isinstance(windowing.windowfn, OF_EVENTS):
            raise InvalidInputError(
                f"ChangesBetweenWindows compares consecutive windows, got {type(windowing.windowfn).__name__}; apply "
                "TumblingWindows(size) or CalendarWindows to the events"
            )
        kind = beam.typehints.KV[bytes, tuple[int, bytes]]
        by_key = (
            releases
            | "Name the window" >> beam.Map(_with_start).with_output_types(kind)
            | "Outside of windows" >> beam.WindowInto(GlobalWindows())
        )
        windows, change = event_windows_of(windowing.windowfn), beam.typehints.KV[Any, WindowChange]
        if releases.is_bounded:  # its windows come in any order
            compare = beam.FlatMap(_all_changes, windows, self._test).with_output_types(change)
            changes = by_key | "By key" >> beam.GroupByKey() | "Compare with the window before" >> compare
        else:
            one_by_one = beam.ParDo(_Compare(windows, self._test)).with_output_types(change)
            changes = by_key | "Compare with the window before" >> one_by_one
        return changes | "Back to their windows" >> windowed_as(windowing)


def _with_start(
    keyed: tuple[Any, PrivateSketch], window: IntervalWindow = beam.DoFn.WindowParam
) -> tuple[bytes, tuple[int, bytes]]:
    return encoded_key(keyed[0]), (int(window.start.micros), keyed[1].to_bytes())


class _Test(NamedTuple):
    """By what two windows are compared."""

    by: By
    tolerance: float
    samples: bool

    def change(self, later: PrivateSketch, before: PrivateSketch) -> WindowChange:
        """Compare two releases."""
        estimate = pairwise([later, before], by=self.by)[0, 1]
        if self.by not in get_args(SameBy) or math.isnan(estimate.value):
            return WindowChange(estimate, None)
        by: Any = self.by
        return WindowChange(estimate, sameness(later, before, self.tolerance, by=by, samples=self.samples).p_value)


def _all_changes(
    keyed: tuple[bytes, Iterable[tuple[int, bytes]]], windows: EventWindows, test: _Test
) -> Iterator[TimestampedValue]:
    """Compare all windows of a key."""
    held, name = dict(keyed[1]), decoded_key(keyed[0])
    for later in sorted(held):
        before = held.get(windows.start_of(later - 1))
        if before is not None:
            change = test.change(_loaded(held[later]), _loaded(before))
            yield TimestampedValue((name, change), Timestamp(micros=later))


class _Compare(beam.DoFn):
    RECENT = BagStateSpec("recent", TupleCoder((VarIntCoder(), BytesCoder())))

    def __init__(self, windows: EventWindows, test: _Test) -> None:
        self._windows = windows
        self._test = test

    def process(
        self, keyed: tuple[bytes, tuple[int, bytes]], recent: Any = beam.DoFn.StateParam(RECENT)
    ) -> Iterator[TimestampedValue]:
        key, (start, image) = keyed
        held = dict(recent.read())
        if start in held:  # the runner repeated an element
            return
        held[start] = image
        for later in (start, self._windows.end_of(start)):
            before = held.get(self._windows.start_of(later - 1))
            if later in held and before is not None:
                change = self._test.change(_loaded(held[later]), _loaded(before))
                yield TimestampedValue((decoded_key(key), change), Timestamp(micros=later))
        recent.clear()
        for kept in sorted(held)[-_KEPT:]:
            recent.add((kept, held[kept]))


def _loaded(image: bytes) -> PrivateSketch:
    return PrivateSketch.from_bytes(image, max_bytes=len(image))


class WindowDistances(beam.PTransform):
    """Compare all keys within each window: ``KV[key, PrivateSketch] → PCollection[list of rows]``.

    Each window yields one list, in the order of its keys, once all of its releases have arrived. A row is a dictionary
    as in `PairwiseDistances`. For many keys in a bounded pipeline, use `PairwiseDistances`. It distributes the work by
    a side input, which Flink cannot keep for streams, and its groups wait for a watermark, but releases may arrive
    after it.

    Parameters
    ----------
    keys
        Number of keys in each window.
    by
        As in `PairwiseDistances`.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from streamsketch import L1, SJLT
    >>> from streamsketch.beam import TumblingWindows
    >>> sketch = SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7).sketch()
    >>> keyed = [(key, sketch.release(epsilon=1.0, neighbours=L1(1))) for key in ("north", "south")]
    >>> pipeline = beam.Pipeline(runner="FnApiRunner")
    >>> releases = pipeline | beam.Create(keyed) | TumblingWindows(3600)
    >>> rows = releases | WindowDistances(keys=2)
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
        start, entry = placed
        images = dict([*held.read(), entry])
        if len(images) < self._keys:
            held.add(entry)
            return
        held.clear()
        pairs = _pairs([(decoded_key(key), _loaded(image)) for key, image in images.items()], self._by)
        yield TimestampedValue(pairs, Timestamp(micros=start))


def _pairs(keyed: Iterable[tuple[Any, PrivateSketch]], by: By) -> list[dict[str, Any]]:
    ordered = sorted(keyed, key=lambda item: order(item[0]))
    keys = [key for key, _ in ordered]
    block = keyed_block(0, keys, [release for _, release in ordered])
    rows, columns = np.triu_indices(len(keys), 1)
    return list(in_form((keys, keys), rows, columns, taken(gaps(block, block, by), rows, columns), "rows", by))
