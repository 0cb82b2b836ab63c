"""Bounding without a cluster: Beam's bits, any grouping, no files left, nothing in memory that grows with events."""

import datetime as dt
import itertools
import math
import os
import stat
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms.window import GlobalWindow
from hypothesis import given
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.accounting.sensitivity import sensitivity_of
from streamsketch.beam import BoundContributions, SketchPerKey
from streamsketch.beam.run import runs
from streamsketch.intake.units import column_events
from streamsketch.sketching.bounding import grouping, units
from streamsketch.sketching.bounding.contributions import WHOLE
from streamsketch.sketching.bounding.grouping import GroupedEvents
from tests.beam.rows import agreement_of
from tests.beam.running import run
from tests.sketching.bounding.reading import read_columns

PROJECTION = ss.SJLT(sketch_dim=32, sparsity=4, seed=11, resolution="0.5")
BOUND = ss.L1(3, unit="plane", max_keys=2)
Columns = tuple[pa.Array, pa.Array, pa.Array, pa.Array]


def stream(events: int, planes: int = 40) -> Columns:
    rng = np.random.default_rng(3)
    keys = pa.array(np.array(["a", "b", "ü", "d", "e"])[rng.integers(5, size=events)])
    return (
        keys,
        pa.array(rng.integers(9, size=events)).cast(pa.string()),
        pa.array(rng.normal(size=events) * 3),
        pa.array(rng.integers(planes, size=events)),
    )


