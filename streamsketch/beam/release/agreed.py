"""Releases by an agreement: batches of rows in, releases out, as every engine makes them."""

import os
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.utils.timestamp import Timestamp

from streamsketch.agreement.agreement import Agreement
from streamsketch.agreement.terms import Selected, keys_text
from streamsketch.agreement.windows import Windows
from streamsketch.beam.intake.bound import BoundContributions
from streamsketch.beam.intake.sketch import SketchPerKey
from streamsketch.beam.intake.windows import CalendarWindows, TumblingWindows, column_of
from streamsketch.beam.release.release import ReleasePerKey
from streamsketch.beam.release.select import SelectKeys
from streamsketch.errors import InvalidInputError
from streamsketch.intake.by_window import numbers_of
from streamsketch.intake.columns import without_views
from streamsketch.release.agreed_publisher import publisher_of
from streamsketch.release.in_windows import publisher_in_windows
from streamsketch.sketching.in_windows import windows_in


class Release(beam.PTransform):
    """Release rows as their agreement says: ``PCollection[batches] → PCollection[KV[key, published]]``.

    It bounds units, sketches, and publishes the keys of the agreement with its budget and mechanism, as
    ``agreement.release(rows)`` does in one process: with the same exact sketches and the same guarantee. Windows that
    are releases are Beam's windows, each released when the watermark passes its end; windows that are keys become part
    of the keys. `ReleasePerKey` describes the noise, retries and order.

    Parameters
    ----------
    agreement
        An agreement with terms and a key column.
    ledger, dataset, count_private_data
        As in `ReleasePerKey`.

    Raises
    ------
    InvalidInputError
        If the agreement has no terms, or something that this engine does not do; the sentence says what does. As in
        `BoundContributions` and `ReleasePerKey`.

    Examples
    --------
    >>> import apache_beam as beam
    >>> import pyarrow as pa
    >>> import streamsketch as ss
    >>> from streamsketch.beam.release.agreed import Release
    >>> sales = pa.table({"shop": ["north", "south"], "item": ["tea", "jam"], "customer": ["Ann", "Bob"]})
    >>> agreement = ss.agree(
    ...     sales,
    ...     ss.SJLT(sketch_dim=64, sparsity=4, seed=7),
    ...     index="item",
    ...     key="shop",
    ...     unit="customer",
    ...     epsilon=1,
    ...     delta=1e-6,
    ...     keys=["north", "south"],
    ... )
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     releases = pipeline | beam.Create([sales]) | Release(agreement)
    """

    def __init__(
        self,
        agreement: Agreement,
        *,
        ledger: str | os.PathLike[str] | None = None,
        dataset: str | None = None,
        count_private_data: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(agreement, Agreement):
            raise TypeError(f"Release needs an Agreement, got a {type(agreement).__name__}")
        publisher_of(agreement).calibrated(agreement.projection)  # fail before the job runs
        _check(agreement)
        # where units are clipped, the bounds of each window name it
        asserted = agreement.unit is None and agreement.windows_are_releases and not agreement.layout.by_rows
        self._publisher, self._asserted = publisher_of(agreement), asserted
        if asserted:  # of each window by itself, as the agreement says
            self._publisher = publisher_in_windows(agreement)
        self._agreement = agreement
        self._options: dict[str, Any] = {"ledger": ledger, "dataset": dataset, "count_private_data": count_private_data}

    def display_data(self) -> dict[str, Any]:
        """Show the agreement in the runner's interface."""
        return {"agreement": self._agreement.fingerprint}

    def expand(self, rows: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        agreement, windows = self._agreement, self._agreement.windows
        keys: dict[str, Any] = {}
        published = agreement.published_keys
        listed = list(published) if isinstance(published, tuple) else None
        batches = rows
        if windows is not None and agreement.windows_are_releases:
            if agreement.unit is not None:
                batches |= "Rows with a time" >> beam.FlatMap(_timed, windows).with_output_types(pa.RecordBatch)
            batches |= "Windows" >> _windows(agreement)
            keys["public_windows"] = _range(agreement, bounded=rows.is_bounded)
        events: Any = batches
        if agreement.unit is not None:
            events = batches | "Bound" >> BoundContributions(agreement, public_keys=listed)
        sketches = events | "Sketch" >> SketchPerKey(agreement)
        if isinstance(published, Selected):
            keys["selected_keys"] = events | "Select keys" >> SelectKeys(**published.budget.to_dict())
        elif listed is None:
            keys["keys_are_public"] = True
        else:
            keys["public_keys"] = listed
        return sketches | "Release" >> ReleasePerKey(
            self._publisher, **keys, projection=agreement.projection, assert_bounds=self._asserted, **self._options
        )


def _check(agreement: Agreement) -> None:
    """Raise `InvalidInputError` for what this engine does not do."""
    windows = agreement.windows
    if agreement.key is None:
        raise InvalidInputError(
            "Beam releases keys, and the agreement has no key column: agree on one (key=…), or use "
            "agreement.release(rows) in one process"
        )
    if windows is None:
        return
    if windows.period is not None or (agreement.layout.limits_windows and agreement.unit is not None):
        raise InvalidInputError(
            "units are kept to some of the windows by agreement.release(rows) and `streamsketch stream file`, for a "
            "schedule, and by `streamsketch stream beam`, for a schedule or a period: use one of these"
        )
    if agreement.windows_are_releases and not isinstance(agreement.keys, tuple):
        raise InvalidInputError(
            f"Beam releases the same keys in each window, and the agreement has {keys_text(agreement.keys)}: list the "
            "keys, or use agreement.release(rows) in one process"
        )


def _timed(rows: Any, windows: Windows) -> Iterator[pa.RecordBatch]:
    """Yield the rows whose time can be read: one that cannot must not end a job on many units."""
    rows = without_views(rows)
    for batch in rows.to_batches() if isinstance(rows, pa.Table) else [rows]:
        name = windows.time.name
        timed, _ = numbers_of(column_of(batch, name), name, windows.format, windows.of_times)
        yield batch if timed.all() else batch.filter(pa.array(timed))


def _windows(agreement: Agreement) -> beam.PTransform:
    windows: Any = agreement.windows
    named: dict[str, Any] = {"column": windows.time.name, "time_format": windows.format}
    if windows.is_by_calendar:
        return CalendarWindows(windows.of_times.period, windows.of_times.zone, **named)
    size, offset = windows.of_times
    return TumblingWindows(size / 10**6, offset=offset / 10**6, **named)


def _range(agreement: Agreement, *, bounded: bool) -> tuple[Timestamp, Timestamp | None]:
    """Return the start of the first window, and the end of the last; None for a stream without an end."""
    windows = windows_in(agreement)
    first, end = windows.first_number, windows.end_of(agreement.layout)
    if first is None or (end is None and bounded):
        raise InvalidInputError(
            "which windows have data is private: state the first and the last of the agreement's windows, or the first "
            "alone for a stream without an end"
        )
    stop = None if end is None else Timestamp(micros=int(windows.of_times.start(end)))
    return Timestamp(micros=int(windows.of_times.start(first))), stop
