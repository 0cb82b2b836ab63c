"""Rows of many windows in one batch, in any order: each window has its own rows, and their counts."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.agreement import TextRule
from streamsketch.streams.open_windows import Windows
from tests.features.test_paths import AGREEMENT as FEATURES
from tests.features.test_streams import LOG, POLICY
from tests.streams.agreed import followed
from tests.streams.naive import AGREEMENT, KEYS, PEOPLE, policy_of

SECRET = bytes(range(32))
TEXTS = ("shop", "item", "customer")
ROWS = st.lists(
    st.tuples(
        st.integers(0, 5),  # minutes
        st.sampled_from([*KEYS, *KEYS, "moon", None]),
        st.sampled_from("abc"),
        st.sampled_from([1.0, 2.0, 3.0, -4.0, 1.0, 7.0, math.inf, None]),
        st.sampled_from(["Ann", "Bob", "Cy", "Dee", "", None]),
    ),
    min_size=2,
    max_size=40,
)
MANY = [(place % 6, KEYS[place % 7 % 3], "abc"[place % 5 % 3], 1.0, f"c{place % 11}") for place in range(400)]
"""Units with more keys than they may have, of which a secret of each window chooses some."""


def batch_of(rows: list[Any], *, encoded: bool = False) -> pa.RecordBatch:
    """Return rows of minute, shop, item, amount and customer; the texts perhaps as dictionaries."""
    minutes, *columns = map(list, zip(*rows, strict=True))
    at = [f"2026-11-22T13:{minute:02}:{second % 60:02}Z" for second, minute in enumerate(minutes)]
    batch = pa.RecordBatch.from_pydict({"at": at} | dict(zip(["shop", "item", "n", "customer"], columns, strict=True)))
    batch = batch.set_column(3, "n", batch["n"].cast(pa.float64()))
    for name in TEXTS:
        column = batch.column(name).cast(pa.string())
        column = column.dictionary_encode() if encoded else column
        batch = batch.set_column(batch.schema.get_field_index(name), name, column)
    return batch


def counted(windows: Windows) -> Windows:
    windows.by_window = {}
    return windows


def same(mine: Windows, theirs: Windows, closings: int) -> None:
    """Assert that windows have the same counts, and close to the same sums."""
    assert mine.counts == theirs.counts
    assert mine.by_window == theirs.by_window
    assert mine.open.keys() == theirs.open.keys()
    for _ in range(closings):
        ours, expected = mine.closing(), theirs.closing()
        assert ours.table == expected.table
        assert dataclasses.asdict(ours.summary) == pytest.approx(dataclasses.asdict(expected.summary))
        mine.advance(ours)
        theirs.advance(expected)


@pytest.mark.parametrize("clip", [None, "none"], ids=["units", "sums"])
@pytest.mark.parametrize("agreement", [AGREEMENT, PEOPLE], ids=["L1", "SketchL2"])
@example(rows=MANY, missing="drop", encoded=False)
@given(rows=ROWS, missing=st.sampled_from(["keep", "drop"]), encoded=st.booleans())
def test_one_batch_of_many_windows_is_a_batch_for_each(
    agreement: ss.Agreement, clip: str | None, rows: list[Any], missing: Any, *, encoded: bool
) -> None:
    """With rows that are malformed, blank, or of keys that are not public."""
    policy = policy_of(Path("out"), agreement.replace(missing=missing), clip=clip, clock="heartbeats")
    batch, minutes = batch_of(rows, encoded=encoded), np.array([row[0] for row in rows])
    together, apart = (counted(Windows(policy, SECRET)) for _ in range(2))
    added = together.add(batch, 1)
    assert added == sum(apart.add(batch.filter(pa.array(minutes == minute)), 1) for minute in range(6))
    read = counted(Windows(policy, SECRET))
    if clip is None:
        assert read.add(batch, 1, read=read.of.windows().read(batch, 1)) == added
        assert read.counts == together.counts
    same(together, apart, 6)


@pytest.mark.parametrize("clip", [None, "none"], ids=["units", "sums"])
def test_the_time_may_be_a_column_that_is_agreed_on(clip: str | None) -> None:
    """It has the agreed spelling then, and windows by it as it stands."""
    index = AGREEMENT.replace(index=["item", "at"], text=TextRule(case="fold"))
    policy, expected = policy_of(Path("out"), index, clip=clip), AGREEMENT.projection.table()
    windows, rows = Windows(policy, SECRET), [(0, "north", "A", 1.0, "Ann"), (0, "South", "b", 2.0, "Bob")]
    assert windows.add(batch_of(rows), 1) == 2
    keys = ["north", "south"]
    times = ["2026-11-22t13:00:00z", "2026-11-22t13:00:01z"]
    expected.update(keys, AGREEMENT.projection.indices_of(["a", "b"], times), [1, 2])
    table = windows.closing().table
    assert all(table.sketch_of(key).state().tolist() == expected[key].state().tolist() for key in keys)


@pytest.mark.parametrize("clip", [None, "none"], ids=["bounded", "asserted"])
def test_one_batch_of_many_windows_of_features_is_a_batch_for_each(clip: str | None) -> None:
    policy = followed(FEATURES, **POLICY, folder="out", clip=clip, clock="heartbeats")
    order = [5, 0, 3, 2, 4, 1]
    batch = LOG.take(pa.array(order)).combine_chunks().to_batches()[0]
    together, apart = (counted(Windows(policy, SECRET)) for _ in range(2))
    assert together.add(batch, 1) == len(order)
    for hour in ("T13", "T14"):
        apart.add(batch.filter(pc.match_substring(batch["at"], hour)), 1)
    same(together, apart, 26)


@pytest.mark.parametrize("first", [101, [*range(101, 104), *range(201, 204)]], ids=["first", "all"])
def test_errors_of_a_window_name_its_rows_in_the_log(first: Any) -> None:
    rows = [
        (minute, "north", "a", amount, "Ann") for minute, amount in zip([1, 0] * 3, [1, 1, 1, 1, 1e30, 1], strict=True)
    ]
    numbers = list(range(101, 107)) if isinstance(first, int) else first
    windows = Windows(policy_of(Path("out"), clip="none"), SECRET)
    with pytest.raises(ss.InvalidInputError) as raised:
        windows.add(batch_of(rows), first)
    assert f"rows {numbers[0]} to {numbers[4]}:" in str(raised.value)
    assert not windows.open


def test_a_window_that_is_over_leaves_no_memory_of_others() -> None:
    """What a window holds of a batch of many windows is its own rows alone, however few they are."""
    rows = [(minute % 6, "north", "a", 1.0, "Ann") for minute in range(60)]
    windows = Windows(policy_of(Path("out"), clock="heartbeats"), SECRET)
    windows.add(batch_of(rows), 1)
    bases = [
        [column.base for column in (part.units, part.codes, part.indices, part.steps)]
        for window in windows.open.values()
        for part in window._parts  # type: ignore[union-attr]
    ]
    assert len(bases) == 6
    assert all(base is None or base.size <= 20 for columns in bases for base in columns)