def parts(columns: Columns, count: int) -> Iterator[Columns]:
    step = -(-len(columns[0]) // count)
    for start in range(0, len(columns[0]), step):
        yield tuple(column.slice(start, step) for column in columns)  # type: ignore[misc]


@pytest.fixture
def fixed_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all runs choose alike, so that they can be compared."""
    monkeypatch.setattr(units, "os", types.SimpleNamespace(urandom=lambda _: bytes(range(32)), PathLike=os.PathLike))


@pytest.mark.parametrize(
    ("neighbours", "how"),
    [
        (BOUND, {"clip": "scale"}),
        (BOUND, {"clip": "cut"}),
        (ss.L2(2, unit="plane", max_keys=2), {}),
        (ss.L1(4, unit="plane"), {"max_keys": 3}),
        (ss.L1(4, unit="plane"), {"max_keys": 3, "clip": "cut"}),
    ],
    ids=["scale", "cut", "l2", "keys together", "keys together, cut"],
)
def test_it_is_what_beam_makes_bit_for_bit(
    neighbours: Any, how: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(runs, "secrets", types.SimpleNamespace(token_bytes=bytes))
    secrets: list[bytes] = []
    derive = runs.RunSecret.derive
    monkeypatch.setattr(
        runs.RunSecret, "derive", lambda self, use, label: secrets.append(derive(self, use, label)) or secrets[-1]
    )
    keys, indices, values, planes = columns = stream(500)
    batch = pa.RecordBatch.from_arrays([planes, keys, indices, values], names=["plane", "key", "index", "value"])
    agreement = agreement_of(PROJECTION, unit={"plane": "integer"}, neighbours=neighbours)

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        return pipeline | beam.Create([batch]) | BoundContributions(agreement, **how) | SketchPerKey(agreement)

    on_a_cluster = dict(run(build, tmp_path)[0])
    assert len(set(secrets)) == 1
    monkeypatch.setattr(units, "os", types.SimpleNamespace(urandom=lambda _: secrets[0]))
    table = ss.bounding.bound_units(parts(columns, 3), PROJECTION, neighbours=neighbours, **how)
    assert dict(table) == on_a_cluster


@pytest.mark.parametrize("names", [["x", "y", "z"], [b"x", b"y", b"z"], [7, 8, 9]], ids=["text", "bytes", "integers"])
@pytest.mark.parametrize(
    ("neighbours", "how"),
    [
        *((neighbours, {"clip": clip}) for neighbours in (BOUND, ss.L1(4, unit="plane")) for clip in ("scale", "cut")),
        *((ss.L1(4, unit="plane"), {"max_keys": 3, "clip": clip}) for clip in ("scale", "cut")),
        (ss.L2(2, unit="plane", max_keys=2), {}),
        *((ss.SketchL2(1, unit="plane", max_keys=2), {"clip": clip}) for clip in ("scale", "equal")),
    ],
    ids=str,
)
def test_a_key_that_a_dictionary_repeats_is_one_key(neighbours: Any, how: dict[str, Any], names: list[Any]) -> None:
    """Arrow lets a dictionary repeat its words; as two keys of a unit, each half would be clipped by itself."""
    rng = np.random.default_rng(5)
    words, codes = pa.array(names * 4), pa.array(rng.integers(12, size=60))
    repeated = pa.DictionaryArray.from_arrays(codes, words)
    rest = pa.array(rng.integers(5, size=60)), rng.integers(1, 9, size=60), pa.array(rng.integers(4, size=60))
    projection = PROJECTION.replace(resolution="1/8192" if neighbours.kind == "sketch-l2" else "1/2")
    bounds = units.UnitBounds(projection, neighbours, **how)

    def bounded(keys: pa.Array, planes: pa.Array) -> tuple[ss.SketchTable, dict[Any, str]]:
        table, summary = ss.SketchTable(projection), ss.bounding.BoundingSummary()
        (events,) = bounds.read(column_events(projection, planes, keys, [rest[0]], rest[1]), bytes(32), summary)
        bounds.add_to(table, events, bytes(32), summary)
        bounds.mark(table)
        return table, {key: str(table[key].counts) for key in table}

    plain = bounded(words.take(codes), rest[2])
    planes = pa.DictionaryArray.from_arrays(pa.array(np.arange(60)), rest[2])
    for keys in (words.take(codes).dictionary_encode(), repeated):
        assert bounded(keys, rest[2]) == bounded(keys, planes) == plain
    assert set(plain[0]) <= set(names)


@pytest.mark.parametrize("clip", ["scale", "cut"])
def test_equal_rows_give_equal_sketches_unless_something_is_clipped(clip: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bounds a secret of each call decides; scaled entries then differ by one grid step at most."""
    secrets = (bytes([number] * 32) for number in itertools.count())
    monkeypatch.setattr(units, "os", types.SimpleNamespace(urandom=lambda _: next(secrets), PathLike=os.PathLike))
    entries = ss.projections.Identity(dim=8)
    rows = (["a"] * 8, np.arange(8), np.array([9, 8, 7, 6, 5, 4, 3, 2]), ["Ann"] * 8)
    near = ss.L1(44, unit="customer")

    def runs(keys: list[str], **bounds: Any) -> list[dict[str, list[int]]]:
        tables = [ss.bounding.bound_units([(keys, *rows[1:])], entries, clip=clip, **bounds) for _ in range(8)]
        return [{key: table[key].state().tolist() for key in table} for table in tables]

    within = runs(rows[0], neighbours=near)
    assert within == [{"a": rows[2].tolist()}] * 8
    over = runs(rows[0], neighbours=ss.L1(22, unit="customer"))
    assert over[1:] != over[:-1]
    spread = np.ptp(np.array([one["a"] for one in over]), axis=0).max()
    assert spread <= 1 if clip == "scale" else spread > 1
    many = runs(["a", "b"] * 4, neighbours=near)
    assert {tuple(one) for one in many} == {("a",), ("b",)}


def test_a_slot_without_windows_is_one_of_the_global_window() -> None:
    assert int(GlobalWindow().max_timestamp().micros) == WHOLE


@pytest.mark.usefixtures("fixed_secret")
@pytest.mark.parametrize("rows", [1, 7, 50, 1 << 20])
def test_how_events_are_grouped_changes_nothing(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = stream(300)
    whole = ss.bounding.bound_units([columns], PROJECTION, neighbours=BOUND)
    monkeypatch.setattr(units, "GroupedEvents", lambda folder: GroupedEvents(folder, rows, split_bits=2))
    assert ss.bounding.bound_units(parts(columns, 5), PROJECTION, neighbours=BOUND) == whole


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(-9, 9)), max_size=60),
    st.integers(1, 8),
)
def test_every_event_of_a_unit_is_in_one_group(found: list[tuple[int, int, int]], rows: int) -> None:
    projection = ss.projections.Identity(dim=4)
    with GroupedEvents(rows=rows, split_bits=1) as events:
        for unit, index, value in found:
            events.add(read_columns(projection, [unit], ["k"], [[index]], [value]))
        groups = list(events.groups())
    owners = [{tuple(unit) for unit in group.units.tolist()} for group in groups]
    assert sum(map(len, owners)) == len(set().union(*owners))
    total = np.zeros(4, dtype=np.int64)
    for group in groups:
        np.add.at(total, group.indices, group.steps)
    assert total.tolist() == [sum(value for _, index, value in found if index == at) for at in range(4)]


