"""Rows in order by four columns, also where many agree in the first."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsketch.sketching.bounding.runs import order_of

word, integer = st.integers(0, (1 << 64) - 1), st.integers(-(1 << 63), (1 << 63) - 1)
few = st.integers(0, 2)
rows = st.tuples(st.one_of(few, word), st.one_of(few, word), st.one_of(few, integer), st.one_of(few, integer))


def ordered(table: list[tuple[int, int, int, int]]) -> list[tuple[int, int, int, int]]:
    kinds = (np.uint64, np.uint64, np.int64, np.int64)
    columns = [np.array([row[place] for row in table], dtype=kind) for place, kind in enumerate(kinds)]
    return [table[row] for row in order_of(*columns).tolist()]


@given(st.lists(rows, max_size=120))
def test_rows_are_in_order(table: list[tuple[int, int, int, int]]) -> None:
    assert ordered(table) == sorted(table)


@pytest.mark.parametrize("count", [31, 32, 33, 34, 500])
def test_long_runs_are_in_order(count: int) -> None:
    rng = np.random.default_rng(count)
    table = [(7, int(a), int(b), int(c)) for a, b, c in rng.integers(-3, 3, size=(count, 3)) + np.array([3, 0, 0])]
    table += [(8, 0, 0, 0), (6, 0, 0, 0)]
    assert ordered(table) == sorted(table)
