"""Features: the same integers on every machine and from every format, of length 1 whatever a row holds."""

import datetime as dt
import hashlib
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.features import Category, Embedding, Features, Number
from streamsketch.features.cosines import cosine_table
from streamsketch.features.features import JOINT, REST
from tests.oracles import naive_features

FEATURES = Features(
    {
        "age": Number(0, 110, moments=3, weight=2),
        "ward": Category(["A", "B"]),
        "potassium": Number(1.5, 9.25),
        "code": Category(hashed=5),
        "scan": Embedding(3, waves=2, width=0.75, weight=3),
    },
    seed=7,
    joint=3,
)
TYPES = {"age": pa.float64(), "ward": pa.string(), "potassium": pa.float64(), "code": pa.string()}
ROWS: list[dict[str, Any]] = [
    {"age": 47.0, "ward": "A", "potassium": 4.1, "code": "E11", "scan": [1.0, -2.0, 0.5]},
    {"age": 110.0, "ward": "C", "potassium": 1.5, "code": "I10", "scan": [0.0, 0.0, 1e-300]},
    {"age": None, "ward": None, "potassium": None, "code": None, "scan": None},
    {"age": math.nan, "ward": "", "potassium": math.inf, "code": "", "scan": [0.0, 0.0, 0.0]},
    {"age": -math.inf, "ward": "b", "potassium": -1e300, "code": "é", "scan": [1.0, 2.0]},
    {"age": 1e308, "ward": "B", "potassium": 9.2500001, "code": "E11 ", "scan": [math.inf, 1.0, 1.0]},
    {"age": 55.0, "ward": "B", "potassium": 5.375, "code": "0", "scan": [-3.0, -3.0, math.nan]},
]


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    columns = {name: pa.array([row[name] for row in rows], kind) for name, kind in TYPES.items()}
    return pa.table(columns | {"scan": pa.array([row["scan"] for row in rows], pa.list_(pa.float64()))})


def cells_of(features: Features, rows: Any) -> list[list[int]]:
    return (features.transform(rows) * (1 << 15)).astype(int).tolist()  # type: ignore[no-any-return]


def test_cells_are_those_of_the_definition() -> None:
    fields = FEATURES.to_dict()
    assert cells_of(FEATURES, table_of(ROWS)) == [naive_features.features(fields, row) for row in ROWS]


def test_golden_features() -> None:
    cells = (FEATURES.transform(table_of(ROWS)) * (1 << 15)).astype("<i4")
    assert hashlib.blake2b(cells.tobytes(), digest_size=8).hexdigest() == "f3ca5ff75cb5d328"


@pytest.mark.parametrize("amplitude", [1, 999, (1 << 15) - 1])
def test_cosines_are_rounded_exactly(amplitude: int) -> None:
    steps = [0, 1, 1023, 2047, 2048, 2049, 4095, 4096, 6143, 6144, 8191]
    table = cosine_table(amplitude)
    assert [table[step] for step in steps] == [naive_features.rounded(step, amplitude) for step in steps]


CELLS = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True))
LISTS = st.one_of(st.none(), st.lists(st.one_of(st.none(), st.floats(width=32)), max_size=4))


@given(st.tuples(CELLS, CELLS, st.one_of(st.none(), st.text(max_size=3)), LISTS))
def test_every_row_has_length_one(row: tuple[Any, Any, Any, Any]) -> None:
    """Whatever a row holds: one person's data can neither stop a job nor count for more than a row."""
    age, potassium, text, scan = row
    found = FEATURES.transform(
        table_of([{"age": age, "ward": text, "potassium": potassium, "code": text, "scan": scan}])
    )
    assert abs(np.linalg.norm(found) - 1) < 2e-3


