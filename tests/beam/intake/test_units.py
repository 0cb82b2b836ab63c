"""What the steps of a job make of units, run without a runner: the bits that one machine gives by the same secret."""

import types
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms.window import BoundedWindow, GlobalWindow, IntervalWindow
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming

import streamsketch as ss
from streamsketch.beam import BoundContributions
from streamsketch.beam.intake.bound import ClipUnits, Prepare
from streamsketch.beam.intake.sketch import SketchBundles
from streamsketch.beam.run.coders import SketchCoder
from streamsketch.beam.run.runs import RunSecret
from streamsketch.beam.run.steps import merge_group
from streamsketch.intake import Intake
from streamsketch.privacy import Neighbours
from streamsketch.privacy.neighbours import Clip
from streamsketch.projections import OPORP, Identity, Rademacher
from streamsketch.sketching.bounding import units

SECRET = bytes(range(32))
WINDOWS = [IntervalWindow(60 * n, 60 * n + 60) for n in range(3)]
ON_TIME = PaneInfo(True, True, PaneInfoTiming.ON_TIME, 0, 0)  # noqa: FBT003 - Beam's own

DIM = 500
MAPS = {
    "sjlt": ss.SJLT(dim=DIM, sketch_dim=32, sparsity=4, seed=11),
    "graph": ss.SJLT(dim=DIM, sketch_dim=32, sparsity=4, seed=11, construction="graph"),
    "count sketch": ss.CountSketch(dim=DIM, sketch_dim=32, seed=11),
    "identity": Identity(dim=DIM),
    "oporp": OPORP(dim=DIM, sketch_dim=32, seed=11),
    "dense": Rademacher(dim=DIM, sketch_dim=32, seed=11),
}
FINE = "1/4096"  # C is 2^12 steps of a cell and more in all of these maps
RELATIONS: dict[str, tuple[Neighbours, Clip]] = {
    "l1": (ss.L1(3, unit="unit", max_keys=2), "scale"),
    "l1 cut": (ss.L1(3, unit="unit", max_keys=2), "cut"),
    "l2": (ss.L2(3, unit="unit", max_keys=2), "scale"),
    "cells": (ss.SketchL2(5, unit="unit"), "scale"),
    "cells of two keys": (ss.SketchL2(5, unit="unit", max_keys=2), "scale"),
    "equal": (ss.SketchL2(5, unit="unit"), "equal"),
    "equal of two keys": (ss.SketchL2(5, unit="unit", max_keys=2), "equal"),
}
EVERYWHERE = [(relation, "sjlt") for relation in RELATIONS if relation != "l2"] + [
    ("l2", "identity"),
    *((relation, name) for relation in ("cells", "equal of two keys") for name in MAPS if name != "sjlt"),
]


class Known(RunSecret):
    """The secret of a run by which one machine bounds too."""

    def derive(self, *_: str) -> bytes:
        return SECRET


RUN = Known(bytes(32), b"", None)


def agreement_of(relation: str, name: str) -> ss.Agreement:
    neighbours, clip = RELATIONS[relation]
    columns: dict[str, Any] = {
        "key": "key",
        "index": {"index": "integer"},
        "value": "value",
        "unit": {"unit": "integer"},
    }
    projection = MAPS[name].replace(resolution=FINE)
    return ss.Agreement(projection, **columns, neighbours=neighbours, clip=clip)


def stream(seed: int, rows: int = 120) -> pa.Table:
    """Return rows of light and heavy units, some of which return what they bought, or all of it."""
    rng = np.random.default_rng(seed)
    unit, key, index = (rng.integers(0, most, rows) for most in (9, 5, DIM))
    value = rng.normal(size=rows) * np.where(unit % 3, 1, 1e6)
    back = np.flatnonzero(unit == 4)
    column = {"unit": unit, "key": pa.array([f"key {one}" for one in key]), "index": index, "value": value}
    table = pa.table(column)
    returned = table.take(back).set_column(3, "value", pa.array(-value[back]))
    return pa.concat_tables([table, returned]).take(rng.permutation(rows + back.size))


def on_one_machine(rows: pa.Table, agreement: ss.Agreement, monkeypatch: pytest.MonkeyPatch) -> ss.SketchTable:
    with monkeypatch.context() as patch:
        patch.setattr(units, "os", types.SimpleNamespace(urandom=lambda _: SECRET))
        found = ss.bound(rows, agreement)
    assert isinstance(found, ss.SketchTable)
    return found


def bounded(batches: Iterable[tuple[pa.RecordBatch, BoundedWindow]], bound: BoundContributions, bundle: int) -> Any:
    """Yield what the workers leave of units, with its window, after the shuffle by shards."""
    prepare = Prepare(bound._intake, bound._bounds, "label", bound.shards, None, count=False)
    prepare.start_bundle()
    sent, shuffled = list[Any](), defaultdict(list)
    for place, (batch, window) in enumerate(batches):
        if place % bundle == 0:
            sent += prepare.finish_bundle()
            prepare.start_bundle()
        sent += prepare.process(batch, window, run=RUN) or ()
    for one in [*sent, *prepare.finish_bundle()]:
        shuffled[None if bound._across_windows else one.windows[0], one.value[0]].append(one.value[1])
    clip = ClipUnits(bound.agreement.projection, bound._bounds, "label", count=False)
    last = {window.max_timestamp(): window for window in [*WINDOWS, GlobalWindow()]}
    for (_, shard), parts in shuffled.items():
        for left in clip.process((shard, parts[::-1]), ON_TIME, run=RUN):
            yield left.value, last[left.timestamp]


