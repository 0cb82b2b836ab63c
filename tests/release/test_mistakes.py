"""Mistakes in Python: each is refused with its remedy, or warned of; none is silent, and no TypeError is bare."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import streamsketch as ss

ROWS = pa.table({"customer": ["zora-q", "bob-q"], "shop": ["n", "s"], "item": ["tea", "jam"], "n": [1, 2]})
MAP = ss.SJLT(sketch_dim=64, sparsity=4, seed=7)
WHOLE: Any = {"index": "item", "unit": "customer", "epsilon": 1, "delta": 1e-6}
AGREED = ss.agree(ROWS, MAP, **WHOLE)
FREE = AGREED.replace(terms=None)
FEATURES = ss.Features({"n": ss.features.Number(0, 9)}, seed=7)
KEYED = ss.agree(ROWS, MAP, **WHOLE, key="shop", max_keys=1, keys=["n", "s"])
TABLE = KEYED.release(ROWS)
ONE = AGREED.release(ROWS)
RECORDS: Any = ROWS.to_pylist()

_PLACE: list[Path] = []


def _saved_twice() -> None:
    path = _PLACE[0] / "one.sketch"
    ONE.save(path)
    AGREED.release(ROWS, again=True).save(path)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a path as rows": (lambda: AGREED.release("rows.parquet"), "read_table|read the file"),
    "a Path as rows": (lambda: AGREED.release(Path("rows.parquet")), "read_table|read the file"),
    "a list of dicts as rows": (lambda: AGREED.release(RECORDS), "from_pylist"),
    "a dict as rows": (lambda: AGREED.release(ROWS.to_pydict()), "pa.table|pyarrow.table|from_pydict"),
    "a generator as rows": (lambda: AGREED.release(iter(ROWS.to_batches())), "from_batches"),
    "None as rows": (lambda: AGREED.release(None), "table"),
    "a number as rows": (lambda: AGREED.release(7), "table"),
    "rows without a column": (lambda: AGREED.release(ROWS.drop_columns(["item"])), "item"),
    "rows of other names": (lambda: AGREED.release(ROWS.rename_columns(["a", "b", "c", "d"])), "customer|item"),
    "no terms": (lambda: FREE.release(ROWS), "epsilon"),
    "a sketch of another agreement": (lambda: AGREED.release(FREE.sketch(ROWS)), "agreements differ"),
    "a sketch of no agreement": (lambda: AGREED.release(MAP.sketch()), "follow no agreement"),
    "other terms": (lambda: AGREED.sketch(ROWS).release(epsilon=2.0, delta=1e-6), "publishes with"),
    "terms of an agreement and a ledger without a data set": (
        lambda: AGREED.release(ROWS, dataset="sales"),
        "ledger",
    ),
    "a projection as agreement": (lambda: ss.bound(ROWS, MAP), "ss.agree|Agreement"),  # type: ignore[arg-type]
    "rows and agreement swapped": (lambda: ss.bound(AGREED, ROWS), "Agreement|agreement"),  # type: ignore[arg-type]
    "no columns": (lambda: ss.agree(ROWS, MAP), "index"),
    "an index that is not there": (lambda: ss.agree(ROWS, MAP, index="thing"), "thing"),
    "a text as a map": (lambda: ss.agree(ROWS, "SJLT", index="item"), "Projection|projection"),  # type: ignore[arg-type]
    "epsilon of zero": (lambda: ss.agree(ROWS, MAP, index="item", unit="customer", epsilon=0), "epsilon"),
    "epsilon in words": (lambda: ss.agree(ROWS, MAP, index="item", unit="customer", epsilon="one"), "epsilon|decimal"),
    "epsilon without delta": (lambda: ss.agree(ROWS, MAP, index="item", unit="customer", epsilon=1), "delta"),
    "delta alone": (lambda: ss.agree(ROWS, MAP, index="item", unit="customer", delta=1e-6), "epsilon"),
    "nobody protected": (lambda: ss.agree(ROWS, MAP, index="item", epsilon=1), "unit"),
    "keys that nobody named": (lambda: ss.agree(ROWS, MAP, **WHOLE, key="shop"), "which keys have data is private"),
    "one text as keys": (lambda: ss.agree(ROWS, MAP, **WHOLE, key="shop", keys="n"), "list|collection|public"),
    "keys without a key": (lambda: ss.agree(ROWS, MAP, **WHOLE, keys=["n"]), "no key column"),
    "missing misspelt": (lambda: ss.agree(ROWS, MAP, index="item", missing="skip"), "missing must be"),  # type: ignore[arg-type]
    "windows as text": (lambda: ss.agree(ROWS, MAP, **WHOLE, windows="day"), "Windows"),  # type: ignore[arg-type]
    "windows of no length": (lambda: ss.Windows(time="at", every="fortnight"), "a window|window must"),
    "a zone that is none": (lambda: ss.Windows(time="at", every="day", zone="Berlin"), "is not a time zone"),
    "a day that begins at noon": (lambda: ss.Windows(time="at", every="day", first="2026-01-01T12:00"), "first"),
    "a table to pairwise with no keys": (lambda: ss.pairwise(7), "releases|sketches|table"),  # type: ignore[arg-type]
    "a cosine of tables": (lambda: ss.cosine(TABLE, TABLE), "pairwise|key"),  # type: ignore[arg-type]
    "a distance of agreements": (lambda: ss.squared_distance(AGREED, AGREED), "sketch|release"),  # type: ignore[arg-type]
    "a release with itself": (lambda: ss.cosine(ONE, ONE), "noise|same release"),
    "a release and a raw sketch's agreement": (lambda: ss.cosine(ONE, TABLE["n"]), "agreements differ"),
    "a key that is not there": (lambda: TABLE["north"], "north"),
    "frequency of nothing": (lambda: ss.frequency(ONE, []), "item"),
    "an agreement from a release": (lambda: ss.Agreement.from_json(ONE.to_bytes()), "agreement|JSON"),
    "a save over another release": (_saved_twice, "overwrite=True"),
    "units of text": (lambda: ss.agree(ROWS, **WHOLE, units="many"), "units|number"),  # type: ignore[arg-type]
    "units beside a map": (lambda: ss.agree(ROWS, MAP, **WHOLE, units=2000), "units"),
    "L1 of nothing": (lambda: ss.L1(0), "bound"),
    "L1 of a word": (lambda: ss.L1("many"), "bound"),
    "a negative size": (lambda: ss.SJLT(sketch_dim=-1, sparsity=4, seed=7), "sketch_dim"),
    "a seed of text": (lambda: ss.SJLT(sketch_dim=64, sparsity=4, seed="seven"), "seed"),  # type: ignore[arg-type]
    "a value column in a list": (lambda: ss.agree(ROWS, MAP, index="item", value=["n"]), "value column"),  # type: ignore[arg-type]
    "neighbours in a word": (lambda: ss.agree(ROWS, MAP, index="item", neighbours="L1"), r"L1\(bound\)"),  # type: ignore[arg-type]
    "neighbours in a number": (lambda: ss.agree(ROWS, index="item", neighbours=3), r"L1\(bound\)"),  # type: ignore[arg-type]
    "a relation without a bound": (lambda: ss.agree(ROWS, MAP, index="item", neighbours=ss.L1), r"L1\(bound\)"),  # type: ignore[arg-type]
    "features in a dict": (lambda: ss.agree(ROWS, unit="customer", features={"n": (0, 9)}), r"Features\(\{"),  # type: ignore[arg-type]
    "value and unit, swapped": (
        lambda: ss.agree(
            pa.table({"customer": ["a"], "item": ["tea"], "sold": [1]}),
            index="item",
            value="customer",
            unit="sold",
        ),
        "swapped",
    ),
    "features in a word": (lambda: ss.agree(ROWS, unit="customer", features="n"), r"Features\("),  # type: ignore[arg-type]
    "a map beside features": (lambda: ss.agree(ROWS, MAP, unit="customer", features=FEATURES), "leave out projection"),
    "a noise in capitals": (lambda: ss.agree(ROWS, MAP, **WHOLE, mechanism="Laplace"), "known: auto, laplace"),
    "a noise that is none": (lambda: ss.agree(ROWS, **WHOLE, mechanism="lapalce"), "projection|known"),
    "a column as rows": (lambda: AGREED.release(pd.Series([1])), r"to_frame\(\)"),
    "a column of polars as rows": (lambda: AGREED.release(pl.Series([1])), r"to_frame\(\)"),
    "a path as a ledger": (lambda: AGREED.release(ROWS, ledger="l.sqlite", dataset="s"), r"Ledger\(path\)"),  # type: ignore[arg-type]
    "a path as a sketch's ledger": (
        lambda: FREE.sketch(ROWS).release(epsilon=1, delta=1e-6, ledger="l.sqlite", dataset="s"),  # type: ignore[union-attr,arg-type]
        r"Ledger\(path\)",
    ),
    "a dict as a summary": (lambda: AGREED.sketch(ROWS, summary={}), r"BoundingSummary\(\)"),  # type: ignore[arg-type]
    "a confidence in text": (lambda: ss.squared_distance(ONE, AGREED.release(ROWS)).interval("95%"), "0.95 is usual"),  # type: ignore[arg-type]
    "a confidence in per cent": (lambda: ss.squared_distance(ONE, AGREED.release(ROWS)).interval(95), "0.95 is usual"),
    "a release saved nowhere": (lambda: ONE.save(None), "pass the path of a file"),  # type: ignore[arg-type]
    "an agreement saved nowhere": (lambda: AGREED.save(None), "pass the path of a file"),  # type: ignore[arg-type]
    "a ledger that is no file": (lambda: ss.Ledger(7), "ledger|path|file"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_mistake_is_refused_with_its_remedy(name: str, tmp_path: Path) -> None:
    _PLACE[:] = [tmp_path]
    call, words = REFUSED[name]
    with pytest.raises((ss.StreamsketchError, TypeError, KeyError)) as refused:
        call()
    text = str(refused.value)
    assert re.search(words, text), text
    assert "-q" not in text, "never a private value"
    assert not re.search(r"object has no attribute|unsupported operand|not iterable|not subscriptable", text), text


def test_a_dataset_of_files_is_refused_with_its_remedy(tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    rows = pyarrow.dataset.dataset(tmp_path / "rows.parquet")
    for given in (rows, rows.scanner()):
        with pytest.raises(TypeError, match=r"to_reader|to_table"):
            AGREED.release(given)


@pytest.mark.filterwarnings("error::streamsketch.errors.ReleasedAgainWarning")
def test_a_second_release_is_warned_of() -> None:
    exact = AGREED.sketch(ROWS)
    AGREED.release(exact)
    with pytest.raises(ss.errors.ReleasedAgainWarning):
        AGREED.release(exact)
    AGREED.release(exact, again=True)


def test_columns_that_are_swapped_are_found_before_anything_is_published() -> None:
    with pytest.raises(ss.InvalidInputError, match=r"customer|number"):
        ss.agree(ROWS, MAP, index="item", value="customer", unit="n").sketch(ROWS)
