"""Counters beside weights in Flower and FLARE: what the mod, the strategy and the filters do with such arrays.

Neither framework is needed: stand-ins have what these modules use of them.
"""

import importlib
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamsketch.errors import InvalidInputError
from streamsketch.local import ModelUpdates, PrivUnitG

UPDATES = ModelUpdates(mechanism=PrivUnitG(dim=6, epsilon=256.0, ball=True), clip=2.0, unit="phone")
MODEL: dict[str, Any] = {
    "norm.num_batches_tracked": np.array(100),
    "w": np.ones((2, 2), np.float32),
    "mask": np.array([True, False]),
    "b": np.zeros(2),
}
COUNTERS = ["norm.num_batches_tracked", "mask"]


class Record(dict[str, Any]):
    """An ArrayRecord, a ConfigRecord or a RecordDict."""

    def to_numpy_ndarrays(self) -> list[Any]:
        return [np.asarray(array) for array in self.values()]

    @property
    def array_records(self) -> dict[str, Any]:
        return {name: one for name, one in self.items() if name == "arrays"}


class FedAvg:
    """The mean of what clients send, as floats, as Flower's is."""

    def __init__(self, **_: Any) -> None:
        self.weighted_by_key, self.arrayrecord_key = "num-examples", "arrays"

    def aggregate_train(self, _: int, replies: list[Any]) -> tuple[Any, Any]:
        sent = [reply.content["arrays"] for reply in replies]
        return Record({name: np.mean([one[name] for one in sent], axis=0) for name in sent[0]}), Record()


def modules_of(**names: Any) -> dict[str, types.ModuleType]:
    """Return modules by name, `.` being `__` in the argument, with these contents."""
    found: dict[str, types.ModuleType] = {}
    for name, content in names.items():
        parts = name.split("__")
        for end in range(1, len(parts) + 1):
            found.setdefault(".".join(parts[:end]), types.ModuleType(".".join(parts[:end])))
        vars(found[".".join(parts)]).update(content)
    return found


def loaded(monkeypatch: pytest.MonkeyPatch, name: str, modules: dict[str, types.ModuleType]) -> Any:
    for module, content in modules.items():
        monkeypatch.setitem(sys.modules, module, content)
    monkeypatch.delitem(sys.modules, f"streamsketch.integrations.{name}", raising=False)
    return importlib.import_module(f"streamsketch.integrations.{name}")