@pytest.mark.usefixtures("fixed_secret")
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("clip", ["scale", "cut"])
def test_a_unit_less_moves_the_table_by_no_more_than_stated(clip: Any, together: bool) -> None:  # noqa: FBT001
    bound = ss.L1(3, unit="plane", max_keys=1 if together else 2)
    keys, indices, values, planes = stream(200, planes=6)
    everyone = ss.bounding.bound_units(
        [(keys, indices, values, planes)], PROJECTION, neighbours=bound, max_keys=2, clip=clip
    )
    stated = sensitivity_of(PROJECTION, bound)
    for plane in range(6):
        others = pa.array(planes.to_numpy() != plane)
        less = [column.filter(others) for column in (keys, indices, values, planes)]
        table = ss.bounding.bound_units([tuple(less)], PROJECTION, neighbours=bound, max_keys=2, clip=clip)  # type: ignore[list-item]
        gaps = [
            everyone.sketch_of(key).state() - table.sketch_of(key).state() for key in everyone.keys() | table.keys()
        ]
        assert 0 < sum(int(np.abs(gap).sum()) for gap in gaps) <= stated.l1
        assert sum(int((gap**2).sum()) for gap in gaps) <= stated.l2_squared


def test_a_table_clipped_together_keeps_more_for_the_same_noise() -> None:
    rows = (["a", "b", "c"], ["x"] * 3, [2, 2, 2], ["Ann"] * 3)
    projection = PROJECTION.replace(resolution=1)
    together = ss.bounding.bound_units([rows], projection, neighbours=ss.L1(6), max_keys=3)
    assert {key: sketch.mass for key, sketch in together.items()} == {"a": 2, "b": 2, "c": 2}
    assert len(ss.bounding.bound_units([rows], projection, neighbours=ss.L1(6))) == 1


def test_keys_that_are_not_public_waste_nothing() -> None:
    rows = (["a", "b", "c"], ["x"] * 3, None, ["Ann"] * 3)
    summary = ss.bounding.BoundingSummary()
    table = ss.bounding.bound_units([rows], PROJECTION, neighbours=ss.L1(1), public_keys=["c", "d"], summary=summary)
    assert list(table) == ["c"]
    assert (summary.rows_read, summary.rows_of_other_keys, summary.rows_dropped) == (3, 2, 2)


def test_a_stream_without_keys_and_indices_of_several_columns() -> None:
    day = dt.date(2020, 1, 1)
    table = ss.bounding.bound_units([(None, (["x"], [day]), [1.0], ["Ann"])], PROJECTION, neighbours=ss.L1(1))
    expected = PROJECTION.sketch()
    expected.update(PROJECTION.indices_of(["x"], [day]), 1.0)
    assert dict(table) == {"": expected}


def test_the_summary_counts_for_the_operator(tmp_path: Path) -> None:
    summary = ss.bounding.BoundingSummary()
    rows = (
        ["DE"] * 6,
        pa.array(["tea", "tea", "tea", "jam", "jam", None]),
        [80_995.0, -80_995.0, 5.25, 1e9, float("nan"), 1.0],
        ["Ann", "Ann", "Ann", "Bob", "Bob", "Bob"],
    )
    ss.bounding.bound_units([rows, (["DE"], ["tea"], [1.0], [""])], PROJECTION, neighbours=ss.L1(100), summary=summary)
    assert summary == ss.bounding.BoundingSummary(
        rows_read=7,
        rows_blank=2,
        rows_malformed=1,
        rows_truncated=1,
        units=2,
        units_over_bound=1,
        total=5 + 1e9,
        total_kept=105.0,
        largest_value=1e9,
        largest_unit=1e9,
    )
    summary.save(tmp_path / "summary.json")
    assert stat.S_IMODE((tmp_path / "summary.json").stat().st_mode) == 0o600
    assert summary.to_dict()["share_kept"] == pytest.approx(105 / (5 + 1e9))
    assert ss.bounding.BoundingSummary().to_dict()["share_kept"] is None


