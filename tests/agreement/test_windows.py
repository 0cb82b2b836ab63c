"""Windows and schedules of agreements: their JSON, what is refused, and releases of rows window by window."""

import dataclasses
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.accounting.sensitivity import sensitivity_of
from streamsketch.agreement.windows import Windows
from streamsketch.continual import Factorisation, History, Separate, Tree
from streamsketch.errors import IncompatibleAgreementsError, InvalidInputError
from streamsketch.privacy.layout import Layout

PROJECTION = ss.SJLT(sketch_dim=64, sparsity=4, seed=7)
NEAR = ss.L1(5, unit="customer", max_keys=2)
MINUTES = Windows(time="at", every="1 min", first="2026-11-22T13:00Z", last="2026-11-22T13:02Z")
NAMES = ["2026-11-22T1300Z", "2026-11-22T1301Z", "2026-11-22T1302Z"]
KEYS = ["2026-11-22T13:00Z", "2026-11-22T13:01Z", "2026-11-22T13:02Z"]
ROWS = pa.table(
    {
        "at": [f"2026-11-22T13:{minute}Z" for minute in ("00:05", "00:59", "01:00", "05:00")],
        "shop": ["north", "south", "north", "north"],
        "item": ["tea", "jam", "tea", "oil"],
        "customer": ["Ann", "Bob", "Ann", "Cem"],
    }
)
ALL = 20_000  # ε whose noise is 0 in all but one draw of 10^70: releases show exact sums
pytestmark = pytest.mark.filterwarnings("ignore::streamsketch.errors.WeakGuaranteeWarning")


def agreed(**fields: Any) -> ss.Agreement:
    known: dict[str, Any] = {"index": "item", "key": "shop", "unit": "customer", "neighbours": NEAR, "epsilon": ALL}
    known |= {"keys": ["north", "south"], "windows": MINUTES}
    return ss.agree(ROWS, PROJECTION, **known | fields)


@pytest.mark.parametrize(
    "windows",
    [
        MINUTES,
        dataclasses.replace(MINUTES, are="keys"),
        dataclasses.replace(MINUTES, last=None, period="1 h", max_windows=3),
        Windows(time="at", every="month", zone="Europe/Berlin", first="2026-11", format="%d.%m.%Y %H:%M"),
        Windows(time={"day": "date"}, every="day", first="2026-11-22"),
        Windows(time="at", every=0.5),
    ],
    ids=str,
)
@pytest.mark.parametrize("schedule", [None, Tree(horizon=5), Separate(horizon=9, max_windows=2, gap=3)], ids=str)
def test_windows_survive_their_json(windows: Windows, schedule: Any) -> None:
    assert Windows.from_dict(windows.to_dict()) == windows
    if schedule is not None and (windows.are == "keys" or windows.period is not None or windows.first is None):
        with pytest.raises(InvalidInputError, match=r"a schedule"):
            agreed_as(windows, schedule)
        return
    agreement = agreed_as(windows, schedule)
    again = ss.Agreement.from_json(agreement.to_json())
    assert (again, again.fingerprint, again.windows) == (agreement, agreement.fingerprint, windows)
    assert f"windows of {windows}" in str(agreement)
    assert schedule is None or str(schedule) in str(agreement)


def agreed_as(windows: Windows, schedule: Any = None) -> ss.Agreement:
    keys: dict[str, Any] = {"key": "shop", "keys": ("north",)}
    keys = keys | {"keys": "public"} if windows.are == "keys" and windows.last is None else keys
    known: dict[str, Any] = {"index": "item", "unit": "customer", "neighbours": NEAR, "terms": ss.Terms(epsilon=1)}
    return ss.Agreement(PROJECTION, **known, **keys, windows=windows, schedule=schedule)