def sketched(elements: Iterable[tuple[Any, BoundedWindow]], agreement: ss.Agreement, bundle: int) -> Any:
    """Return the sum of all workers' partial sketches, by window and key, each sent as bytes."""
    work, coder = SketchBundles(Intake(agreement), counted=True), SketchCoder()
    work.start_bundle()
    flushed, sent = list[Any](), defaultdict(list)
    for place, (element, window) in enumerate(elements):
        if place % bundle == 0:
            flushed += work.finish_bundle()
            work.start_bundle()
        flushed += work.process(element, window)
    for one in [*flushed, *work.finish_bundle()]:
        sent[one.windows[0], one.value[0]].append(coder.encode(one.value[1]))
    sums: dict[Any, dict[Any, ss.Sketch]] = defaultdict(dict)
    for (window, key), partials in sent.items():
        ((_, total),) = merge_group((key, map(coder.decode, partials)))
        sums[window][key] = total
    return dict(sums)


def through_beam(
    rows: pa.Table, agreement: ss.Agreement, *, batch: int, bundle: int, shards: int
) -> dict[Any, ss.Sketch]:
    bound = BoundContributions(agreement, shards=shards)
    batches = [(one, GlobalWindow()) for one in rows.combine_chunks().to_batches(max_chunksize=batch)]
    found = sketched(bounded(batches, bound, bundle), agreement, bundle)
    return found.get(GlobalWindow(), {})  # type: ignore[no-any-return]


def assert_same(found: dict[Any, ss.Sketch], expected: ss.SketchTable) -> None:
    """Assert that sketches have the cells and the counts of a table."""
    assert found == dict(expected)
    if expected.bounds.counted:
        assert expected.bounds.neighbours is not None
        for key, sketch in expected.items():
            assert sketch.counts is not None
            assert found[key].sums().counts[0].tolist() == sketch.counts.tolist()


@pytest.mark.parametrize(("relation", "name"), EVERYWHERE)
def test_any_way_through_a_job_gives_the_bits_of_one_machine(
    relation: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agreement, rows = agreement_of(relation, name), stream(3)
    expected = on_one_machine(rows, agreement, monkeypatch)
    assert len(expected) == 5
    shuffled = rows.take(np.random.default_rng(1).permutation(len(rows)))
    ways: list[tuple[pa.Table, dict[str, int]]] = [
        (shuffled, {"batch": 7, "bundle": 3, "shards": 4}),
        (shuffled, {"batch": 1, "bundle": 100, "shards": 2}),
        (rows, {"batch": 1000, "bundle": 1, "shards": 1}),
    ]
    del ways[EVERYWHERE.index((relation, name)) % 3]  # two of them for each
    for given, way in ways:
        assert_same(through_beam(given, agreement, **way), expected)


@pytest.mark.parametrize("relation", ["cells", "equal"])
@pytest.mark.parametrize("across", [False, True])
def test_windows_are_bounded_each_by_itself_or_all_together(
    relation: str,
    across: bool,  # noqa: FBT001 - a parameter of the test
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agreement, rows = agreement_of(relation, "sjlt"), stream(5)
    number = np.random.default_rng(2).integers(0, len(WINDOWS), len(rows))
    parts = [rows.filter(pa.array(number == n)) for n in range(len(WINDOWS))]
    bound = BoundContributions(agreement, across_windows=across, shards=3)
    batches = [
        (batch, window)
        for part, window in zip(parts, WINDOWS, strict=True)
        for batch in part.combine_chunks().to_batches(max_chunksize=11)
    ]
    found = sketched(bounded(batches, bound, 4), agreement, 3)
    names = [f"{key} of {n}" for key, n in zip(rows["key"].to_pylist(), number, strict=True)]
    together = on_one_machine(rows.set_column(1, "key", pa.array(names)), agreement, monkeypatch)
    for n, (part, window) in enumerate(zip(parts, WINDOWS, strict=True)):
        alone = on_one_machine(part, agreement, monkeypatch)
        if not across:
            assert_same(found[window], alone)
            continue
        assert found[window] == {key: together[f"{key} of {n}"] for key in alone}
        for key in alone:
            assert found[window][key].sums().counts[0].tolist() == together[f"{key} of {n}"].counts.tolist()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("relation", "name"), [(r, m) for r, m in EVERYWHERE if isinstance(RELATIONS[r][0], ss.SketchL2)]
)
def test_a_unit_less_moves_the_cells_of_all_keys_by_no_more_than_the_bound(relation: str, name: str) -> None:
    agreement, rows = agreement_of(relation, name), stream(7)
    neighbours: Any = agreement.neighbours
    most = neighbours.cell_steps(agreement.projection)
    everyone = through_beam(rows, agreement, batch=50, bundle=2, shards=3)
    for unit in range(3):
        others = rows.filter(pa.compute.not_equal(rows["unit"], unit))
        without = through_beam(others, agreement, batch=50, bundle=2, shards=3)
        empty = agreement.projection.sketch()
        gaps = [sketch.state() - without.get(key, empty).state() for key, sketch in everyone.items()]
        squares = sum(int(cell) ** 2 for gap in gaps for cell in gap)
        assert squares <= most**2
        assert unit or squares > 0.9 * most**2, "unit 0 is heavy, and reaches it"
        assert sum(bool(gap.any()) for gap in gaps) <= neighbours.max_keys
