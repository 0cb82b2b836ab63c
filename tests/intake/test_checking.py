"""Looking at rows keeps a bounded number of names and units, and says what it did not look at."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.intake.checking import check_rows

AGREEMENT = ss.Agreement(
    ss.SJLT(sketch_dim=64, sparsity=4, seed=7),
    index="item",
    unit="who",
    missing="drop",
    neighbours=ss.L1(5, unit="who"),
)


def batches(count: int, letters: int = 1) -> Iterator[pa.RecordBatch]:
    for start in range(0, count, 100):
        numbers = range(start, start + 100)
        names = ["x" * letters + str(n) for n in numbers]
        yield pa.record_batch({"who": [f"c{n}" for n in numbers], "item": [*names[:-1], "x0"]})


@pytest.mark.parametrize("most", [250, 10_000])
def test_names_and_units_beyond_the_first_are_said_to_be_left_out(most: int) -> None:
    found = {(one.column, one.kind): one.rows for one in check_rows(batches(1000), AGREEMENT, most=most).findings()}
    others = {(column, kind): rows for (column, kind), rows in found.items() if kind.startswith("not ")}
    if most == 10_000:
        assert others == {}
    else:
        assert others == {
            ("who", "not looked at"): 750,
            ("item", "not looked at"): 990 - 250,  # "x0" has been met before
            ("who", "not counted"): 750,
        }


def test_long_names_count_by_their_letters() -> None:
    found = {one.kind: one.rows for one in check_rows(batches(100, 6_000), AGREEMENT, most=1_000).findings()}
    assert found["not looked at"] == 99 - 64_000 // 6_002 - 1 + 1
