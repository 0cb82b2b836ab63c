"""FLARE's filters for private updates, without a simulator; `make test-federated` runs them."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("nvflare", reason="FLARE has an environment of its own (make test-federated)")

from nvflare.apis.dxo import DXO, DataKind, MetaKey, from_shareable
from nvflare.apis.filter import ContentBlockedException
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext

from streamsketch.errors import StreamsketchError
from streamsketch.integrations.nvflare import REPORT, ReadReports, ReportUpdates
from streamsketch.local import PrivUnitG

AGREED: dict[str, Any] = {
    "mechanism": PrivUnitG(dim=6, epsilon=256.0, ball=True).agreed_fields(),
    "clip": 2.0,
    "parameters": {"w": [2, 2], "b": [2]},
    "unit": "phone",
}
UPDATE = {"b": np.full(2, -0.5), "w": np.full((2, 2), 0.5)}  # in another order


def sent(data: dict[str, Any], kind: str = DataKind.WEIGHT_DIFF) -> Any:
    meta = {MetaKey.NUM_STEPS_CURRENT_ROUND: 321, MetaKey.INITIAL_METRICS: {"loss": 0.25}}
    return DXO(kind, data, meta).to_shareable()


def context(folder: Path | None = None) -> FLContext:
    found = FLContext()
    workspace = SimpleNamespace(get_root_dir=lambda: str(folder))
    found.set_prop(FLContextKey.WORKSPACE_OBJECT, workspace, private=True, sticky=False)
    return found


def test_a_result_holds_one_report_and_nothing_else() -> None:
    dxo = from_shareable(ReportUpdates(**AGREED).process(sent(UPDATE), context()))
    assert dxo.data_kind == DataKind.WEIGHT_DIFF
    assert list(dxo.data) == [REPORT]
    assert dxo.get_meta_prop(MetaKey.NUM_STEPS_CURRENT_ROUND) == 1
    assert dxo.get_meta_prop(MetaKey.INITIAL_METRICS) is None


def test_the_server_reads_estimates_in_the_shapes_of_the_model() -> None:
    client, server = ReportUpdates(**AGREED), ReadReports(**AGREED)
    read = [from_shareable(server.process(client.process(sent(UPDATE), context()), context())) for _ in range(60)]
    for name, wanted in UPDATE.items():
        assert np.allclose(np.mean([dxo.data[name] for dxo in read], axis=0), wanted, atol=0.3)


@pytest.mark.parametrize(
    "result", [sent({"w": UPDATE["w"]}), sent(UPDATE | {"more": np.zeros(1)}), sent(UPDATE, DataKind.WEIGHTS)]
)
def test_what_is_no_update_of_the_model_does_not_leave_the_client(result: Any) -> None:
    with pytest.raises(ContentBlockedException):
        ReportUpdates(**AGREED).process(result, context())


@pytest.mark.parametrize("data", [UPDATE, {REPORT: "text"}, {REPORT: np.zeros(5, np.uint8)}])
def test_what_is_no_report_is_refused_by_the_server(data: dict[str, Any]) -> None:
    with pytest.raises(StreamsketchError):
        ReadReports(**AGREED).process(sent(data), context())


def test_a_client_sends_nothing_once_its_budget_is_spent(tmp_path: Path) -> None:
    client = ReportUpdates(**AGREED, budget=256.0)
    client.process(sent(UPDATE), context(tmp_path))
    with pytest.raises(ContentBlockedException, match="updates"):
        ReportUpdates(**AGREED, budget=256.0).process(sent(UPDATE), context(tmp_path))
