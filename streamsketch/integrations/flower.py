"""Private updates of a model in Flower: a mod of clients, and a strategy; requires the extra ``flower``."""

import logging
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg

from streamsketch.accounting import Ledger
from streamsketch.errors import LedgerError, StreamsketchError
from streamsketch.local import ModelUpdates, Report

_LOG = logging.getLogger("flwr")
REPORT = "report"
"""The key of the report, in a message's content and in its record."""


class UpdateMod:
    """A mod of a Flower ``ClientApp``: replaces what training returns by one private report of the update.

    The report is all that is sent: metrics and the number of examples are dropped, as they would not be private. The
    guarantee is that of `ModelUpdates`, for one client and one round: ε-LDP whatever its update is. The server reads
    reports with `FedAvgOfReports`. Replies to anything but training go through unchanged, so put the mod on the
    function: ``@app.train(mods=[UpdateMod(updates)])``.

    Parameters
    ----------
    updates
        How updates are clipped and randomised; the server needs the same.
    ledger
        Returns the client's own ledger for its context, in which ``dataset`` has its budget. Every report is charged
        before it is drawn. Once the budget is spent, the client replies with an error, which tells the server no more
        than how many rounds it took part in.
    dataset
        What the client's data are called in the ledger.
    """

    def __init__(
        self,
        updates: ModelUpdates,
        *,
        ledger: Callable[[Context], Ledger] | None = None,
        dataset: str = "updates",
    ) -> None:
        self._updates = updates
        self._ledger = ledger
        self._dataset = None if ledger is None else dataset

    def __call__(self, message: Message, context: Context, call_next: Callable[[Message, Context], Message]) -> Message:
        """Let the client train, and return its report in the place of its reply."""
        before = _arrays(message)
        reply = call_next(message, context)
        if reply.has_error():
            return reply
        update = [after - start for after, start in zip(_arrays(reply), before, strict=True)]
        ledger = None if self._ledger is None else self._ledger(context)
        try:
            report = self._updates.report(update, ledger=ledger, dataset=self._dataset)
        except LedgerError:
            return Message(Error(ErrorCode.MOD_FAILED_PRECONDITION, "the privacy budget is spent"), reply_to=message)
        reply.content = RecordDict({REPORT: ConfigRecord({REPORT: report.to_bytes()})})
        return reply


class FedAvgOfReports(FedAvg):  # type: ignore[misc]
    """Flower's ``FedAvg`` over the reports of `UpdateMod`: each counts once, and false ones are dropped.

    A report that cannot be read, or is longer than any honest one, is left out with a warning. An honest-looking lie
    moves the mean of n reports by at most ``updates.clip * updates.mechanism.longest_contribution / n``.

    Parameters
    ----------
    updates
        As the clients have it.
    options
        Of ``FedAvg``. Replies have no metrics.
    """

    def __init__(self, updates: ModelUpdates, **options: Any) -> None:
        super().__init__(**options)
        self._updates = updates
        self._model = ArrayRecord()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Keep the model that is sent, and send it as ``FedAvg`` does."""
        self._model = arrays
        messages: Iterable[Message] = super().configure_train(server_round, arrays, config, grid)
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> "tuple[ArrayRecord | None, MetricRecord | None]":
        """Return the model plus the mean of the estimated updates, and no metrics; None and None without a report."""
        read = [reply for reply in replies if reply.has_error() or self._read(reply)]
        found: tuple[ArrayRecord | None, MetricRecord | None] = super().aggregate_train(server_round, read)
        return found

    def _read(self, reply: Message) -> bool:
        """Put the model plus the estimated update in the place of a report; return whether that was possible."""
        model = self._model.to_numpy_ndarrays()
        try:
            data = reply.content[REPORT][REPORT]
            report = Report.from_bytes(data, self._updates.mechanism)
            estimate = self._updates.estimate(report, like=model)
        except (StreamsketchError, KeyError, TypeError) as error:
            _LOG.warning("a report of node %s is left out: %s", reply.metadata.src_node_id, error)
            return False
        arrays = [Array(np.asarray(old + step, old.dtype)) for old, step in zip(model, estimate, strict=True)]
        record = ArrayRecord(dict(zip(self._model.keys(), arrays, strict=True)))
        metrics = MetricRecord({self.weighted_by_key: 1.0})
        reply.content = RecordDict({self.arrayrecord_key: record, "metrics": metrics})
        return True


def _arrays(message: Message) -> list[np.ndarray[Any, Any]]:
    """Return the arrays of a message's only record of arrays."""
    records = list(message.content.array_records.values())
    if len(records) != 1:
        raise ValueError(f"a training message must have one record of arrays, got {len(records)}")
    arrays: list[np.ndarray[Any, Any]] = records[0].to_numpy_ndarrays()
    return arrays
