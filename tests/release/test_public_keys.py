"""Public keys are named one by one, of the data's type, through every door: a text is no list of its letters."""

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.beam import ReleasePerKey, RoundContribution
from streamsketch.errors import KeyTypeWarning
from streamsketch.parties import Key, Round
from streamsketch.release import AdditiveNoise
from tests.beam.rows import bound_rows
from tests.cli.running import Forks

PROJECTION = ss.SJLT(sketch_dim=16, sparsity=2, seed=7)
SALE = ss.L1(1, unit="sale")
ROWS = pa.table({"shop": ["a", "b"], "item": ["x", "y"], "who": ["u", "v"]})
AGREEMENT = ss.Agreement(PROJECTION, key="shop", index="item", unit="who", neighbours=SALE)
NUMBERED = AGREEMENT.replace(key={"shop": "integer"})
COLUMNS = (ROWS["shop"], ROWS["item"], None, ROWS["who"])
FLIPS = ss.signs.DPSignLogistic(epsilon=1.0, neighbours=SALE)


def table() -> ss.SketchTable:
    found = PROJECTION.table()
    found.update_rows(ROWS, key="shop", index="item")
    return found


def released(keys: Any, state: Any = None) -> Any:
    return (table() if state is None else state).release(epsilon=1.0, neighbours=SALE, public_keys=keys)


def released_raw(keys: Any, folder: Path) -> Any:
    ss.storage.save_raw(table(), folder / "a.raw-sketch")
    return ss.storage.release_raw(folder / "a.raw-sketch", epsilon=1.0, neighbours=SALE, public_keys=keys)


def contributed(keys: Any, folder: Path) -> Any:
    parties = [Key.generate(name).public for name in ("North", "South")]
    agreed = Round(PROJECTION, epsilon=1.0, neighbours=SALE, parties=parties)
    return ReleasePerKey(RoundContribution(agreed, folder / "north.pem"), public_keys=keys)


DOORS: dict[str, Callable[[Any, Path], Any]] = {
    "a release": lambda keys, _: released(keys),
    "a release under an agreement": lambda keys, _: released(keys, ss.sketch(ROWS, AGREEMENT)),
    "signs": lambda keys, _: FLIPS.release_table(table(), public_keys=keys),
    "a raw file": released_raw,
    "bounded units": lambda keys, _: ss.bounding.bound_units([COLUMNS], PROJECTION, neighbours=SALE, public_keys=keys),
    "bounded rows": lambda keys, _: ss.bound(ROWS, AGREEMENT, public_keys=keys),
    "an agreement": lambda keys, _: AGREEMENT.keys_of(keys),
    "Beam": lambda keys, _: ReleasePerKey(AdditiveNoise(epsilon=1.0, neighbours=SALE), public_keys=keys),
    "signs on Beam": lambda keys, _: ReleasePerKey(FLIPS, public_keys=keys),
    "units on Beam": lambda keys, _: bound_rows(PROJECTION, unit="who", max_keys=1, l1=1, public_keys=keys),
    "a round on Beam": contributed,
}
ONE: dict[str, Any] = {
    "text": "shop a",
    "bytes": b"shop a",
    "a byte array": bytearray(b"shop a"),
    "a view": memoryview(b"shop a"),
    "a number": 5,
    "a frame": pd.DataFrame({"shop": ["a"]}),
    "an array without a dimension": np.array("shop a"),
}
MANY: dict[str, Any] = {
    "a list": ["a", "c"],
    "a set": {"a", "c"},
    "a mapping": {"a": 1, "c": 2},
    "a generator": lambda: (key for key in "ac"),
    "NumPy": np.array(["a", "c"]),
    "pandas": pd.Series(["a", "c"]),
    "categories": pd.Series(["a", "c"], dtype="category"),
    "polars": pl.Series(["a", "c"]),
    "Arrow": pa.array(["a", "c"]),
    "an Arrow dictionary": pa.array(["a", "c", "a"]).dictionary_encode(),
    "chunks": pa.chunked_array([["a"], ["c"]]),
}


