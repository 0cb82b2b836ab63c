"""Counts of units in raw files: kept beside the cells where units were counted, added up, ended by other parts."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.bounding import bound_units
from streamsketch.errors import InvalidInputError, WireFormatError
from streamsketch.sketching.bounding.contributions import NO_KEY
from streamsketch.storage import load_raw, release_raw, save_raw
from streamsketch.storage.raw_files import append_raw
from streamsketch.storage.sketches import RawHeader, RawSketch, numbers_of

NEIGHBOURS = ss.L1(40, unit="customer", max_keys=2)
PROJECTION = ss.SJLT(sketch_dim=16, sparsity=4, seed=3)
AGREEMENT = ss.Agreement(
    PROJECTION,
    index="item",
    key="key",
    unit="customer",
    neighbours=NEIGHBOURS,
    counting=ss.privacy.Counting.of(PROJECTION, NEIGHBOURS, delta=0),
)


def table_of(rows: list[tuple[str, int, int, str]]) -> ss.SketchTable:
    columns: Any = [list(column) for column in zip(*rows, strict=True)]
    return bound_units([tuple(columns)] if rows else [], PROJECTION, neighbours=NEIGHBOURS)


FIRST = [("a", 1, 3, "u"), ("b", 2, 90, "u"), ("a", 1, 1, "v")]
MORE = [("b", 1, 7, "w"), ("c", 2, 1, "w")]


def counts_of(state: Any) -> Any:
    counts = state.counts
    return None if counts is None else counts.tolist()


@pytest.mark.parametrize("rows", [FIRST, []], ids=["rows", "no rows"])
@pytest.mark.parametrize("single", [True, False])
def test_counts_are_read_as_they_were_written(rows: list[Any], single: bool, tmp_path: Path) -> None:  # noqa: FBT001
    table = table_of([("", *row[1:]) for row in rows] if single else rows)
    state = table.sketch_of(NO_KEY) if single else table
    save_raw(state, tmp_path / "a")
    raw = load_raw(tmp_path / "a")
    assert counts_of(raw.state) == counts_of(state) is not None
    assert raw.state.bounds == state.bounds
    assert raw.state == state


def test_a_file_without_counts_has_none_behind_its_cells() -> None:
    cells = np.arange(16)
    for counts in ([], [5, 6]):
        data = np.append(cells, counts).astype("<i8").tobytes()
        assert numbers_of(data, 16).tolist() == [*cells.tolist(), *counts]
    for data in (cells.tobytes()[:-1], cells.tobytes() + bytes(8), np.append(cells, [5, 6]).tobytes() + b"\0", b""):
        with pytest.raises(WireFormatError, match="cells"):
            numbers_of(data, 16)


def test_what_is_appended_to_nothing_keeps_its_counts_and_more_ends_them(tmp_path: Path) -> None:
    """A unit may be in both parts, in one key, and would count twice."""
    path = tmp_path / "a"
    save_raw(PROJECTION.table(), path)
    for rows, wanted in ((FIRST, [[2, 4], [1, 40]]), (MORE, None)):
        added = RawHeader.of(load_raw(path)).empty()
        added.merge(table_of(rows))  # type: ignore[arg-type]
        append_raw(RawSketch(added), path)
        assert counts_of(load_raw(path).state) == wanted
    state, total = load_raw(path).state, table_of(FIRST)
    total.merge(table_of(MORE))
    assert state == total


@pytest.mark.parametrize("rows", [FIRST, []])
def test_a_release_of_a_file_has_the_counts_that_the_agreement_says(rows: list[Any], tmp_path: Path) -> None:
    table, path = table_of(rows), tmp_path / "a"
    counted = ss.SketchTable.from_state(
        PROJECTION,
        list(table),
        table.sums(),
        table.masses,
        agreement=AGREEMENT,
        bounds=table.bounds,
    )
    save_raw(counted, path)
    released = release_raw(path, epsilon=100, neighbours=NEIGHBOURS, public_keys=["a", "none"])
    assert isinstance(released, ss.PrivateTable)
    assert [released[key].layout.counting for key in released] == [AGREEMENT.counting] * 2
    assert abs(released["a"].units.value - 2 * bool(rows)) < 20 * released["a"].units.standard_error
    (past,) = load_raw(path).releases
    assert past.guarantee == released.guarantee
    assert past.guarantee.mechanism.layout.counting == AGREEMENT.counting
    with pytest.raises(InvalidInputError, match="count of units"):
        release_raw(path, epsilon=1, neighbours=NEIGHBOURS, public_keys=["a"])
