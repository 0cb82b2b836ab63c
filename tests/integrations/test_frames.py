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

PROJECTION = ss.SJLT(sketch_dim=32, sparsity=4, seed=11)
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
    with pytest.raises(ss.InvalidInputError, match="the column price exactly once; the names of its other") as error:
        sketch.update_rows(pa.table(COLUMNS), index="item", value="price")
    assert "shop" not in str(error.value), "of a pivoted table, names of columns are data"
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


ODD: dict[str, list[Any]] = {
    "types": ["private text", 5, 7],
    "huge": [2**70, 1, 2],
    "objects": [object(), object(), object()],
    "tuples": [("private", 1), (), ()],
    "lists": [["private"], 5, None],
}
AGREED = ss.Agreement(PROJECTION, index="item", unit="shop", neighbours=ss.L1(3, unit="shop"))


def updated(rows: Any, column: str) -> ss.Sketch:
    sketch = PROJECTION.sketch()
    sketch.update_rows(rows, index=column)
    return sketch


READERS: dict[str, Callable[[Any, str], Any]] = {
    "update_rows": updated,
    "agree": lambda rows, column: ss.agree(rows, PROJECTION, index=column),
    "agree on a value": lambda rows, column: ss.agree(rows, PROJECTION, index="shop", value=column),
    "sketch": lambda rows, column: ss.sketch(rows, AGREED.replace(index=column)),
    "bound": lambda rows, column: ss.bound(rows, AGREED.replace(index=column)),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", ODD)
def test_a_mixed_column_of_pandas_is_named_if_it_is_used_and_else_not_read(kind: str, reader: str) -> None:
    frame = pd.DataFrame(COLUMNS | {"note": ODD[kind]})
    expected = READERS[reader](pd.DataFrame(COLUMNS), "item" if reader != "agree on a value" else "sold")
    assert READERS[reader](frame, "item" if reader != "agree on a value" else "sold") == expected
    with pytest.raises(ss.InvalidInputError, match="the column note holds") as caught:
        READERS[reader](frame, "note")
    assert "private" not in str(caught.value)


def test_a_column_that_arrow_does_not_know_may_be_in_a_frame_of_polars() -> None:
    pl = pytest.importorskip("polars")
    frame = polars(COLUMNS).with_columns(pl.Series("note", [object()] * 3, dtype=pl.Object))
    assert updated(frame, "item") == updated(polars(COLUMNS), "item")


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Zurich", "America/St_Johns", "+05:30"])
def test_times_of_pandas_keep_their_zones_without_a_warning(zone: str, unit: Any) -> None:
    texts = ["2026-01-31T12:00:00Z", "2026-06-30T22:30:00Z", None]
    times = pd.Series(pd.to_datetime(texts)).dt.as_unit(unit).dt.tz_convert(zone)
    agreed = ss.Agreement(PROJECTION, index={"at": "timestamp"}, missing="drop")
    expected = ss.sketch(pa.table({"at": texts}), agreed)
    for frame in (pd.DataFrame({"at": times}), pd.DataFrame({"n": [1, 2, 3]}, index=pd.Index(times, name="at"))):
        assert ss.sketch(frame, agreed) == expected
    assert expected.mass == 2


def test_columns_of_pandas_may_be_levels_of_its_index_or_there_twice() -> None:
    frame = pd.DataFrame(COLUMNS)
    expected = updated(frame, "item")
    assert updated(frame.set_index(["item", "shop"]), "item") == expected
    twice = pd.concat([frame, frame[["sold"]]], axis=1)
    assert updated(twice, "item") == expected
    with pytest.raises(ss.InvalidInputError, match="must have the column sold exactly once"):
        updated(twice, "sold")
    with pytest.raises(ss.InvalidInputError, match="names of columns must be text, got 5"):
        PROJECTION.sketch().update_rows(frame, index=[5])  # type: ignore[list-item]


def test_a_matrix_of_mixed_columns_is_refused_without_a_value() -> None:
    for column in ODD.values():
        with pytest.raises(ss.InvalidInputError) as caught:
            ss.SJLT(dim=2, sketch_dim=8, sparsity=2, seed=1).transform(pd.DataFrame({"x": [1, 2, 3], "y": column}))
        assert "private" not in str(caught.value)


def test_a_key_that_is_not_there_is_a_sentence_and_a_key_error() -> None:
    table = PROJECTION.table(["7"])
    released = table.release(epsilon=1.0, neighbours=ss.L1(1), keys_are_public=True)
    for tables_of, said in ((table, "no sketch of 7 .7 and '7' are"), (released, r"it has \['7'\]")):
        with pytest.raises(KeyError, match=said) as caught:
            tables_of[7]
        assert isinstance(caught.value, ss.StreamsketchError)
        assert tables_of.get(7) is None


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
    estimate = ss.estimation.Estimate(20336.4, 1736.0**2, 0.0, lowest=0.0)
    assert repr(estimate) == "<Estimate 20,336 ± 1,736, 95 % interval 16,934 … 23,739>"
    assert pickle.loads(pickle.dumps(estimate)) == estimate  # noqa: S301 - our own bytes
    many = Estimates(np.arange(4.0).reshape(2, 2), np.ones((2, 2)), np.zeros((2, 2)))
    assert repr(many) == "<2 by 2 estimates: 0.0 ± 1.0, 1.0 ± 1.0, 2.0 ± 1.0, …>"
    again = pickle.loads(pickle.dumps(many))  # noqa: S301 - as above
    assert (again.value == many.value).all()
    assert repr(Estimates(np.empty(0), np.empty(0), np.empty(0))) == "<0 estimates: >"


def test_a_lazy_frame_is_read_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = polars({"item": ["milk"] * 1000, "sold": range(1000)}).lazy()
    monkeypatch.setattr(type(frame), "collect", None)
    assert sum(batch.num_rows for batch in tables.batches_of(frame, ["sold"])) == 1000
    lengths = [batch.num_rows for batch in tables.lazy_batches(frame, ["sold"], 100)]
    assert (sum(lengths), max(lengths)) == (1000, 100)
    with pytest.raises(ss.InvalidInputError, match="must have the column price exactly once"):
        list(tables.batches_of(frame, ["price"]))
    wrong = frame.with_columns(pytest.importorskip("polars").col("item").cast(int).alias("sold"))
    with pytest.raises(ss.InvalidInputError, match=r"could not be read completely \(InvalidOperationError\)"):
        list(tables.batches_of(wrong, ["sold"]))
