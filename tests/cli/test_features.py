"""Sites compared by features in the shell: agreed on, described, compared and watched, as the library does it."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch.features import Category, Embedding, Number
from tests.cli.running import Forks

FEATURES = ss.Features(
    {
        "age": Number(0, 110),
        "sex": Category(["F", "M"]),
        "code": Category(hashed=8),
        "scan": Embedding(2, waves=2, weight=2),
    },
    seed=7,
    joint=2,
)
WRITTEN = {
    "columns": [
        {"name": "age", "kind": "number", "low": 0, "high": 110},
        {"name": "sex", "kind": "category", "values": ["F", "M"]},
        {"name": "code", "kind": "category", "hashed": 8},
        {"name": "scan", "kind": "embedding", "size": 2, "waves": 2, "weight": 2},
    ],
    "seed": 7,
    "joint": 2,
}
"""As somebody writes it: fields that have a default are left out."""


def people(first: int, count: int, age: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "patient": list(numbers),
            "age": [age + number % 20 for number in numbers],
            "sex": ["FM"[number % 2] for number in numbers],
            "code": [f"E{number % 5}" for number in numbers],
            "scan": [[1.0, number % 3] for number in numbers],
        }
    )


ROWS = people(0, 300, 40)
AGREEMENT = ss.agree(ROWS, features=FEATURES, unit="patient")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    (tmp_path / "features.json").write_text(json.dumps(WRITTEN))
    AGREEMENT.save(tmp_path / "agreed.json")
    return tmp_path


AGREE = ["agree", "--features", "features.json", "--unit-column", "patient:integer", "-o", "a.json"]


def test_an_agreement_on_features_is_that_of_python(folder: Path, forks: Forks) -> None:
    shown = forks.succeeded("agree", "rows.parquet", *AGREE[1:4], "patient", "-o", "a.json", cwd=folder)
    assert ss.Agreement.load(folder / "a.json") == AGREEMENT
    assert max(map(len, shown.splitlines())) <= 80
    for text in ("number from 0 to 110", "category: F, M", "hashed into 8 features", "2 waves, weight 2", "(joint)"):
        assert text in shown
    (folder / "whole.json").write_text(FEATURES.to_json())
    whole = ["agree", "--features", "whole.json", *AGREE[3:5], "-o", "b.json", "--json"]
    assert json.loads(forks.succeeded(*whole, cwd=folder))["fingerprint"] == AGREEMENT.fingerprint
    (folder / "features.json").write_text(json.dumps({"columns": WRITTEN["columns"]}))
    for name, seed in (("c", []), ("d", []), ("e", ["--seed", 5])):
        forks.succeeded(*AGREE[:-1], f"{name}.json", *seed, cwd=folder)
    drawn = [ss.Agreement.load(folder / f"{name}.json").features for name in "cde"]
    assert len({one.seed for one in drawn if one is not None}) == 3
    assert drawn[2] == ss.Features(FEATURES.columns, seed=5)


def test_rows_are_sketched_by_it(folder: Path, forks: Forks) -> None:
    forks.succeeded("sketch", "rows.parquet", "--agreement", "agreed.json", "-o", "a.raw-sketch", cwd=folder)
    assert ss.storage.load_raw(folder / "a.raw-sketch").state == ss.bound(ROWS, AGREEMENT)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"low": None}, "the number 'age' needs low and high, the ends of a range that is public"),
        ({"kind": "category", "low": None, "high": None}, "the category 'age' needs values, the list of its"),
        ({"kind": "embedding", "low": None, "high": None}, "the embedding 'age' needs size, how many numbers"),
        ({"kind": "date"}, "an object whose kind is one of number, category, embedding"),
        ({"weigh": 2}, "have the fields high, low, moments, weight, got"),
        ({"low": 200}, "low must be below high, got 200.0 and 110.0"),
    ],
)
def test_a_column_that_is_not_whole_is_refused(
    change: dict[str, Any], message: str, folder: Path, forks: Forks
) -> None:
    column = {name: value for name, value in (WRITTEN["columns"][0] | change).items() if value is not None}  # type: ignore[index]
    (folder / "features.json").write_text(json.dumps(WRITTEN | {"columns": [column]}))
    refused = forks.refused(*AGREE, cwd=folder)
    assert "features.json does not hold features: " in refused
    assert message in refused


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seed", 5], "it has the seed 7: leave out --seed"),
        (["--no-count"], "their number must be published: say --count"),
        (["--key", "ward"], "their number must be published: say --max-keys, in how many keys a unit may be"),
        (["--index", "item", "--l1", 5], "rows have length 1 whatever they hold: leave out --l1, --index"),
        (["--features", "agreed.json"], "agreed.json does not hold features: it is an agreement already"),
        (["--features", "list.json"], "list.json does not hold features: it has no list of columns"),
        (["--features", "rows.parquet"], "rows.parquet does not hold features: features must be one JSON object"),
        (["other.parquet"], "other.parquet has no column code; its columns are patient, age, sex, codes, scan"),
        (["lists.parquet"], "the column age holds list<element: double>, which is no number"),
    ],
)
def test_mistakes_of_agreeing_are_sentences(arguments: list[object], message: str, folder: Path, forks: Forks) -> None:
    pq.write_table(ROWS.rename_columns(["patient", "age", "sex", "codes", "scan"]), folder / "other.parquet")
    pq.write_table(ROWS.set_column(1, "age", ROWS["scan"]), folder / "lists.parquet")
    (folder / "list.json").write_text('{"columns": {"age": {"kind": "number"}}}')
    assert message in forks.refused(*AGREE, *arguments, cwd=folder)


def test_units_are_needed(folder: Path, forks: Forks) -> None:
    refused = forks.refused(*AGREE[:3], *AGREE[5:], cwd=folder)
    assert "say which column names them: --unit-column patient" in refused
