"""Rows of agreements whose windows are keys: those of other windows are no one's concern."""

import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.errors import InvalidInputError
from streamsketch.intake.by_window import intake_of

AGREEMENT = ss.Agreement(
    ss.CountSketch(sketch_dim=64, seed=7),
    key="shop",
    index="item",
    value="sold",
    missing="drop",
    windows=ss.Windows(time="at", every="1 min", first="2026-11-22T13:01Z", last="2026-11-22T13:02Z", are="keys"),
)


def rows(*times: str, sold: str = "1") -> pa.RecordBatch:
    columns = {"at": list(times), "shop": ["north"] * len(times), "item": ["tea"] * len(times)}
    return pa.RecordBatch.from_pydict(columns | {"sold": ["1"] * (len(times) - 1) + [sold]})


@pytest.mark.parametrize("other", ["2026-11-22T13:00Z", "2026-11-22T13:03Z", "2025-11-22T13:01Z"])
def test_rows_of_other_windows_are_left_out_and_not_judged(other: str) -> None:
    own = "2026-11-22T13:01:59Z", "2026-11-22T13:02Z"
    events = intake_of(AGREEMENT).read(rows(*own, other, sold="many"))
    assert len(events) == 2
    assert events.rows == 2, "others do not count as read"
    with pytest.raises(InvalidInputError, match="in row 3"):
        intake_of(AGREEMENT).read(rows(*own, own[0], sold="many"))