def test_parties_cannot_differ_in_windows() -> None:
    others = [
        agreed(windows=None),
        agreed(windows=dataclasses.replace(MINUTES, every="60 s")),
        agreed(windows=dataclasses.replace(MINUTES, last="2026-11-22T13:03Z")),
        agreed(windows=dataclasses.replace(MINUTES, are="keys")),
        agreed(windows=dataclasses.replace(MINUTES, time="item")),
        agreed(schedule=Tree(horizon=3)),
        agreed(schedule=Tree(horizon=4)),
        agreed(schedule=Factorisation(horizon=3)),
    ]
    assert len({one.fingerprint for one in [agreed(), *others]}) == 1 + len(others)
    for other in others:
        with pytest.raises(IncompatibleAgreementsError, match=r"windows|schedule"):
            agreed().check_same(other)
    assert not {"windows", "schedule"} & agreed(windows=None).to_dict().keys()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"every": "1 fortnight"}, "a window must be a number and a unit"),
        ({"every": 0}, "longer than 0 seconds"),
        ({"every": 1e308}, "the every of windows"),
        ({"every": float("nan")}, "a number and a unit"),
        ({"every": "1000000000000000 d"}, "at most 70,000 years"),
        ({"every": 1e-9}, "whole number of microseconds"),
        ({"every": "9" * 150 + " s"}, "a number and a unit"),
        ({"every": True}, "the every of windows"),
        ({"every": "2 months"}, "must be a day, a week or a month of the calendar"),
        ({"zone": "Europe/Berlin"}, "must be a day, a week or a month in a time zone"),
        ({"every": "month", "zone": "Berlin", "first": "2026-11"}, "'Berlin' is not a time zone"),
        ({"every": "month"}, "must be the first date of a month, such as 1970-01"),
        ({"every": "day", "zone": "Asia/Beirut", "format": "%d.%m.%Y", "first": "2026-11-22"}, "no time zone"),
        ({"every": "day", "zone": "Asia/Beirut", "time": ("at", "date"), "first": "2026-11-22"}, "no time zone"),
        ({"time": ("at", "integer")}, "of type timestamp or date"),
        ({"time": ["at", "day"]}, "one column of times"),
        ({"time": "a\nb"}, "the name of the column of times"),
        ({"first": "now"}, "must be a time in ISO 8601"),
        ({"first": None, "last": "2026-11-22T13:00Z"}, "also have a first"),
        ({"last": "2026-11-22T13:00:30Z"}, "must be the start of a window, such as 2026-11-22T1300Z"),
        ({"last": "2026-11-22T12:59Z"}, "the last window must be one of the 100,000 from the first on"),
        ({"last": "2027-11-22T12:59Z"}, "the last window must be one of the 100,000 from the first on"),
        ({"are": "rows"}, "windows are 'releases' or 'keys'"),
        ({"period": "90 s"}, "must be a multiple of windows of one length"),
        ({"every": "day", "first": "2026-11-22", "period": "2 days"}, "must be a multiple of windows of one length"),
        ({"period": "1 h", "are": "keys"}, "leave out period"),
        ({"period": "1 h", "max_windows": 0}, "max_windows"),
        ({"max_windows": 2}, "max_windows needs a period"),
    ],
)  # fmt: skip
def test_windows_that_are_none_are_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        Windows(**{"time": "at", "every": "1 min", "first": "2026-11-22T13:00Z"} | fields)


GOOD = MINUTES.to_dict()
TIME = GOOD["time"]


@pytest.mark.parametrize(
    "fields",
    [
        None, [], "day", {}, {**GOOD, "offset": 0}, {"time": TIME, "every": "day"}, {**GOOD, "zone": None},
        {**GOOD, "every": 60}, {**GOOD, "every": ["1 min"]}, {**GOOD, "are": None}, {**GOOD, "are": {}},
        {**GOOD, "time": "at"}, {**GOOD, "time": {"name": "at"}}, {**GOOD, "time": {**TIME, "zone": "UTC"}},
        {**GOOD, "time": {**TIME, "format": None}}, {**GOOD, "time": {"name": ["at"], "type": "timestamp"}},
        {**GOOD, "time": {"name": "at", "type": "text"}}, {**GOOD, "time": {"name": {"at": "date"}, "type": "date"}},
        {**GOOD, "first": 0}, {**GOOD, "first": ""}, {**GOOD, "last": True}, {**GOOD, "period": 3600},
        {**GOOD, "period": "1 h", "max_windows": "2"}, {**GOOD, "period": "1 h", "max_windows": True},
        {**GOOD, "period": "1 h", "max_windows": 1.0}, {**GOOD, "zone": 1}, {**GOOD, "zone": "../../etc/passwd"},
    ],
)  # fmt: skip
def test_json_of_windows_that_nobody_wrote_is_refused(fields: Any) -> None:
    with pytest.raises(InvalidInputError):
        Windows.from_dict(fields)
    text = json.dumps(agreed().to_dict() | {"windows": fields})
    with pytest.raises(InvalidInputError):
        ss.Agreement.from_json(text)