def test_equal_tables_have_equal_features_in_every_format() -> None:
    features = Features({"price": Number(-10, 10), "item": Category(hashed=8), "day": Category(hashed=8)}, seed=3)
    prices, items, days = [Decimal("0.29"), Decimal("-1.10"), None], [7, 12, None], [dt.date(2026, 1, 2), None, None]
    floats = [None if price is None else float(price) for price in prices]
    texts = {
        "price": ["0.29", "-1.10", ""],
        "item": ["7", "12", ""],
        "day": ["2026-01-02", "", ""],
    }
    forms = [
        pa.table({"price": prices, "item": items, "day": days}),
        pa.table({"price": pa.array(floats), "item": pa.array(items, pa.int8()), "day": pa.array(days)}),
        pa.table({name: pa.array(column).dictionary_encode() for name, column in texts.items()}),
        pd.DataFrame({"price": floats, "item": pd.array(items, dtype="Int64"), "day": texts["day"]}),
        pl.DataFrame({"price": floats, "item": items, "day": days}),
    ]
    first, *others = (features.transform(form) for form in forms)
    for other in others:
        np.testing.assert_array_equal(other, first)


def test_booleans_are_numbers_in_every_format() -> None:
    features = Features({"x": Number(0, 4)}, seed=1)
    forms: list[Any] = [
        pa.table({"x": pa.array([True, False, None])}),
        pa.table({"x": pa.array(["true", "FALSE ", "truth"]).dictionary_encode()}),
        pd.DataFrame({"x": [True, "False", None]}),
        pa.table({"x": pa.array([1.0, 0.0, None])}),
    ]
    first, *others = (features.transform(form) for form in forms)
    assert (first[:, 2] > 0).tolist() == [False, False, True]
    for other in others:
        np.testing.assert_array_equal(other, first)


ODD: list[Any] = [
    None,
    float("nan"),
    "x",
    [1.0],
    [[1.0], "y"],
    {"z": 1},
    b"\xff",
    10**400,
    Decimal("sNaN"),
    pd.NA,
    1.5,
    5,
    True,
]
ODD += [dt.datetime(2026, 1, 2, tzinfo=dt.UTC), dt.date(2026, 1, 2), dt.timedelta(1), object()]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
@pytest.mark.parametrize("others", [[], [1.5], ["a"], [[1.0, 2.0]], [None]], ids=str)
def test_one_person_cannot_make_a_data_frame_unreadable(odd: Any, others: list[Any]) -> None:
    features = Features({"x": Number(0, 9), "c": Category(["a"]), "e": Embedding(2, waves=1)}, seed=1)
    agreement = ss.agree(pa.schema({"p": pa.string()}), features=features, unit="p")
    column = pd.Series([*others, odd], dtype=object)
    rows = pd.DataFrame({"p": [f"p{place}" for place in range(len(column))], "x": column, "c": column, "e": column})
    assert len(features.transform(rows)) == len(column)
    assert isinstance(sums := ss.bound(rows, agreement), ss.Sketch)
    assert sums.state().any()


def test_text_that_is_no_number_or_not_utf8_is_missing() -> None:
    features = Features({"x": Number(0, 1), "c": Category(["a"])}, seed=1)
    bad = pa.array([b"\xff", b"0.5", b"x", b" 1 ", b"nan"]).cast(pa.binary()).view(pa.string())
    found = features.transform(pa.table({"x": bad, "c": bad}))
    assert (found[:, features.block("x").places][:, -1] > 0).tolist() == [True, False, True, False, True]
    assert (found[:, features.block("c").places][:, -1] > 0).tolist() == [True, False, False, False, False]


def test_products_are_kernels() -> None:
    """φ(x)·φ(y) is the Gaussian kernel on average over frequencies, within 5 of its standard errors of 1/√waves."""
    waves, size = 2048, 6
    names = [f"x{place}" for place in range(size)]
    features = Features({name: Number(0, 1) for name in names}, seed=5, joint=waves)
    rows = np.random.default_rng(1).random((12, size))
    found = features.transform(pa.table({name: rows[:, place] for place, name in enumerate(names)}))
    block = features.block(JOINT)
    products = found[:, block.places] @ found[:, block.places].T / (block.amplitude / (1 << 15)) ** 2
    gaps = ((rows[:, None] - rows) ** 2).sum(axis=2)
    assert features.width is not None
    assert np.abs(products - np.exp(-gaps / (2 * features.width**2))).max() < 5 / math.sqrt(2 * waves) + 2e-3


