"""From locally private reports to one exact sum per key."""

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.transforms.trigger import AccumulationMode
from apache_beam.transforms.window import BoundedWindow, GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from streamsketch.beam.intake.keys import METRICS
from streamsketch.beam.intake.windows import OF_EVENTS
from streamsketch.beam.run.ordering import InOrder
from streamsketch.beam.run.steps import Each, merge_group
from streamsketch.errors import InvalidInputError, WireFormatError
from streamsketch.local.aggregation import MeanAggregator
from streamsketch.local.mechanism import Mechanism
from streamsketch.local.report import Report, Reports


class MeanPerKey(beam.PTransform):
    """Add up each key's reports: ``PCollection[KV[key, reports]] → PCollection[KV[key, MeanAggregator]]``.

    An element's reports are a `Report`, a batch (`Reports`), or the bytes of one report. Each bundle adds up its own
    reports, and the partial sums are merged exactly, so totals have the same bits on any runner, with any bundling and
    retries. This step draws no noise, because reports are private before they arrive. Keys are text, bytes or integers;
    they are not protected. A batch without reports adds no key. Sums of bounded collections leave in the order of
    windows and keys.

    Parameters
    ----------
    mechanism
        The mechanism of all reports.
    drop_malformed
        Whether to leave out malformed reports and count them in the metric ``reports_dropped``. A report is malformed
        if it cannot be read, is of another mechanism, or is longer or shorter than an honest one
        (`Mechanism.honest_lengths`); the other reports of its batch are added. By default a malformed report ends the
        job, so anyone who sends reports can end it, and so does one honest report in 10^9.

    Raises
    ------
    InvalidInputError, WireFormatError
        In the workers, if a report is malformed and not dropped, or an element does not hold reports.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from streamsketch.local import PrivHS
    >>> mechanism = PrivHS(dim=3, epsilon=2.0)
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     reports = pipeline | beam.Create([("north", mechanism.randomize([0.6, 0.8, 0.0]))])
    ...     means = reports | MeanPerKey(mechanism) | beam.MapTuple(lambda key, server: (key, server.mean()))
    """

    def __init__(self, mechanism: Mechanism, *, drop_malformed: bool = False) -> None:
        super().__init__()
        if not isinstance(mechanism, Mechanism):
            raise TypeError(f"mechanism must be a Mechanism, got a {type(mechanism).__name__}")
        self._mechanism = mechanism
        self._drop_malformed = drop_malformed

    def expand(self, reports: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        sums = reports | "Add up bundles" >> beam.ParDo(
            SumBundles(self._mechanism, drop_malformed=self._drop_malformed)
        )
        # an event time does not identify other kinds of windows, nor the panes of a stream
        windowing = sums.windowing
        in_one = isinstance(windowing.windowfn, (GlobalWindows, *OF_EVENTS))
        if in_one and sums.is_bounded and windowing.accumulation_mode == AccumulationMode.DISCARDING:
            in_order, _ = sums | "Merge and sort" >> InOrder(MeanAggregator)
            return in_order
        return (
            sums
            | "Gather partial sums" >> beam.GroupByKey()
            | "Merge partial sums"
            >> beam.ParDo(Each(merge_group)).with_output_types(beam.typehints.KV[Any, MeanAggregator])
        )

    def display_data(self) -> dict[str, Any]:
        """Show the public mechanism in the runner's interface."""
        return {"mechanism": self._mechanism.to_json(), "drop_malformed": self._drop_malformed}


@beam.typehints.with_output_types(beam.typehints.KV[Any, MeanAggregator])
class SumBundles(beam.DoFn):
    """Add up each bundle's reports by key and window; emit the sums at its end, or earlier if they are large.

    Parameters
    ----------
    mechanism, drop_malformed
        As those of `MeanPerKey`.
    flush_bytes
        The size of one bundle's sums, for all keys and windows, at which they are emitted.
    """

    def __init__(self, mechanism: Mechanism, *, drop_malformed: bool = False, flush_bytes: int = 1 << 27) -> None:
        self._mechanism = mechanism
        self._drop_malformed, self._flush_bytes = drop_malformed, flush_bytes

    def start_bundle(self) -> None:
        """Begin without sums."""
        self._sums: dict[tuple[BoundedWindow, Any], MeanAggregator] = {}

    def process(self, element: Any, window: BoundedWindow = beam.DoFn.WindowParam) -> Iterator[WindowedValue]:
        """Add one key's reports; yield the sums when they have grown large."""
        return self._sums_when_large(element, window)  # Beam warns of a process that has both yield and return

    def _sums_when_large(self, element: Any, window: BoundedWindow) -> Iterator[WindowedValue]:
        try:
            key, reports = element
        except (TypeError, ValueError):
            raise InvalidInputError(
                f"elements must be pairs (key, reports), got a {type(element).__name__} of another shape"
            ) from None
        if type(key) not in (str, bytes, int):  # Beam has no deterministic bytes for others
            raise InvalidInputError(f"keys must be text, bytes or integers, got a {type(key).__name__}; cast them")
        if not isinstance(reports, Report | Reports | bytes):
            raise InvalidInputError(f"a key's reports must be Report, Reports or bytes, got a {type(reports).__name__}")
        if isinstance(reports, Reports) and not len(reports):
            return  # an empty batch adds no key
        place = window, key
        total = self._sums.get(place) or MeanAggregator(self._mechanism)
        try:
            read = Report.from_bytes(reports, self._mechanism) if isinstance(reports, bytes) else reports
            dropped = self._added(total, read)
        except (InvalidInputError, WireFormatError):
            if not self._drop_malformed:
                raise
            dropped = len(reports) if isinstance(reports, Reports) else 1
        if dropped:
            Metrics.counter(METRICS, "reports_dropped").inc(dropped)
        if not total.count:
            return
        self._sums[place] = total
        if 8 * self._mechanism.state_dim * len(self._sums) > self._flush_bytes:
            yield from self._flush()

    def _added(self, total: MeanAggregator, reports: Report | Reports) -> int:
        """Add reports, and return how many were left out."""
        if self._drop_malformed:
            return total.add_plausible(reports)
        total.add(reports)
        return 0

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Yield the sums that are left."""
        yield from self._flush()

    def _flush(self) -> Iterator[WindowedValue]:
        for (window, key), total in self._sums.items():
            yield WindowedValue((key, total), window.max_timestamp(), (window,))
        self._sums = {}