@pytest.mark.parametrize("fails", [False, True])
def test_files_have_no_names_and_go_with_the_work(
    fails: bool,  # noqa: FBT001
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(units, "GroupedEvents", lambda folder: GroupedEvents(folder, 10))
    seen: list[int] = []
    opened = Path("/proc/self/fd")
    before = len(list(opened.iterdir()))

    def batches() -> Iterator[Columns]:
        yield from parts(stream(300), 3)
        seen.extend(len(files) for files in [list(tmp_path.iterdir())])
        seen.append(len(list(opened.iterdir())) - before)
        if fails:
            raise ZeroDivisionError

    summary = ss.bounding.BoundingSummary()
    if fails:
        with pytest.raises(ZeroDivisionError):
            ss.bounding.bound_units(batches(), PROJECTION, neighbours=BOUND, folder=tmp_path, summary=summary)
        assert summary == ss.bounding.BoundingSummary()
    else:
        assert len(ss.bounding.bound_units(batches(), PROJECTION, neighbours=BOUND, folder=tmp_path)) == 5
    assert seen[0] == 0
    assert seen[1] >= 1 << grouping.SPLIT_BITS
    assert len(list(opened.iterdir())) <= before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"neighbours": ss.OneCoordinate(1)}, "units are clipped to L1"),
        ({"neighbours": ss.L1("1/4")}, "below one grid step"),
        ({"neighbours": ss.L1(1 << 61)}, "below 2\\*\\*62 grid steps"),
        ({"clip": "round"}, "clip must be 'scale'"),
        ({"max_keys": 3}, "max_keys must be the max_keys of the neighbours, 2"),
        ({"neighbours": ss.L1(3), "max_keys": 0}, "max_keys must be"),
    ],
)
def test_mistakes_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=message):
        ss.bounding.bound_units([], PROJECTION, **({"neighbours": BOUND} | arguments))


def test_columns_of_wrong_types_and_lengths_are_refused() -> None:
    wrong = ((["a"], ["x"], [1.0], [1.5]), (["a"], ["x", "y"], [1.0], ["Ann"]))
    for rows, message in zip(wrong, ("unit column must hold", "one length"), strict=True):
        with pytest.raises(ss.InvalidInputError, match=message):
            ss.bounding.bound_units([rows], PROJECTION, neighbours=BOUND)
    with pytest.raises(TypeError, match="needs a Projection"):
        ss.bounding.bound_units([], "SJLT", neighbours=BOUND)  # type: ignore[arg-type]


def test_totals_of_units_are_netted() -> None:
    rows = (["a", "a", "b", "a"], ["x", "x", "y", "x"], [9, -9, 2, 3], ["Ann", "Ann", "Ann", "Bob"])
    assert sorted(ss.bounding.unit_totals([rows], PROJECTION).tolist()) == [2, 3]
    more = [rows, (["a"], ["z"], [-5], ["Ann"])]
    assert sorted(ss.bounding.unit_totals(more, PROJECTION).tolist()) == [3, 5]
    assert sorted(ss.bounding.unit_totals(more, PROJECTION, together=True).tolist()) == [3, 7]
    assert ss.bounding.unit_totals([], PROJECTION).tolist() == []
    norms = ss.bounding.unit_totals(more, PROJECTION, norm="l2")  # over all keys
    assert sorted(norms.tolist()) == pytest.approx([3, math.hypot(2, 5)])
    with pytest.raises(ss.InvalidInputError, match="norm must be 'l1' or 'l2'"):
        ss.bounding.unit_totals(more, PROJECTION, norm="l3")  # type: ignore[arg-type]