def test_moments_follow_from_the_first_cells() -> None:
    features = Features({"x": Number(20, 60, moments=2)}, seed=1)
    values = np.array([22.0, 30, 30, 41, 59])
    cells = features.transform(pa.table({"x": values})).mean(axis=0)
    first, second = cells[:2] * math.sqrt(2)  # of T_1 = u and T_2 = 2u² - 1
    assert math.isclose(40 + 20 * first, values.mean(), abs_tol=2e-3)
    assert math.isclose(400 * ((second + 1) / 2 - first**2), values.var(), abs_tol=0.05)


def test_numbers_without_own_features_are_seen_jointly() -> None:
    columns = {"x": Number(0, 1, moments=0, weight=9), "ward": Category(["A"]), "y": Number(0, 2, moments=0)}
    features = Features(columns, seed=3, joint=4)
    assert [(block.name, block.cells) for block in features.blocks] == [("ward", 3), (JOINT, 8)]
    rows = [{"x": 0.25, "ward": "A", "y": 1.5}, {"x": None, "ward": None, "y": math.nan}, {"x": 7, "ward": "B", "y": 0}]
    table = pa.table({name: [row[name] for row in rows] for name in columns})
    assert cells_of(features, table) == [naive_features.features(features.to_dict(), row) for row in rows]
    np.testing.assert_allclose((features.transform(table) ** 2).sum(axis=1), 1, atol=2e-3)
    owned = Features({name: Number(0, 1) for name in "xy"}, seed=3, joint=4)
    alone = Features({name: Number(0, 1, moments=0) for name in "xy"}, seed=3, joint=4)
    rng = pa.table({name: np.random.default_rng(1).random(5) for name in "xy"})
    shared = owned.transform(rng)[:, owned.block(JOINT).places]
    np.testing.assert_allclose(alone.transform(rng), shared * math.sqrt(2), atol=2e-3)


def test_numbers_without_any_features_are_refused() -> None:
    with pytest.raises(ss.InvalidInputError, match="'x' has no features, because its moments are 0"):
        Features({"x": Number(0, 1, moments=0), "y": Number(0, 1)}, seed=1)


def test_json_returns_the_same_features() -> None:
    again = Features.from_json(FEATURES.to_json())
    assert again == FEATURES
    assert again.blocks == FEATURES.blocks
    assert [block.name for block in FEATURES.blocks] == [*FEATURES.columns, JOINT, REST]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"columns": []}, "1 to 1024 columns"),
        ({"columns": [{"name": "x", "kind": "number", "low": 0, "moments": 2, "weight": 1}]}, "fields high"),
        ({"columns": [{"name": "x", "kind": "number", "low": 1, "high": 1, "moments": 2, "weight": 1}]}, "below high"),
        (
            {"columns": [{"name": "x", "kind": "number", "low": 0, "high": 10**400, "moments": 2, "weight": 1}]},
            "high must be a finite number",
        ),
        ({"columns": [{"name": "x", "kind": "category", "values": True, "hashed": None, "weight": 1}]}, "1 to 16384"),
        ({"columns": [{"name": "x", "kind": "vector"}]}, "kind is one of"),
        ({"columns": [{"kind": "number"}]}, "objects with a name"),
        ({"seed": -1}, "seed must be"),
        ({"joint": 3, "width": 0.0}, "width must be"),
        ({"joint": 3, "width": 10**400}, "width must be"),
        ({"joint": 0}, "width and joint_weight"),
        ({"waves": 3}, "features are an object"),
    ],
)
def test_other_fields_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=message):
        Features.from_dict(FEATURES.to_dict() | fields)


def test_scales_are_never_learned() -> None:
    with pytest.raises(TypeError, match="never learned from the data"):
        Features({"age": "number"}, seed=1)  # type: ignore[dict-item]
    with pytest.raises(TypeError):
        Number()  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("column", "array", "message"),
    [
        (Number(0, 1), pa.array([[1.0]]), "not a number"),
        (Category(["a"]), pa.array([0.5]), "categories are text"),
        (Embedding(2), pa.array([1.5]), "lists of numbers"),
    ],
)
def test_columns_of_other_types_are_refused(column: Any, array: pa.Array, message: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=message):
        Features({"x": column}, seed=1).transform(pa.table({"x": array}))
