"""What a unit of several rows contributes is stated in the agreement: as text, as JSON, and where it fits."""

import json
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch.agreement import RowsOfUnit
from streamsketch.features import Category, Features
from tests.cli.running import Forks

FEATURES = Features({"ward": Category(["A", "B"])}, seed=7)
ROWS = pa.table(
    {
        "patient": ["p"],
        "ward": ["A"],
        "day": [date(2026, 11, 29)],
        "at": [datetime(2026, 11, 29)],  # noqa: DTZ001 - a time without a zone is in UTC
        "visit": [1],
        "said": ["2026-11-29"],
        "a:date": [1],
        "size": [1.5],
    }
)
ONE: dict[str, Any] = {"features": FEATURES, "unit": "patient", "neighbours": ss.SketchL2(1, "patient", 1)}
DAYS = ss.Windows(time="at", every="day", first="2026-11-29", last="2026-11-30")


@pytest.mark.parametrize(
    ("text", "which", "time"),
    [
        ("mean", "mean", None),
        ("all", "all", None),
        ("latest by at", "latest", ("at", "timestamp")),
        (" first by  the day:date ", "first", ("the day", "date")),
        ("latest by visit:integer", "latest", ("visit", "integer")),
        ("latest by a:b", "latest", ("a:b", "timestamp")),
    ],
)
def test_a_choice_is_text_and_json(text: str, which: Any, time: Any) -> None:
    found = RowsOfUnit.parse(text)
    assert found == RowsOfUnit(which, time)
    assert RowsOfUnit.parse(str(found)) == found
    assert RowsOfUnit.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    assert (found.is_one, found.of_one_time) == (which != "all", time is not None)


@pytest.mark.parametrize("text", ["", "median", "mean by at", "all by at", "latest by ", "latest by :date", "by at"])
def test_other_choices_are_refused(text: str) -> None:
    with pytest.raises(ss.InvalidInputError):
        ss.Agreement(**ONE, rows_of_unit=text)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("mean", "mean"),
        ("latest by day", "latest by day:date"),
        ("latest by at", "latest by at:timestamp"),
        ("first by visit", "first by visit:integer"),
        ("latest by said", "latest by said:timestamp"),
        ("latest by said:date", "latest by said:date"),
        (RowsOfUnit("latest", "day"), "latest by day:timestamp"),
    ],
)
def test_agree_takes_the_type_of_a_column_of_times(rows: Any, expected: str) -> None:
    agreement = ss.agree(ROWS, features=FEATURES, unit="patient", rows_of_unit=rows)
    assert str(agreement.rows_of_unit) == expected
    assert (agreement.clip, agreement.layout.is_counted) == ("average", True)
    assert f"rows of a unit: {expected}" in str(agreement)
    assert expected in agreement._repr_html_()
    assert ss.Agreement.from_json(agreement.to_json()) == agreement
    time = agreement.rows_rule.time  # type: ignore[union-attr]
    assert (time in agreement.columns, agreement.names[-1]) == (time is not None, "ward")


def test_agreements_without_a_choice_keep_their_text_and_fingerprint() -> None:
    """Of the version before there was a choice."""
    for clip, fingerprint in (
        (None, "a42e80dc162bebb3ffe106364c90efe3"),
        ("average", "845b1dbaef660d3c51c498b81e3817ea"),
        ("equal", "3d343761d1416cc61fc0ed15876ac694"),
    ):
        agreement = ss.Agreement(**ONE, clip=clip)  # type: ignore[arg-type]
        assert "rows_of_unit" not in agreement.to_json()
        assert agreement.fingerprint == fingerprint
        assert agreement.replace(rows_of_unit="mean" if clip == "average" else "all").fingerprint != fingerprint


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rows_of_unit": "mean", "clip": "equal"}, "counts as one row, which clip='equal' does not do"),
        ({"rows_of_unit": "latest by at", "clip": "scale"}, "leave out clip"),
        ({"rows_of_unit": "all", "clip": "average"}, "counts as each of its rows"),
        ({"rows_of_unit": "latest"}, "name its column, such as rows_of_unit='latest by visited'"),
        ({"rows_of_unit": "mean", "unit": None}, "has no unit column"),
        ({"rows_of_unit": "mean", "features": None, "projection": ss.SJLT(sketch_dim=64, sparsity=4, seed=7),
          "index": "ward"}, "has no features"),
        ({"rows_of_unit": "latest by ward"}, "is a feature, and so cannot be the key or the unit as well, nor order"),
        ({"rows_of_unit": "latest by at:date", "key": "at"}, "of type text in one place and date in another"),
        ({"rows_of_unit": RowsOfUnit("latest"), "windows": ss.Windows(time="at", every="day", format="%d.%m.%Y")},
         "have the format"),
        ({"rows_of_unit": "latest by at", "windows": ss.Windows(time="at", every="day", format="%d.%m.%Y")},
         "have the format"),
        ({"rows_of_unit": "first by at:integer", "windows": DAYS}, "as integers: leave out the type"),
        ({"rows_of_unit": "mean", "neighbours": ss.SketchL2(1, "patient")}, "needs a number of keys"),
        ({"rows_of_unit": "first by at", "neighbours": ss.L1(3, "patient")}, "clip"),
        ({"rows_of_unit": "mean", "neighbours": None}, "also pass neighbours"),
    ],
)  # fmt: skip
def test_choices_that_fit_no_other_field_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=message):
        ss.Agreement(**ONE | fields)


