"""Results leave in an order that no event can move."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms.window import TimestampedValue

import streamsketch as ss
from streamsketch.beam import (
    MeanPerKey,
    PairwiseDistances,
    ReleasePerKey,
    SelectKeys,
    TumblingWindows,
)
from streamsketch.beam.run import ordering
from streamsketch.beam.run.ordering import InOrder, shards_of
from streamsketch.release import AdditiveNoise
from tests.beam.rows import bound_rows, sketch_rows
from tests.beam.running import run

PROJECTION = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=11)
PUBLIC = ["f", "b", "d", "a", "e", "c"]
EVENTS = [[], [("e", 1, 1)]]

Build = Callable[[beam.PCollection], beam.PCollection]


def noise(**keys: Any) -> Build:
    release = ReleasePerKey(AdditiveNoise(epsilon=1.0, neighbours=ss.L1(1)), **keys)
    return lambda events: events | sketch_rows(PROJECTION) | release


def flips(**keys: Any) -> Build:
    neighbours = ss.L1(1)
    publish = ss.signs.DPSignLogistic(epsilon=1.0, neighbours=neighbours)
    release = ReleasePerKey(publish, **keys)
    return lambda events: events | sketch_rows(PROJECTION) | release


def with_window(keyed: Any, window: Any = beam.DoFn.WindowParam) -> Any:
    return int(window.start), keyed[0]


@pytest.mark.parametrize(("publish", "shards"), [(noise, 1), (noise, 256), (flips, 1)])
def test_public_keys_leave_in_one_order_whoever_has_data(
    publish: Callable[..., Build], shards: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamsketch.beam.release.release.shards_of", lambda *_: shards)
    build = publish(public_keys=PUBLIC)
    orders = {
        tuple(key for key, _ in run(lambda p, events=events: build(p | beam.Create(events)), tmp_path)[0])  # type: ignore[misc]
        for events in EVENTS
    }
    assert len(orders) == 1
    assert sorted(next(iter(orders))) == sorted(PUBLIC)
    if shards == 1:
        assert orders == {tuple(sorted(PUBLIC))}


@pytest.mark.parametrize("collection", [True, False], ids=["as a collection", "in a file"])
def test_keys_of_unknown_number_leave_in_one_order(collection: bool, tmp_path: Path) -> None:  # noqa: FBT001
    (tmp_path / "keys.txt").write_text("\n".join(PUBLIC))

    def build(pipeline: beam.Pipeline, events: list[Any]) -> beam.PCollection:
        keys = pipeline | "Keys" >> beam.Create(PUBLIC) if collection else tmp_path / "keys.txt"
        return noise(public_keys=keys)(pipeline | beam.Create(events))

    orders = {
        tuple(key for key, _ in run(lambda p, events=events: build(p, events), tmp_path)[0])  # type: ignore[misc]
        for events in EVENTS
    }
    assert len(orders) == 1


@pytest.mark.parametrize("publish", [noise, flips])
def test_keys_in_the_data_leave_in_one_order_whoever_came_first(publish: Callable[..., Build], tmp_path: Path) -> None:
    build = publish(keys_are_public=True)
    orders = {
        tuple(
            key for key, _ in run(lambda p, keys=keys: build(p | beam.Create([(k, 1, 1) for k in keys])), tmp_path)[0]
        )  # type: ignore[misc]
        for keys in (["b", "a", "c", "b"], ["a", "c", "b", "b"])
    }
    assert len(orders) == 1


@pytest.mark.parametrize("keys", [{"public_keys": ["b", "a"], "public_windows": (0, 180)}, {"keys_are_public": True}])
def test_windows_leave_in_one_order(keys: dict[str, Any], tmp_path: Path) -> None:
    slots = [(key, at) for key in "ab" for at in (0, 60, 120)]
    orders = set()
    for first in (0, 4):
        rows = [TimestampedValue((key, 1, 1), at) for key, at in [*slots[first:], *slots[:first]]]

        def build(pipeline: beam.Pipeline, rows: list[Any] = rows) -> beam.PCollection:
            return noise(**keys)(pipeline | beam.Create(rows) | TumblingWindows(60)) | beam.Map(with_window)

        orders.add(tuple(run(build, tmp_path)[0]))
    assert len(orders) == 1
    if "public_keys" in keys:
        assert orders == {tuple(itertools.product((0, 60, 120), "ab"))}


def test_selected_keys_leave_in_one_order(tmp_path: Path) -> None:
    orders = set()
    for keys in ("abc", "cab"):
        rows = [(unit, key, 1, 1) for key in keys for unit in range(300)]

        def build(pipeline: beam.Pipeline, rows: list[Any] = rows) -> beam.PCollection:
            events = pipeline | beam.Create(rows) | bound_rows(PROJECTION, unit="unit", max_keys=3, l1=1)
            return events | SelectKeys(epsilon=1.0, delta=1e-9)

        orders.add(tuple(run(build, tmp_path)[0]))
    assert len(orders) == 1
    assert sorted(next(iter(orders))) == ["a", "b", "c"]


def test_means_leave_in_one_order(tmp_path: Path) -> None:
    mechanism = ss.local.PrivHS(dim=3, epsilon=2.0)
    report = mechanism.randomize([0.6, 0.8, 0.0])
    orders = {
        tuple(
            key
            for key, _ in run(
                lambda p, keys=keys: p | beam.Create([(key, report) for key in keys]) | MeanPerKey(mechanism),
                tmp_path,  # type: ignore[misc]
            )[0]
        )
        for keys in ("abc", "bcaa")
    }
    assert len(orders) == 1


def test_distances_leave_in_one_order(tmp_path: Path) -> None:
    orders = {
        tuple(
            pair
            for pair, _ in run(
                lambda p, events=events: noise(public_keys=PUBLIC)(p | beam.Create(events)) | PairwiseDistances(),  # type: ignore[misc]
                tmp_path,
            )[0]
        )
        for events in EVENTS
    }
    assert len(orders) == 1


def test_the_same_check_sees_keys_with_data_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As releases came out before they were ordered; which came first then depended on the process too."""
    build, orders = noise(public_keys=PUBLIC), set()
    for events in EVENTS:
        known = {key for key, _, _ in events}
        monkeypatch.setattr(ordering, "order", lambda key, known=known: (key not in known, key))
        orders.add(tuple(key for key, _ in run(lambda p, events=events: build(p | beam.Create(events)), tmp_path)[0]))  # type: ignore[misc]
    assert len(orders) == 2


