"""Every row that is read is counted once, whatever becomes of it."""

from pathlib import Path
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.once.counts import RowCounts
from streamsketch.streams import Stream
from tests.streams.naive import AGREEMENT, KEYS, Row, batch_of, policy_of

LACKING = {
    "a unit": Row(70, KEYS[0], "a", 1, ""),
    "a key": Row(70, "", "a", 1, "Ann"),
    "an index": Row(70, KEYS[0], "", 1, "Ann"),
}


@pytest.mark.parametrize("clock", ["events", "heartbeats"])
@pytest.mark.parametrize("missing", ["refuse", "drop", "keep"])
@pytest.mark.parametrize("lacking", LACKING)
def test_rows_are_counted_once(lacking: str, missing: Any, clock: str, out: Path) -> None:
    """One before the start, one of another key, one that is kept, and one that lacks a value."""
    stream = Stream(*policy_of(out, AGREEMENT.replace(missing=missing, value=None), clock=clock), out.parent / "s")
    rows = [Row(-9, KEYS[1], "b", 1, "Bob"), Row(5, "moon", "b", 1, "Bob"), Row(70, KEYS[1], "b", 1, "Bob")]
    if (missing, clock) == ("refuse", "events"):
        with pytest.raises(ss.InvalidInputError, match="refuses missing values"):
            stream.add(batch_of([*rows, LACKING[lacking]]), 1)
        assert stream.row_counts == RowCounts()
        return
    stream.add(batch_of([*rows, LACKING[lacking]]), 1)
    is_other = missing == "keep" and lacking == "a key"
    is_blank = missing != "keep" or lacking == "a unit"
    assert stream.row_counts == RowCounts(read=4, early=1, other_keys=1 + is_other, blank=int(is_blank))