@pytest.mark.parametrize(
    "schedule",
    [None, [], "tree", {"kind": "tree"}, {"kind": "tree", "horizon": 3}, {"kind": "forest", "horizon": 3},
     {**Tree(horizon=3).to_dict(), "horizon": "3"}, {**Tree(horizon=3).to_dict(), "horizon": True},
     {**Tree(horizon=3).to_dict(), "more": 1}, {**Tree(horizon=3).to_dict(), "max_windows": None}],
)  # fmt: skip
def test_json_of_schedules_that_nobody_wrote_is_refused(schedule: Any) -> None:
    with pytest.raises((InvalidInputError, TypeError)):
        ss.Agreement.from_json(json.dumps(agreed().to_dict() | {"schedule": schedule}))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"windows": None, "schedule": Tree(horizon=3)}, "also pass windows="),
        ({"windows": Windows(time="at", every="1 min"), "schedule": Tree(horizon=3)}, "from a first one on"),
        ({"windows": dataclasses.replace(MINUTES, are="keys"), "schedule": Tree(horizon=3)}, "that are releases"),
        ({"schedule": Tree(horizon=2)}, "there are 3: leave out last"),
        ({"schedule": Tree(horizon=3), "epsilon": None, "keys": None}, "also state it"),
        ({"schedule": Tree(horizon=3), "keys": "public"}, "list the keys"),
        ({"schedule": Tree(horizon=3), "mechanism": "DP-SignLogistic"}, "publishes sums of windows with noise"),
        (
            {"windows": Windows(time="at", every="1 min", are="keys")},
            "state the first and the last of the windows, or pass keys='public'",
        ),
        ({"windows": Windows(time="day", every="1 min")}, "day"),
    ],
)
def test_agreements_that_no_release_could_keep_are_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises((InvalidInputError, TypeError), match=said):
        agreed(**fields)


def test_columns_of_dates_are_agreed_as_dates() -> None:
    rows = ROWS.append_column("day", pa.array([20_000] * 4, pa.date32()))
    days = Windows(time="day", every="day", first="2024-10-04", last="2024-10-05")
    agreement = ss.agree(rows, PROJECTION, index="item", unit="customer", neighbours=ss.L1(5), windows=days)
    assert agreement.windows is not None
    assert str(agreement.windows.time) == "day:date"
    assert {name: one.mass for name, one in agreement.sketch(rows).items()} == {"2024-10-04": 4, "2024-10-05": 0}
    with pytest.raises(InvalidInputError, match="must hold times, dates, or text"):
        ss.agree(pa.table({"item": ["a"], "n": [1]}), PROJECTION, index="item", windows=Windows(time="n", every="day"))


# --- releases of rows ------------------------------------------------------------------------------------------


def rows_in(name: str) -> pa.Table:
    return ROWS.filter(pa.compute.starts_with(ROWS.column("at"), f"{name[:13]}:{name[13:15]}"))


def test_each_window_is_released_with_its_own_sums() -> None:
    agreement, alone = agreed(), agreed(windows=None)
    released = agreement.release(ROWS)
    assert list(released) == NAMES, "all windows, with data or without, and no other"
    for name, table in released.items():
        exact = ss.bound(rows_in(name), alone, public_keys=["north", "south"])
        assert table.guarantee.neighbours.unit == "customer in one window of 60 s"
        assert table.guarantee.basis == "enforced"
        for key in ("north", "south"):
            assert np.array_equal(table[key].values, exact.sketch_of(key).state())
    exact = agreement.sketch(ROWS)
    again = agreement.release(exact)
    assert all(np.array_equal(again[name]["north"].values, released[name]["north"].values) for name in NAMES)
    assert {one.guarantee for table in again.values() for one in table.values()} == {released[NAMES[0]].guarantee}


