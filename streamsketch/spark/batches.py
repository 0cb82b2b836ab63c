"""Structured Streaming: release each batch of a stream once, even if it is retried."""

import dataclasses
import datetime as dt
import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamsketch.accounting.ledger import Ledger
from streamsketch.agreement.agreement import Agreement
from streamsketch.core.documents import TableKey
from streamsketch.errors import InvalidInputError, with_reason
from streamsketch.once.alarms import REFUSED, Alarm, keep
from streamsketch.once.counts import RowAlarms, RowCounts, RowLimits, Tally
from streamsketch.once.keys import hkdf
from streamsketch.once.logs import log_event
from streamsketch.once.reasons import public_text, reason_of
from streamsketch.once.release_once import ReleaseOnce
from streamsketch.once.root_keys import RootKey, fetch_root_key
from streamsketch.once.sinks import Sink
from streamsketch.once.slots import start_of
from streamsketch.once.versions import version_slot
from streamsketch.privacy.assertions import conditions_of_keys, with_conditions
from streamsketch.privacy.neighbours import Clip, Neighbours
from streamsketch.release.publishers import Publisher
from streamsketch.spark.releases import checked_publisher
from streamsketch.spark.sketches import Work

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOG = logging.getLogger(__name__)
_BATCH = "in one batch"