@pytest.fixture
def flower(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    app = dict.fromkeys(("ArrayRecord", "ConfigRecord", "MetricRecord", "RecordDict"), Record)
    app |= {"Array": np.asarray, "Context": object, "Error": object, "Message": object}
    constant = {"ErrorCode": types.SimpleNamespace(MOD_FAILED_PRECONDITION=1)}
    modules = modules_of(
        flwr__app=app, flwr__common__constant=constant, flwr__serverapp={"Grid": object},
        flwr__serverapp__strategy={"FedAvg": FedAvg},
    )  # fmt: skip
    yield loaded(monkeypatch, "flower", modules)
    sys.modules.pop("streamsketch.integrations.flower", None)


@pytest.fixture
def nvflare(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    class DXOFilter:
        def __init__(self, **_: Any) -> None:
            pass

    class DXO:
        def __init__(self, kind: str, data: Any, meta: Any = None) -> None:
            self.data_kind, self.data, self.meta = kind, data, meta

    kinds = types.SimpleNamespace(WEIGHT_DIFF="diff", WEIGHTS="weights", COLLECTION="many", FL_MODEL="model")
    modules = modules_of(
        nvflare__apis__dxo={"DXO": DXO, "DataKind": kinds, "MetaKey": types.SimpleNamespace(NUM_STEPS_CURRENT_ROUND=1)},
        nvflare__apis__dxo_filter={"DXOFilter": DXOFilter},
        nvflare__apis__filter={"ContentBlockedException": type("Blocked", (Exception,), {})},
        nvflare__apis__fl_constant={"FLContextKey": types.SimpleNamespace(WORKSPACE_OBJECT="folder")},
        nvflare__apis__fl_context={"FLContext": object},
        nvflare__apis__shareable={"Shareable": dict},
    )
    yield loaded(monkeypatch, "nvflare", modules)
    sys.modules.pop("streamsketch.integrations.nvflare", None)


def message(arrays: dict[str, Any]) -> Any:
    metadata = types.SimpleNamespace(src_node_id=1)
    return types.SimpleNamespace(content=Record({"arrays": Record(arrays)}), has_error=lambda: False, metadata=metadata)


def trained(model: dict[str, Any]) -> dict[str, Any]:
    """Return the model after training: 40 more batches, and weights that moved by 0.5 each."""
    return {
        name: ~array if array.dtype == bool else array + (40 if array.dtype == int else array.dtype.type(0.5))
        for name, array in model.items()
    }


def test_flower_reports_floating_arrays_and_keeps_the_others_of_the_server(flower: Any) -> None:
    mod, strategy = flower.UpdateMod(UPDATES), flower.FedAvgOfReports(UPDATES)
    strategy._model = Record(MODEL)
    replies = [mod(message(MODEL), None, lambda asked, _: message(trained(asked.content["arrays"]))) for _ in range(60)]
    assert all(list(reply.content) == ["report"] for reply in replies)
    arrays, _ = strategy.aggregate_train(1, replies)
    assert list(arrays) == list(MODEL)
    for name in ("w", "b"):
        assert np.allclose(arrays[name], MODEL[name] + 0.5, atol=0.3)
    for name in COUNTERS:
        assert np.asarray(arrays[name]).dtype == MODEL[name].dtype
        assert np.array_equal(arrays[name], MODEL[name])


def test_flower_refuses_complex_arrays_by_name(flower: Any) -> None:
    model = MODEL | {"phase": np.zeros(2, complex)}
    with pytest.raises(InvalidInputError, match="phase of the update holds complex128"):
        flower.UpdateMod(UPDATES)(message(model), None, lambda asked, _: asked)


AGREED: dict[str, Any] = {
    "mechanism": UPDATES.mechanism.agreed_fields(), "clip": 2.0, "unit": "phone", "parameters": {"w": [2, 2], "b": [2]},
}  # fmt: skip
UPDATE = {
    name: trained(MODEL)[name] ^ array if name == "mask" else trained(MODEL)[name] - array
    for name, array in MODEL.items()
}


def test_flare_reports_floating_arrays_and_leaves_the_others_out(nvflare: Any, tmp_path: Path) -> None:
    del tmp_path
    client, server = nvflare.ReportUpdates(**AGREED), nvflare.ReadReports(**AGREED)
    sent = [client.process_dxo(nvflare.DXO("diff", UPDATE), {}, None) for _ in range(60)]
    assert all(list(dxo.data) == ["report"] for dxo in sent)
    read = [server.process_dxo(dxo, {}, None) for dxo in sent]
    assert all(list(dxo.data) == ["w", "b"] for dxo in read)
    for name in ("w", "b"):
        assert np.allclose(np.mean([dxo.data[name] for dxo in read], axis=0), 0.5, atol=0.3)


@pytest.mark.parametrize(
    ("update", "parameters", "message"),
    [
        (UPDATE, {**AGREED["parameters"], "mask": [2]}, r"mask \(bool\) is not floating: leave it out"),
        (UPDATE | {"phase": np.zeros(2, complex)}, AGREED["parameters"], "phase of the update holds complex128"),
        (
            UPDATE | {"running_mean": np.zeros(2)},
            AGREED["parameters"],
            "must have the floating arrays w, b, got w, b, r",
        ),
        ({"w": UPDATE["w"]}, AGREED["parameters"], "must have the floating arrays w, b, got w"),
    ],
)
def test_flare_blocks_what_is_no_update_by_name(nvflare: Any, update: Any, parameters: Any, message: str) -> None:
    with pytest.raises(Exception, match=message) as caught:
        nvflare.ReportUpdates(**AGREED | {"parameters": parameters}).process_dxo(nvflare.DXO("diff", update), {}, None)
    assert type(caught.value).__name__ == "Blocked"