@pytest.mark.parametrize("door", DOORS)
def test_one_text_is_no_collection_of_keys(door: str, tmp_path: Path) -> None:
    for name, keys in ONE.items():
        said = f"public_keys must be a collection of keys, got one {type(keys).__name__}"
        with pytest.raises(ss.InvalidInputError, match=said):
            pytest.fail(f"{name} gave {DOORS[door](keys, tmp_path)!r}")


def test_a_refused_collection_is_not_charged_or_recorded(tmp_path: Path) -> None:
    ledger = ss.Ledger(tmp_path / "ledger.sqlite")
    ledger.dataset("sales", unit="sale", epsilon=3.0)
    ss.storage.save_raw(table(), tmp_path / "a.raw-sketch")
    options: dict[str, Any] = {"epsilon": 1.0, "neighbours": SALE, "ledger": ledger, "dataset": "sales"}
    for release in (table().release, lambda **more: ss.storage.release_raw(tmp_path / "a.raw-sketch", **more)):
        with pytest.raises(ss.InvalidInputError, match="one str"):
            release(public_keys="shop a", **options)
    assert ledger.left("sales").epsilon == 3
    assert ss.storage.load_raw(tmp_path / "a.raw-sketch").releases == ()


@pytest.mark.parametrize("kind", MANY)
def test_any_collection_names_the_same_keys(kind: str, tmp_path: Path) -> None:
    def keys() -> Any:
        return MANY[kind]() if callable(MANY[kind]) else MANY[kind]

    for door in ("a release", "a release under an agreement", "signs", "a raw file"):
        found = list(DOORS[door](keys(), tmp_path))
        assert found == ["a", "c"], door
        assert {type(key) for key in found} == {str}, door
    assert sorted(AGREEMENT.keys_of(keys()))[:2] in (["a", "c"], ["a", "a"])
    for door in ("bounded units", "bounded rows"):
        assert list(DOORS[door](keys(), tmp_path)) == ["a"], door
    assert ReleasePerKey(AdditiveNoise(epsilon=1.0, neighbours=SALE), public_keys=keys())._named.listed == {"a", "c"}


@pytest.mark.parametrize("keys", [[1], [b"a"], [dt.date(2024, 1, 1)]])
def test_keys_of_another_type_than_the_data_warn_the_operator_alone(keys: list[Any], tmp_path: Path) -> None:
    for door in ("a release", "signs", "a raw file", "bounded units"):
        with pytest.warns(KeyTypeWarning, match="the data's keys are str, and public_keys are") as caught:
            found = DOORS[door](keys, tmp_path)
        assert [one.filename for one in caught] == [__file__], door
        assert list(found) == ([] if door == "bounded units" else keys), door  # as without data: no refusal tells
    assert list(released(keys, PROJECTION.table())) == keys


@pytest.mark.filterwarnings("error::streamsketch.errors.KeyTypeWarning")
def test_keys_of_the_datas_type_do_not_warn_though_they_have_no_data() -> None:
    released(["z"])
    released([1], PROJECTION.table())
    ss.bounding.bound_units([COLUMNS], PROJECTION, neighbours=SALE, public_keys=["z"])


def test_an_agreement_casts_public_keys_or_refuses_them() -> None:
    numbers = ss.sketch(ROWS.set_column(0, "shop", pa.array([7, 8])), NUMBERED)
    assert list(released(["07", "9"], numbers)) == [7, 9]
    assert list(released([1], ss.sketch(ROWS, AGREEMENT))) == ["1"]
    for state, keys in ((numbers, ["a"]), (ss.sketch(ROWS, AGREEMENT), [1.0]), (ss.sketch(ROWS, AGREEMENT), [b"a"])):
        with pytest.raises(ss.InvalidInputError, match=r"not of the agreed type|but the agreement has"):
            released(keys, state)


def test_the_shell_warns_the_operator(tmp_path: Path, forks: Forks) -> None:
    numbers = PROJECTION.table()
    numbers.update([7], ["x"])
    ss.storage.save_raw(numbers, tmp_path / "a.raw-sketch")
    release = ["release", "a.raw-sketch", "--epsilon", "1", "--l1", "1", "--public-key", "7", "-o", "a.parquet"]
    done = forks.run(*release, cwd=tmp_path)
    assert done.returncode == 0
    assert "warning: the data's keys are int, and public_keys are str" in done.stderr
    assert "warning" not in done.stdout
