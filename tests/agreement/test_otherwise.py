"""Every engine spends what an agreement says, and publishes the keys that it says, or is refused before it reads."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.agreement import Selected, Terms
from streamsketch.beam import BoundContributions, ReleasePerKey, SketchPerKey, TumblingWindows
from streamsketch.continual import Releaser, Tree
from streamsketch.errors import IncompatibleAgreementsError
from streamsketch.release import AdditiveNoise
from streamsketch.spark import ReleaseBatches
from streamsketch.streams import FileSink, ReleaseOnce

NEAR = ss.L1(5, unit="customer", max_keys=2)
SHOPS = ["north", "south"]
ROWS = pa.table({"customer": ["Ann", "Bob"], "shop": SHOPS, "item": ["tea", "salt"]})
TREE = Tree(horizon=4, max_windows=4)
SECRET = bytes(range(32))


def agreed(keys: Any, mechanism: str = "laplace") -> ss.Agreement:
    columns: dict[str, Any] = {"key": "shop", "index": "item", "unit": "customer", "neighbours": NEAR}
    terms = Terms(epsilon=2, delta="0.000001", mechanism=mechanism)
    return ss.Agreement(ss.SJLT(sketch_dim=64, sparsity=4, seed=7), **columns, terms=terms, keys=keys)


def noise(epsilon: float, **fields: Any) -> AdditiveNoise:
    return AdditiveNoise(epsilon=epsilon, neighbours=NEAR, delta=0.0, mechanism="laplace", **fields)


def table(agreement: ss.Agreement, epsilon: float, keys: list[str], folder: Path) -> None:
    del folder
    noise(epsilon).release_table(ss.bound(ROWS, agreement), public_keys=keys)


def releaser(agreement: ss.Agreement, epsilon: float, keys: list[str], folder: Path) -> None:
    del folder
    publish = Releaser(noise(epsilon, schedule=TREE), agreement.projection)
    publish.add(ss.bound(ROWS, agreement), public_keys=keys)


def once(agreement: ss.Agreement, epsilon: float, keys: list[str], folder: Path) -> None:
    publisher, exact = noise(epsilon).calibrated(agreement.projection), ss.bound(ROWS, agreement)
    assert isinstance(exact, ss.SketchTable)
    with FileSink(folder) as sink:
        ReleaseOnce(publisher, SECRET, sink, "shops", public_keys=keys).release(
            0, {key: exact.sketch_of(key) for key in keys}
        )


def on_spark(agreement: ss.Agreement, epsilon: float, keys: list[str], folder: Path) -> None:
    once = ReleaseBatches(agreement, noise(epsilon), lambda: SECRET, FileSink(folder), "shops", public_keys=keys)
    from tests.spark.frames import LocalFrame  # noqa: PLC0415 - with the engine alone

    once(LocalFrame.of(ROWS, 1), 0)


def on_beam(agreement: ss.Agreement, epsilon: float, keys: list[str], folder: Path, schedule: Any = None) -> None:
    del folder
    near = NEAR if schedule else dataclasses.replace(NEAR, unit="customer in one window of 60 s")
    publish = dataclasses.replace(noise(epsilon, schedule=schedule), neighbours=near)
    pipeline = beam.Pipeline(runner="FnApiRunner")
    batches = pipeline | beam.Create([ROWS]).with_output_types(pa.Table) | TumblingWindows(60)
    bounded = batches | BoundContributions(agreement, public_keys=keys) | SketchPerKey(agreement)
    bounded | ReleasePerKey(publish, public_keys=keys, public_windows=(0, 120))


def rows_on_beam(agreement: ss.Agreement, epsilon: float, keys: list[str], folder: Path) -> None:
    on_beam(agreement, epsilon, keys, folder, TREE)


ENGINES: dict[str, Callable[[ss.Agreement, float, list[str], Path], None]] = {
    "table": table,
    "Releaser": releaser,
    "ReleaseOnce": once,
    "Spark": on_spark,
    "Beam": on_beam,
    "Beam with a schedule": rows_on_beam,
}
CHOSEN = Selected(epsilon="0.5", delta="0.0000005")
OTHERWISE: dict[str, tuple[Any, float, list[str]]] = {
    "more": (SHOPS, 3.0, SHOPS),
    "less": (SHOPS, 1.0, SHOPS),
    "fewer keys": (SHOPS, 2.0, SHOPS[:1]),
    "other keys": (SHOPS, 2.0, ["north", "west"]),
    "more keys": (SHOPS, 2.0, [*SHOPS, "west"]),
    "keys of a private choice": (CHOSEN, 1.5, SHOPS),
}


@pytest.mark.parametrize("otherwise", OTHERWISE)
@pytest.mark.parametrize("engine", ENGINES)
def test_no_engine_does_otherwise_than_is_agreed(engine: str, otherwise: str, tmp_path: Path) -> None:
    keys, epsilon, named = OTHERWISE[otherwise]
    with pytest.raises(IncompatibleAgreementsError, match=r"the agreement (publishes|chooses)"):
        ENGINES[engine](agreed(keys), epsilon, named, tmp_path)
    assert not list(tmp_path.rglob("*.sketch")), "nothing is published"


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_does_what_is_agreed(engine: str, tmp_path: Path) -> None:
    ENGINES[engine](agreed(SHOPS), 2.0, SHOPS[::-1], tmp_path)


@pytest.mark.parametrize("engine", ENGINES)
def test_no_engine_adds_another_noise_than_is_agreed(engine: str, tmp_path: Path) -> None:
    with pytest.raises(IncompatibleAgreementsError, match=r"the agreement publishes (by|with)"):
        ENGINES[engine](agreed(SHOPS, "gaussian"), 2.0, SHOPS, tmp_path)