class ReleaseBatches:
    """Release each batch of a stream once, as the function for ``writeStream.foreachBatch``.

    Each batch is a window. Its rows are sketched as in `sketch_per_key`, and the driver releases the exact sums with
    `streamsketch.streams.ReleaseOnce`. Noise and clipping are functions of the secret, the window, the key and the
    exact sums. So a retried batch, for example after the driver was killed, publishes the same bytes. A batch of the
    same number with other rows publishes nothing new and raises an alarm, because its slots are filled. Spark gives a
    batch the same rows again if the query has a ``checkpointLocation`` and its source can be read again, such as files
    or Kafka. If the checkpoint was lost, batches are counted from 0 again: the first one with other rows than its
    window was released with ends the query, as later windows are released already.

    Batches do not begin at full hours. With the trigger ``availableNow=True``, run every hour by a scheduler, or with
    ``processingTime="1 hour"``, a batch has about an hour of rows. A batch without rows is not released. So each
    guarantee has a condition: the rows of one unit do not decide in which batch those of others are, and which batches
    have rows is public. Limits such as ``maxOffsetsPerTrigger`` violate it, because one more row shifts all others.

    If the agreement has a unit column, each unit is bounded within a batch, and the guarantee is for one "customer in
    one batch". A unit in several batches spends ε in each.

    Parameters
    ----------
    agreement, neighbours, max_keys, clip, shards
        As in `sketch_per_key`.
    publisher
        As in `release`.
    secret, stream, public_keys, ledger, dataset, epoch
        As in `streamsketch.streams.ReleaseOnce`; each batch is charged once.
    sink
        A sink of `streamsketch.streams` for the releases. It must not be open, because each batch opens and closes it.
    window
        A function of a batch's number, from 0 on, that returns the start of its window: microseconds after 1970, or a
        time with a time zone, different for each number. By default batch 17 is the window 1970-01-01T00:00:17Z.
    alarmed
        A function that is called with the alarms of a batch, if there are any. They are **secret** and for the operator
        only. The log has them in any case, and the query continues.
    alarms
        Folder for the same alarms, one file each as of every other engine: **secret**. `stream watch` counts them.
    counts
        Folder for the counts of rows that were read and dropped, as ``counts`` of a job: **secret**. `stream watch`
        and `streamsketch.jobs.DroppedRows` read them. A row counts once a batch, however often tasks ran; a batch that
        is tried again counts again.
    limits
        Which shares of a batch's rows may be lost before the log has an alarm, such as ``job.limits``; by default those
        of `RowLimits`. The codes are those of every other engine. Spark has no late rows, no rows before a first window
        and no messages: batches are windows of arrival, and the query decodes messages itself.

    Raises
    ------
    TypeError, InvalidInputError
        As in `sketch_per_key`, `release` and `ReleaseOnce`.

    Examples
    --------
    >>> import secrets
    >>> import streamsketch as ss
    >>> from streamsketch.release import AdditiveNoise
    >>> from streamsketch.spark import ReleaseBatches
    >>> from streamsketch.streams import FileSink
    >>> projection = ss.SJLT(sketch_dim=64, sparsity=4, seed=7)
    >>> five = ss.L1(5, unit="buyer")
    >>> columns = {"key": "shop", "index": "item", "unit": "buyer"}
    >>> agreement = ss.Agreement.of(projection, **columns, neighbours=five)
    >>> publish = ReleaseBatches(
    ...     agreement,
    ...     AdditiveNoise(epsilon=1.0, neighbours=five),
    ...     secrets.token_bytes(32),
    ...     FileSink(getfixture("tmp_path")),
    ...     "sales",
    ...     public_keys=["north", "south"],
    ... )
    >>> publish.guarantee.neighbours
    L1(5, unit='buyer in one batch')

    For a stream ``sales``: ``sales.writeStream.foreachBatch(publish).option("checkpointLocation", …).start()``.
    """

    def __init__(  # noqa: PLR0913 - what is sketched, and how it is released
        self,
        agreement: Agreement,
        publisher: Publisher[Any],
        secret: bytes | RootKey,
        sink: Sink,
        stream: str,
        *,
        public_keys: Iterable[TableKey] | None = None,
        neighbours: Neighbours | None = None,
        max_keys: int | None = None,
        clip: Clip | None = None,
        shards: int = 64,
        ledger: Ledger | None = None,
        dataset: str | None = None,
        epoch: int = 1,
        window: Callable[[int], int | dt.datetime] | None = None,
        alarmed: Callable[[list[Alarm]], Any] | None = None,
        alarms: str | os.PathLike[str] | None = None,
        counts: str | os.PathLike[str] | None = None,
        limits: RowLimits | None = None,
    ) -> None:
        bounds: dict[str, Any] = {"neighbours": neighbours, "max_keys": max_keys, "clip": clip, "shards": shards}
        self._work = Work(agreement, public_keys=public_keys, **bounds)
        self._window, self._alarmed = _seconds if window is None else window, alarmed
        self._sink, self._stream = sink, stream
        self._alarms = None if alarms is None else Path(alarms)
        self._counts = None if counts is None else os.fspath(counts)
        self._rows, self._complains = RowAlarms(RowLimits() if limits is None else limits), frozenset[str]()
        self._bounds, unit, publish = self._work.bounds, None, publisher
        enforced = self._bounds.neighbours
        if enforced is not None:
            unit = enforced.unit
            of_batch = dataclasses.replace(enforced, unit=f"{unit} {_BATCH}")
            self._bounds = dataclasses.replace(self._bounds, neighbours=of_batch)
            if isinstance(publisher, Publisher) and publisher.neighbours == enforced:
                source: Any = publisher
                publish = dataclasses.replace(source, neighbours=of_batch)
        facts = _Facts(self._bounds, agreement)
        calibrated = checked_publisher(publish, facts).calibrated(agreement.projection)
        guarantee = calibrated.guarantee_for(facts)
        condition = (
            f"the rows of one {unit or guarantee.neighbours.unit} do not decide in which batch those of others are, "
            f"and which batches have rows is public"
        )
        unlisted = agreement.key is not None and self._work.public_keys is None
        of_keys = conditions_of_keys(keys_are_public=unlisted, in_windows=True)
        guarantee = with_conditions(guarantee, condition, *of_keys)
        calibrated = calibrated.with_guarantee(guarantee)
        self.guarantee = guarantee
        """The guarantee of all releases of a batch together."""
        self._key = secret if isinstance(secret, bytes) else fetch_root_key(secret)
        self._once = ReleaseOnce(
            calibrated,
            self._key,
            sink,
            stream,
            public_keys=self._work.public_keys,
            ledger=ledger,
            dataset=dataset,
            unit=unit,
            epoch=epoch,
        )

    def __call__(self, batch: "DataFrame", number: int) -> None:
        """Release a batch; errors as `ReleaseOnce.release` and `KeyedSketches.table`, after which it is tried again.

        Raises
        ------
        InvalidInputError
            Also if the window was released with other rows, and so was a later one: the checkpoint was lost.
        """
        try:
            self._release(batch, number)
        except Exception as error:
            named = {"reason": reason_of(error), "error": type(error).__name__}
            log_event(_LOG, logging.ERROR, "failed", **named, text=public_text(error))
            raise

    def _release(self, batch: "DataFrame", number: int) -> None:
        start = start_of(self._window(number))
        # in all epochs those of the first: equal rows are bounded alike, and so are one version of their window
        named = (b"ReleaseBatches", self._stream.encode(), b"bounds", b"1", b"%d" % start)
        sketches = self._work.sketches(batch, hkdf(self._key, *named), self._bounds)
        table = sketches.table()
        self._count(sketches.row_counts)
        with self._sink:  # opened by the thread that puts, as connections to SQLite belong to one
            _, alarms = self._once.release(start, table)
            later = version_slot(self._stream, start_of(self._window(number + 1)))
            is_other = any(alarm.result != REFUSED for alarm in alarms)
            is_passed = is_other and self._sink.get(later) is not None
        if alarms and self._alarms is not None:
            keep(alarms, self._alarms)
        if alarms and self._alarmed is not None:
            self._alarmed(alarms)
        if is_passed:
            text = (
                f"batch {number:,} has other rows than its window was released with, and the window of batch "
                f"{number + 1:,} is released already: the query's checkpoint was lost, so Spark counts batches anew. "
                "Restore the checkpoint; or start a new one from the source's first unread record, with a "
                "window=… that names no window that is in the sink"
            )
            raise with_reason(InvalidInputError(text), "checkpoint_lost")

    def _count(self, counts: RowCounts) -> None:
        """Note a batch's rows for monitors, and log what is wrong with them since the batch before."""
        if self._counts is not None:
            tally = Tally.of(self._counts)
            tally.add(counts)
            tally.flush(now=True)
        alarms = self._rows.look(counts, "of a batch")
        for code in sorted(alarms.keys() - self._complains):
            log_event(_LOG, logging.WARNING, code, text=alarms[code])
        self._complains = frozenset(alarms)


@dataclasses.dataclass(frozen=True)
class _Facts:
    """The public facts about the sketches of every batch."""

    bounds: Any
    agreement: Agreement


def _seconds(number: int) -> int:
    return number * 10**6
