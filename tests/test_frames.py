"""Tables of other libraries: each gives the sketch of the same rows, and results go back as Arrow."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.data import tables
from streamsketch.estimation import Estimates

PROJECTION = ss.SJLT(dim=ss.HASHED_DIM, sketch_dim=32, sparsity=4, seed=11)
SHOPS, ITEMS, AISLES, SOLD = ["n", "s", "n"], ["milk", "ü", "milk"], [7, 8, 9], [3, -1, 2]
COLUMNS = {"shop": SHOPS, "item": ITEMS, "aisle": AISLES, "sold": SOLD}


def polars(columns: dict[str, Any]) -> Any:
    return pytest.importorskip("polars", reason="polars is not installed").DataFrame(columns)


def duckdb(columns: dict[str, Any]) -> Any:
    connection = pytest.importorskip("duckdb", reason="DuckDB is not installed").connect()
    connection.register("sales", pa.table(columns))
    return connection.sql("SELECT * FROM sales WHERE shop IS NOT NULL")


MAKERS: list[Callable[[dict[str, Any]], Any]] = [
    pa.table,
    pa.record_batch,
    lambda columns: pa.table(columns).to_reader(max_chunksize=1),
    pd.DataFrame,
    lambda columns: pd.DataFrame(columns).astype({"shop": "category"}),
    polars,
    lambda columns: polars(columns).with_columns(pytest.importorskip("polars").col("shop").cast(str)),
    lambda columns: polars(columns).lazy().filter(pytest.importorskip("polars").col("shop") != ""),
    duckdb,
]


@pytest.mark.parametrize("make", MAKERS)
def test_every_library_s_table_gives_the_same_sketches(make: Callable[[dict[str, Any]], Any]) -> None:
    one, both, many = PROJECTION.sketch(), PROJECTION.sketch(), PROJECTION.table()
    one.update_rows(make(COLUMNS), index="item", value="sold")
    both.update_rows(make(COLUMNS), index=["item", "aisle"])
    many.update_rows(make(COLUMNS), key="shop", index="aisle", value="sold")
    alone, pair, each = PROJECTION.sketch(), PROJECTION.sketch(), PROJECTION.table()
    alone.update(ITEMS, SOLD)
    pair.update(PROJECTION.indices_of(ITEMS, AISLES))
    each.update(SHOPS, AISLES, SOLD)
    assert (one, both, many) == (alone, pair, each)


def test_mistakes_are_named_and_change_nothing() -> None:
    sketch, table = PROJECTION.sketch(), PROJECTION.table()
    with pytest.raises(TypeError, match="got a dict"):
        sketch.update_rows(COLUMNS, index="item")
    with pytest.raises(ss.InvalidInputError, match=r"must have price exactly once; it has \['shop', 'item'"):
        sketch.update_rows(pa.table(COLUMNS), index="item", value="price")
    twice = pa.table([["a"], ["b"]], names=["item", "item"])
    with pytest.raises(ss.InvalidInputError, match="item exactly once"):
        sketch.update_rows(twice, index="item")
    late = pa.RecordBatchReader.from_batches(
        pa.schema([("item", pa.string()), ("sold", pa.float64())]),
        [pa.record_batch({"item": ["a"], "sold": [1.0]}), pa.record_batch({"item": ["b"], "sold": [np.nan]})],
    )
    with pytest.raises(ss.InvalidInputError, match="finite"):
        sketch.update_rows(late, index="item", value="sold")
    with pytest.raises(ss.InvalidInputError, match="nulls"):
        table.update_rows(pa.table({"shop": ["a", None], "item": ["b", "c"]}), key="shop", index="item")
    assert sketch == PROJECTION.sketch()
    assert table == PROJECTION.table()


def test_a_reader_that_fails_half_way_changes_nothing() -> None:
    def rows() -> Any:
        yield pa.record_batch({"item": ["a"]})
        raise pa.ArrowInvalid("private text")

    sketch = PROJECTION.sketch()
    reader = pa.RecordBatchReader.from_batches(pa.schema([("item", pa.string())]), rows())
    with pytest.raises(ss.InvalidInputError, match="could not be read completely") as caught:
        sketch.update_rows(reader, index="item")
    assert "private" not in str(caught.value)
    assert sketch == PROJECTION.sketch()


def test_all_pairs_as_a_table_of_any_library() -> None:
    sketches = []
    for count in (1, 5, 9):
        sketch = PROJECTION.sketch()
        sketch.update("a", count)
        sketches.append(sketch.release(epsilon=1.0, neighbours=ss.L1(1)))
    estimates = ss.pairwise(sketches)
    table = estimates.to_arrow(["x", "y", "z"])
    assert table.column_names == ["first", "second", "estimate", "standard_error", "low_95", "high_95"]
    rows = table.to_pylist()
    assert [(row["first"], row["second"]) for row in rows] == [("x", "y"), ("x", "z"), ("y", "z")]
    assert rows[2]["estimate"] == estimates[1, 2].value
    assert (rows[2]["low_95"], rows[2]["high_95"]) == estimates[1, 2].interval(0.95)
    assert list(table.to_pandas()["second"]) == ["y", "z", "z"]
    with pytest.raises(ss.InvalidInputError, match=r"pairs of 2 keys need estimates of shape \(2, 2\)"):
        estimates.to_arrow(["x", "y"])


def test_what_a_notebook_shows_and_a_pickle_keeps() -> None:
    estimate = ss.Estimate(20336.4, 1736.0**2, 0.0, lowest=0.0)
    assert repr(estimate) == "<Estimate 20,336 ± 1,736, 95 % interval 16,934 … 23,739>"
    assert pickle.loads(pickle.dumps(estimate)) == estimate  # noqa: S301 - our own bytes
    many = Estimates(np.arange(4.0).reshape(2, 2), np.ones((2, 2)), np.zeros((2, 2)))
    assert repr(many) == "<2 by 2 estimates: 0.0 ± 1.0, 1.0 ± 1.0, 2.0 ± 1.0, …>"
    again = pickle.loads(pickle.dumps(many))  # noqa: S301 - as above
    assert (again.value == many.value).all()
    assert repr(Estimates(np.empty(0), np.empty(0), np.empty(0))) == "<0 estimates: >"


def test_a_lazy_frame_is_read_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = polars({"item": ["milk"] * 1000, "sold": range(1000)}).lazy()
    monkeypatch.setattr(tables, "_LAZY_ROWS", 100)
    monkeypatch.setattr(type(frame), "collect", None)
    lengths = [batch.num_rows for batch in tables.batches_of(frame, ["sold"])]
    assert (sum(lengths), max(lengths)) == (1000, 100)
    with pytest.raises(ss.InvalidInputError, match="must have price exactly once"):
        list(tables.batches_of(frame, ["price"]))
    wrong = frame.with_columns(pytest.importorskip("polars").col("item").cast(int).alias("sold"))
    with pytest.raises(ss.InvalidInputError, match=r"could not be read completely \(InvalidOperationError\)"):
        list(tables.batches_of(wrong, ["sold"]))
