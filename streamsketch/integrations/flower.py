"""Private model updates in Flower: a mod for clients and a strategy for the server. Requires the extra ``flower``."""

import logging
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg

from streamsketch.accounting.ledger import Ledger
from streamsketch.accounting.store import DamagedLedgerError
from streamsketch.errors import LedgerError, StreamsketchError
from streamsketch.local.report import Report
from streamsketch.local.updates import ModelUpdates, is_reported

_LOG = logging.getLogger("flwr")
REPORT = "report"
"""Key of the report in a message's content and in its record."""


class UpdateMod:
    """A mod for a Flower ``ClientApp`` that replaces the result of training by one private report of the update.

    The client sends only the report. Metrics and the number of examples are dropped, because they would not be private.
    The guarantee is that of `ModelUpdates` for one client and one round: ε-LDP for any two updates. The server reads
    reports with `FedAvgOfReports`. The mod is for training only, so put it on that function:
    ``@app.train(mods=[UpdateMod(updates)])``. Arrays that are floating in the model that the server sent are reported.
    Integer and boolean ones, such as ``num_batches_tracked`` of a normalisation, do not leave the client. Complex ones
    are refused.

    Parameters
    ----------
    updates
        The `ModelUpdates` that clip and randomise; the server needs the same.
    ledger
        A function of the client's ``Context`` that returns the client's own `Ledger`, which holds a budget for
        ``dataset``. Every report is charged before it is drawn. Once the budget is spent, the client replies with an
        error, from which the server learns only in how many rounds the client took part. By default there is no limit.
    dataset
        The ledger's name for the client's data.
    """

    def __init__(
        self, updates: ModelUpdates, *, ledger: Callable[[Context], Ledger] | None = None, dataset: str = "updates"
    ) -> None:
        self._updates = updates
        self._ledger = ledger
        self._dataset = None if ledger is None else dataset

    def __call__(self, message: Message, context: Context, call_next: Callable[[Message, Context], Message]) -> Message:
        """Train, and return the report instead of the reply."""
        names, before = _arrays(message)
        reply = call_next(message, context)
        if reply.has_error():
            return reply
        trained = zip(_arrays(reply)[1], before, names, strict=True)
        update = [after - start for after, start, name in trained if is_reported(start.dtype, name)]
        ledger = None if self._ledger is None else self._ledger(context)
        try:
            report = self._updates.report(update, ledger=ledger, dataset=self._dataset)
        except DamagedLedgerError:
            return Message(Error(ErrorCode.MOD_FAILED_PRECONDITION, "the ledger is damaged"), reply_to=message)
        except LedgerError:
            return Message(Error(ErrorCode.MOD_FAILED_PRECONDITION, "the privacy budget is spent"), reply_to=message)
        reply.content = RecordDict({REPORT: ConfigRecord({REPORT: report.to_bytes()})})
        return reply


class FedAvgOfReports(FedAvg):  # type: ignore[misc]
    """Flower's ``FedAvg`` over reports of `UpdateMod`. Each report counts once, and invalid ones are dropped.

    Integer and boolean arrays stay as they are in the server's model.

    A report that cannot be read, or is longer than any honest one, is dropped with a warning. A dishonest report of
    valid form moves the mean of n reports by at most ``updates.clip * updates.mechanism.longest_contribution / n``, in
    ℓ2 norm.

    Parameters
    ----------
    updates
        The `ModelUpdates` of the clients.
    options
        Keyword arguments of ``FedAvg``. Replies have no metrics.
    """

    def __init__(self, updates: ModelUpdates, **options: Any) -> None:
        super().__init__(**options)
        self._updates = updates
        self._model = ArrayRecord()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Remember the current model, and send it as ``FedAvg`` does."""
        self._model = arrays
        messages: Iterable[Message] = super().configure_train(server_round, arrays, config, grid)
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> "tuple[ArrayRecord | None, MetricRecord | None]":
        """Return the model plus the mean of the estimated updates, and no metrics; (None, None) without a report."""
        read = [reply for reply in replies if reply.has_error() or self._read(reply)]
        arrays, metrics = super().aggregate_train(server_round, read)
        if arrays is not None:  # an average of integers may have another type
            kept = {name: self._model[name] for name, held in self._held() if not held}
            arrays = ArrayRecord({name: kept.get(name, arrays[name]) for name in self._model})
        return arrays, metrics

    def _held(self) -> list[tuple[str, bool]]:
        """Return the names of the model's arrays, and whether updates of each are reported."""
        arrays = zip(self._model, self._model.to_numpy_ndarrays(), strict=True)
        return [(name, is_reported(array.dtype, name)) for name, array in arrays]

    def _read(self, reply: Message) -> bool:
        """Replace a report by the model plus the estimated update; return whether that was possible."""
        model = self._model.to_numpy_ndarrays()
        try:
            data = reply.content[REPORT][REPORT]
            report = Report.from_bytes(data, self._updates.mechanism)
            estimate = self._updates.estimate(report, like=model)
        except (StreamsketchError, KeyError, TypeError) as error:
            _LOG.warning("a report of node %s is left out: %s", reply.metadata.src_node_id, error)
            return False
        arrays = {
            name: Array(np.asarray(old + step, old.dtype) if held else old)
            for (name, held), old, step in zip(self._held(), model, estimate, strict=True)
        }
        record = ArrayRecord(arrays)
        metrics = MetricRecord({self.weighted_by_key: 1.0})
        reply.content = RecordDict({self.arrayrecord_key: record, "metrics": metrics})
        return True


def _arrays(message: Message) -> tuple[list[str], list[np.ndarray[Any, Any]]]:
    """Return the names and the arrays of a message's only record of arrays."""
    records = list(message.content.array_records.values())
    if len(records) != 1:
        raise ValueError(f"a training message must have one record of arrays, got {len(records)}")
    return list(records[0]), records[0].to_numpy_ndarrays()