def test_types_are_checked() -> None:
    with pytest.raises(TypeError, match="a RowsOfUnit, got a int"):
        ss.Agreement(**ONE, rows_of_unit=7)  # type: ignore[arg-type]
    for time in (("at", "text"), ("at", "boolean"), [("at", "date"), ("on", "date")]):
        with pytest.raises(ss.InvalidInputError):
            RowsOfUnit("latest", time)
    with pytest.raises(ss.InvalidInputError, match="double"):
        ss.agree(ROWS, features=FEATURES, unit="patient", rows_of_unit="latest by size")


def test_windows_have_the_time_unless_another_is_named() -> None:
    days = ss.Agreement(**ONE, rows_of_unit="latest", windows=DAYS)
    assert str(days.rows_of_unit) == "latest by at:timestamp"
    assert json.loads(days.to_json())["rows_of_unit"] == {
        "which": "latest",
        "time": {"name": "at", "type": "timestamp"},
    }
    assert str(days.replace(rows_of_unit="first by visit:integer").rows_of_unit) == "first by visit:integer"


def test_all_rows_need_a_bound() -> None:
    known: dict[str, Any] = {"features": FEATURES, "unit": "patient", "rows_of_unit": "all"}
    with pytest.raises(ss.InvalidInputError, match=r"state it, such as neighbours=SketchL2\(3, max_keys=1\)"):
        ss.agree(ROWS, **known)
    assert ss.agree(ROWS, **known, clip="equal").clip == "equal"
    three = ss.agree(ROWS, **known, neighbours=ss.SketchL2(3, "patient", 1))
    assert (three.clip, three.clip_of()) == (None, "scale")
    keyed: dict[str, Any] = {"features": FEATURES, "unit": "patient", "rows_of_unit": "mean", "key": "said"}
    with pytest.raises(ss.InvalidInputError, match="also pass max_keys"):
        ss.agree(ROWS, **keyed)
    assert ss.agree(ROWS, **keyed, max_keys=2).neighbours == ss.SketchL2.of_averages("patient", 2)


@pytest.mark.parametrize(
    "change",
    [
        {"rows_of_unit": None},
        {"rows_of_unit": "mean"},
        {"rows_of_unit": {}},
        {"rows_of_unit": {"which": "latest"}},
        {"rows_of_unit": {"which": "mean", "time": {"name": "at", "type": "date"}}},
        {"rows_of_unit": {"which": "first", "time": {"name": "at"}}},
        {"rows_of_unit": {"which": "first", "time": {"name": "at", "type": "text"}}},
        {"rows_of_unit": {"which": "first", "time": {"name": "at", "type": 7}}},
        {"rows_of_unit": {"which": "first", "time": "at"}},
        {"rows_of_unit": {"which": 7}},
        {"rows_of_unit": {"which": "all"}},
        {"clip": "delete"},
    ],
)
def test_json_that_no_agreement_writes_is_refused(change: dict[str, Any]) -> None:
    fields = json.loads(ss.Agreement(**ONE, rows_of_unit="mean").to_json()) | change
    fields = {name: value for name, value in fields.items() if value != "delete"}
    with pytest.raises(ss.InvalidInputError):
        ss.Agreement.from_json(json.dumps(fields))


def test_agreements_that_differ_in_it_are_named() -> None:
    mean, latest = (ss.Agreement(**ONE, rows_of_unit=rows) for rows in ("mean", "latest by at"))
    with pytest.raises(
        ss.errors.IncompatibleAgreementsError, match="rows_of_unit \\(mean here, latest by at:timestamp there"
    ):
        mean.check_same(latest)


def test_rows_are_not_added_up_one_by_one_where_they_count_as_one() -> None:
    for rows in ("mean", "latest by day:date"):
        agreement = ss.Agreement(**ONE, rows_of_unit=rows)
        with pytest.raises(ss.InvalidInputError, match="counts the rows of a unit together"):
            ss.sketch(ROWS, agreement)
    every = ss.Agreement(**ONE, rows_of_unit="all")
    sketches: list[Any] = [ss.sketch(ROWS, every), ss.bound(ROWS, every)]
    assert sketches[0].state().tolist() == sketches[1].state().tolist()


@pytest.mark.parametrize("sample", [False, True])
def test_the_command_states_it(sample: bool, tmp_path: Any, forks: Forks) -> None:  # noqa: FBT001
    (tmp_path / "features.json").write_text(FEATURES.to_json())
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    given = ["rows.parquet"] if sample else []
    rest = ["--features", "features.json", "--unit-column", "patient"]
    for place, (rows, expected) in enumerate(
        {"mean": "mean", "latest by day": "date", "first by visit:integer": "integer"}.items()
    ):
        name = f"{place}.json"
        forks.succeeded("agree", *given, *rest, "--set", f"rows-of-unit={rows}", "-o", name, cwd=tmp_path)
        found = str(ss.Agreement.load(tmp_path / name).rows_of_unit)
        kind = expected if sample or ":" in rows else "timestamp"
        assert found == (rows if rows == "mean" else f"{rows.partition(':')[0]}:{kind}")
        said = forks.succeeded("explain", name, cwd=tmp_path)
        assert f"rows of a unit {found}" in " ".join(said.split())
    assert "rows_of_unit='all'" in forks.refused(
        "agree", *given, *rest, "--set", "rows-of-unit=all", "-o", "x.json", cwd=tmp_path
    )
    windows = ["--set", "rows-of-unit=latest", "--window", "day", "--time", "at", "--first", "2026-11-29"]
    forks.succeeded("agree", *given, *rest, *windows, "-o", "days.json", cwd=tmp_path)
    assert str(ss.Agreement.load(tmp_path / "days.json").rows_of_unit) == "latest by at:timestamp"
    forks.succeeded("agree", "0.json", "--set", "rows-of-unit=latest by day:date", "-o", "later.json", cwd=tmp_path)
    assert str(ss.Agreement.load(tmp_path / "later.json").rows_of_unit) == "latest by day:date"