def in_order(results: list[Any]) -> Build:
    return lambda pipeline: (pipeline | beam.Create(results) | InOrder(bool))[0]


def test_the_same_check_sees_shards_in_the_order_of_arrival(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unannounced(self: Any, keyed: Any, window: Any = beam.DoFn.WindowParam) -> Any:
        moment = int(window.max_timestamp().micros)
        yield self._shard(keyed[0], moment), (moment, keyed[0], [keyed[1]])

    monkeypatch.setattr(ordering.PlaceKeys, "process", unannounced)
    orders = {tuple(run(in_order([(key, True) for key in keys]), tmp_path)[0]) for keys in ("abcdef", "fedcba")}
    assert len(orders) == 2


def test_values_of_a_key_are_added_up_once(tmp_path: Path) -> None:
    """Keys that Python calls equal stay apart, as their bytes do."""
    given = [("a", 1), (1, 2), ("a", 4), (b"a", 8), (True, 16), ("a", 32)]
    found, _ = run(lambda pipeline: (pipeline | beam.Create(given) | InOrder(int))[0], tmp_path)
    assert sorted(map(repr, found)) == ["('a', 37)", "(1, 2)", "(True, 16)", "(b'a', 8)"]


def test_no_result_is_lost_or_doubled_when_bundles_repeat(tmp_path: Path) -> None:
    results = [(key, True) for key in ("b", 7, b"a", "a", -1)]
    found, _ = run(in_order(results), tmp_path, "--direct_runner_bundle_repeat=1")
    assert sorted(map(repr, found)) == sorted(2 * list(map(repr, results)))


@pytest.mark.parametrize(
    ("results", "nbytes", "shards"),
    [(1, 8192, 1), (8192, 8192, 1), (8193, 8192, 2), (100_000, 8192, 13), (10**9, 8192, 4096)],
)
def test_shards_hold_64_mib(results: int, nbytes: int, shards: int) -> None:
    assert shards_of(results, nbytes) == shards