def test_merged_windows_state_no_bound_that_does_not_hold() -> None:
    """A unit that is in both parts is in their sum twice."""
    agreement = agreed()
    parts = [agreement.sketch(part) for part in (ROWS, ROWS.slice(0, 1))]
    for name in NAMES:
        parts[0][name].merge(parts[1][name])
    with pytest.raises(InvalidInputError, match="bound"):
        agreement.release(parts[0])
    with pytest.raises(InvalidInputError, match="each whether it has data or not"):
        agreement.release({name: one for name, one in parts[1].items() if name != NAMES[2]})


def test_windows_that_are_keys_share_one_release_and_one_bound() -> None:
    agreement = agreed(windows=dataclasses.replace(MINUTES, are="keys"))
    released = agreement.release(ROWS)
    assert list(released) == [f"{key} {name}" for key in ("north", "south") for name in KEYS]
    assert released.guarantee.neighbours == NEAR
    for name, named in zip(NAMES, KEYS, strict=True):
        exact = ss.bound(rows_in(name), agreed(windows=None), public_keys=["north", "south"])
        for key in ("north", "south"):
            assert np.array_equal(released[f"{key} {named}"].values, exact.sketch_of(key).state())
    one = agreed(windows=dataclasses.replace(MINUTES, are="keys"), neighbours=ss.L1(5, unit="customer"))
    kept = one.sketch(ROWS)
    assert sum(kept[key].mass for key in kept) == 2, "Ann is kept in one of her two windows"


def test_windows_without_a_key_column_are_keys_themselves() -> None:
    agreement = agreed(key=None, keys=None, windows=dataclasses.replace(MINUTES, are="keys"))
    assert list(agreement.release(ROWS)) == KEYS
    assert list(agreed(key=None, keys=None, neighbours=ss.L1(5)).release(ROWS)) == NAMES


def test_a_unit_is_in_as_many_windows_as_the_schedule_allows() -> None:
    agreement = agreed(schedule=Tree(horizon=3))
    rows = agreement.release(ROWS)
    assert list(rows) == NAMES
    history = History(rows.values(), "north")
    total = history.range(0, 3)
    assert total.guarantee.neighbours.unit == "customer in one of 3 windows of 60 s"
    exact = ss.bound(ROWS.slice(0, 1), agreed(windows=None), public_keys=["north"]).sketch_of("north").state()
    assert np.allclose(total.values, exact, atol=0.1), "Ann is left out of her second window"
    with pytest.raises(InvalidInputError, match="release the rows of all windows at once"):
        agreement.sketch(ROWS)
    both = agreed(schedule=Tree(horizon=3, max_windows=3))
    sums = History(both.release(both.sketch(ROWS)).values(), "north").range(0, 3)
    assert np.allclose(sums.values, 2 * exact, atol=0.1)


def test_windows_are_charged_together_before_any_is_drawn(tmp_path: Any) -> None:
    agreement = agreed(epsilon=1)
    ledger = ss.Ledger(tmp_path / "ledger.sqlite")
    ledger.dataset("sales", unit="customer", epsilon=4.0)
    agreement.release(ROWS, ledger=ledger, dataset="sales")
    assert ledger.left("sales").epsilon == 1.0
    with pytest.raises(ss.errors.LedgerError):
        agreement.release(ROWS, ledger=ledger, dataset="sales")
    assert ledger.left("sales").epsilon == 1.0, "nothing is charged then"
    ledger.dataset("history", unit="customer", epsilon=1.0)
    agreed(epsilon=1, schedule=Tree(horizon=3)).release(ROWS, ledger=ledger, dataset="history")
    assert ledger.left("history").epsilon == 0.0


@pytest.mark.parametrize("missing", ["refuse", "drop"])
def test_rows_without_a_time_are_missing_a_value(missing: Any) -> None:
    rows = pa.concat_tables([ROWS, ROWS.slice(0, 1).set_column(0, "at", pa.array([""]))])
    for are in ("releases", "keys"):
        agreement = agreed(missing=missing, windows=dataclasses.replace(MINUTES, are=are))
        if missing == "refuse":
            with pytest.raises(InvalidInputError, match="the column at is null or blank"):
                agreement.release(rows)
        else:
            assert agreement.release(rows)


