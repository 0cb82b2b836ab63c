"""Flower's mod and strategy for private updates, without a simulator; `make test-federated` runs them."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower has an environment of its own (make test-federated)")

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from streamsketch import Ledger
from streamsketch.integrations.flower import REPORT, FedAvgOfReports, UpdateMod
from streamsketch.local import ModelUpdates, PrivUnitG

UPDATES = ModelUpdates(mechanism=PrivUnitG(dim=6, epsilon=256.0, ball=True), clip=2.0, unit="phone")
MODEL = ArrayRecord([np.ones((2, 2), np.float32), np.zeros(2)])
CONTEXT = Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config={})
SECRET = 321.0
TaskIdentity.run_id = TaskIdentity.task_id = TaskIdentity.node_id = 1  # which a process of Flower sets


def asked() -> Message:
    content = RecordDict({"arrays": MODEL, "config": ConfigRecord({})})
    return Message(content, dst_node_id=1, message_type="train")


def trained(message: Message, context: Context) -> Message:
    del context
    arrays = ArrayRecord([array + 0.5 for array in message.content["arrays"].to_numpy_ndarrays()])
    return Message(RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": SECRET})}), reply_to=message)


def aggregate(replies: list[Message]) -> Any:
    strategy = FedAvgOfReports(UPDATES, fraction_evaluate=0.0)
    strategy._model = MODEL
    return strategy.aggregate_train(1, replies)


def test_a_reply_holds_one_report_and_nothing_else() -> None:
    reply = UpdateMod(UPDATES)(asked(), CONTEXT, trained)
    assert list(reply.content) == [REPORT]
    assert list(reply.content[REPORT]) == [REPORT]


def test_the_server_adds_the_mean_of_the_updates_to_the_model() -> None:
    arrays, metrics = aggregate([UpdateMod(UPDATES)(asked(), CONTEXT, trained) for _ in range(60)])
    found, start = arrays.to_numpy_ndarrays(), MODEL.to_numpy_ndarrays()
    assert list(arrays) == list(MODEL)
    assert [array.dtype for array in found] == [array.dtype for array in start]
    for array, before in zip(found, start, strict=True):
        assert np.allclose(array, before + 0.5, atol=0.3)
    assert not metrics


@pytest.mark.parametrize("data", [b"", b"no report", UPDATES.report(np.zeros(6)).to_bytes()[:-4]])
def test_reports_that_cannot_be_read_are_left_out(data: bytes) -> None:
    false = UpdateMod(UPDATES)(asked(), CONTEXT, trained)
    false.content = RecordDict({REPORT: ConfigRecord({REPORT: data})})
    plain = trained(asked(), CONTEXT)  # of a client without the mod
    assert aggregate([false, plain]) == (None, None)
    arrays, _ = aggregate([false, UpdateMod(UPDATES)(asked(), CONTEXT, trained)])
    assert arrays is not None


def test_a_client_whose_budget_is_spent_says_so_and_no_more(tmp_path: Path) -> None:
    def ledger(context: Context) -> Ledger:
        assert context is CONTEXT
        found = Ledger(tmp_path / "ledger.sqlite")
        found.dataset("updates", unit="phone", epsilon=256.0)
        return found

    mod = UpdateMod(UPDATES, ledger=ledger)
    assert not mod(asked(), CONTEXT, trained).has_error()
    refused = mod(asked(), CONTEXT, trained)
    assert refused.has_error()
    assert refused.error.reason == "the privacy budget is spent"
    assert aggregate([refused]) == (None, None)


def test_errors_of_clients_go_through() -> None:
    failed = SimpleNamespace(has_error=lambda: True)
    assert UpdateMod(UPDATES)(asked(), CONTEXT, lambda *_: failed) is failed
