"""Files that are large enough to be read one piece ahead: the same rows, the same errors, and no thread that stays."""

import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.intake import RowReader
from streamsketch.intake.rows import Intake

PROJECTION = ss.SJLT(sketch_dim=64, sparsity=4, seed=7)
AGREEMENT = ss.Agreement(PROJECTION, index="item", value="sold", unit="person", neighbours=ss.L1(10**9, unit="person"))
SUMS = AGREEMENT.replace(unit=None, neighbours=None)
COUNT, BLOCK = 250_000, 1 << 19
ITEMS, SOLD = np.arange(COUNT) % 977, np.arange(COUNT) % 10
TABLE = pa.table(
    {
        "item": [f"item {number:05}" for number in ITEMS.tolist()],
        "sold": SOLD,
        "person": [f"person {number}" for number in (ITEMS % 13).tolist()],
    }
)


@pytest.fixture(scope="module")
def lines() -> list[str]:
    columns = (TABLE.column(name).to_pylist() for name in TABLE.column_names)
    return ["item,sold,person\n", *(f"{item},{sold},{person}\n" for item, sold, person in zip(*columns, strict=True))]


def written(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(lines), encoding="utf-8")
    assert path.stat().st_size > 1 << 22
    return path


def read(path: Path) -> ss.Sketch:
    sketch, intake = ss.Sketch(SUMS), Intake(SUMS)
    RowReader(SUMS, block_bytes=BLOCK).read(path, lambda batch, first: sketch.add_events(intake.read(batch, first)))
    return sketch


def test_rows_are_those_of_the_table(tmp_path: Path, lines: list[str]) -> None:
    path = written(tmp_path / "sales.csv", lines)
    whole = ss.Sketch(SUMS)
    whole.update_rows(TABLE)
    assert read(path) == whole
    reader, intake = RowReader(AGREEMENT, block_bytes=BLOCK), Intake(AGREEMENT, bounded=True)
    events = list(reader.events(path, intake))
    assert len(events) > 5
    assert sum(len(part) for part in events) == reader.seen.rows[str(path)] == COUNT
    assert np.concatenate([part.steps for part in events]).tolist() == SOLD.tolist()


@pytest.mark.parametrize("row", [2, 120_000, COUNT])
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("tea,many,person 1\n", "in row {0:,} a text that is not a plain decimal number"),
        ("tea,1\n", r"cannot be read as CSV \(row {0:,}, 2 cells, not 3\)"),
    ],
    ids=["a value", "a cell"],
)
def test_an_error_names_its_row_and_leaves_no_thread(
    row: int, line: str, said: str, tmp_path: Path, lines: list[str]
) -> None:
    changed = list(lines)
    changed[row - 1] = line
    path = written(tmp_path / "sales.csv", changed)
    with pytest.raises(ss.InvalidInputError, match=said.format(row)):
        read(path)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("streamsketch-ahead")]