def test_rows_of_other_windows_are_counted_for_the_operator() -> None:
    for are in ("releases", "keys"):
        summary = ss.bounding.BoundingSummary()
        agreed(windows=dataclasses.replace(MINUTES, are=are)).sketch(ROWS, summary=summary)
        assert (summary.rows_read, summary.rows_of_other_keys, summary.units) == (4, 1, 2 if are == "keys" else 3)


def test_what_one_process_does_not_do_is_said_before_rows_are_read() -> None:
    with pytest.raises(InvalidInputError, match="jobs on Beam"):
        agreed(windows=dataclasses.replace(MINUTES, period="1 h")).release(None)
    with pytest.raises(InvalidInputError, match="state the first and the last"):
        agreed(windows=dataclasses.replace(MINUTES, last=None)).release(ROWS)
    with pytest.raises(InvalidInputError, match="a sketch for each window"):
        agreed().release(agreed(windows=None).sketch(ROWS))


def test_a_schedule_has_the_noise_of_its_rows() -> None:
    schedule = Tree(horizon=3, max_windows=3)
    agreement = agreed(epsilon=1, schedule=schedule)
    row = agreement.release(ROWS)[NAMES[0]]["north"]
    noise = row.guarantee.mechanism.steps[0].noise
    sensitivity = sensitivity_of(PROJECTION, NEAR, Layout(schedule=schedule))
    assert noise == ss.privacy.calibration.choose(sensitivity, ss.Terms(epsilon=1).budget, "auto")


@pytest.mark.parametrize("unit", ["customer", None])
@pytest.mark.parametrize("are", ["releases", "keys"])
def test_errors_name_the_row_of_the_table(are: Any, unit: str | None) -> None:
    """Rows before it that have no time, lack a value or are of other windows count too, in whatever batches."""
    at = ["2026-11-22T13:05Z", "2026-11-22T13:01Z", "", "2026-11-22T13:06Z", "2026-11-22T13:01Z", "2026-11-22T13:02Z"]
    good = {"at": at, "shop": ["north"] * 6, "item": ["1", "", "3", "4", "5", "6"], "customer": list("abcdef")}
    rows = pa.table(good | {"sold": ["1"] * 6})
    fields: dict[str, Any] = {"index": {"item": "integer"}, "value": "sold", "unit": unit, "missing": "drop"}
    windows = dataclasses.replace(MINUTES, are=are)

    def said(rows: pa.Table, **others: Any) -> str:
        known: dict[str, Any] = {"key": "shop", "keys": ("north", "south"), "neighbours": NEAR}
        known |= {"terms": ss.Terms(epsilon=ALL), "windows": windows}
        agreement = ss.Agreement(PROJECTION, **known | fields | others)
        with pytest.raises(InvalidInputError) as caught:
            agreement.sketch(rows)
        return str(caught.value)

    for name in ("item", "sold"):
        bad = [*rows.column(name).to_pylist()[:4], "x", "1"]
        wrong = rows.set_column(rows.schema.get_field_index(name), name, pa.array(bad))
        for cut in (0, 1, 3, 5):
            assert "in row 5 " in said(pa.concat_tables([wrong.slice(0, cut), wrong.slice(cut)])), (name, cut)
    if unit is None:
        large = rows.set_column(4, "sold", pa.array([1.0, 1.0, 1.0, 1.0, 1e300, 1.0]))
        assert "rows 5 to" in said(large.slice(0, 5))
    filled = rows.set_column(2, "item", pa.array(list("123456")))
    assert "the column at is null or blank in row 3" in said(filled, missing="refuse")
    blank = filled.set_column(2, "item", pa.array(["1", "2", "3", "4", "", "6"]))
    with_times = blank.set_column(0, "at", pa.array([one or at[0] for one in at]))
    assert "the column item is null or blank in row 5" in said(with_times, missing="refuse")
