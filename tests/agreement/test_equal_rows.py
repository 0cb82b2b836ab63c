"""Cells that the page on text and spelling calls equal are one item from every reader, and the others are different."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.agreement import Column
from streamsketch.intake import RowReader
from tests.agreement.test_text import READERS

PROJECTION = ss.SJLT(sketch_dim=64, sparsity=4, seed=7)
sketch: Any = ss.sketch
NOON = ["2026-01-31T12:00+01:00", "2026-01-31T11:00Z", "2026-01-31T11:00"]
APART = ["007", "7", "+7", "1.0", "1", "1.50", "1.5", "TRUE", "true", "2026-01-31", *NOON, "NA", "NULL", "nan", "-"]
EQUAL: dict[str, list[list[str]]] = {
    "text": [[cell] for cell in APART] + [["tea", " tea "], ["café", "cafe\u0301"], ["Tea"]],
    "integer": [["007", "7", "+7"], ["1.0", "1"], ["8"]],
    "decimal(2)": [["007", "7"], ["1.0", "1"], ["1.50", "1.5"]],
    "boolean": [["TRUE", "true", "1"], ["false", "0"]],
    "date": [["2026-01-31"], ["2026-02-01"]],
    "timestamp": [NOON, ["2026-01-31T12:00"]],
}
"""By type, the groups of cells that are equal."""


def agreed(kind: str) -> ss.Agreement:
    return ss.Agreement(PROJECTION, index=Column("item", kind), missing="drop")


def state_of(reader: str, kind: str, cell: str, folder: Path) -> bytes:
    """Return the state of a sketch of the cell, as one reader reads it."""
    agreement = agreed(kind)
    rows = READERS[reader](pa.table({"item": [cell]}), folder)
    sums: Any = ss.Sketch(agreement)
    if isinstance(rows, str):
        RowReader(agreement).read(folder / rows, lambda batch, _: sums.update_rows(batch))
    else:
        sums = sketch(rows, agreement)
    return bytes(sums.state().tobytes())


@pytest.mark.parametrize("kind", EQUAL)
@pytest.mark.parametrize("reader", READERS)
def test_cells_are_equal_as_the_page_says(reader: str, kind: str, tmp_path: Path) -> None:
    found = []
    for group in EQUAL[kind]:
        states = [state_of(reader, kind, cell, tmp_path) for cell in group]
        assert all(one == other for one, other in pairwise(states)), group
        assert any(states[0]), "it is not dropped"
        found.append(states[0])
    assert len(set(found)) == len(found)
    assert found == [state_of("Arrow", kind, group[0], tmp_path) for group in EQUAL[kind]]
