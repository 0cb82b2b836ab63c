"""Windows of an endless stream: lateness, bounds and heartbeats, against a loop over rows."""

import itertools
import math
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.agreement import TextRule
from streamsketch.intake.columns import BadRowsError
from streamsketch.sketching.bounding.contributions import WHOLE, Contributions
from streamsketch.streams.job import Job
from streamsketch.streams.open_windows import Windows
from streamsketch.streams.window_contents import UnitsWindow
from tests.streams.naive import AGREEMENT, KEYS, PEOPLE, Row, batch_of, beat, bound_by, over_in, policy_of, windows_of

SECRET = bytes(range(32))
STEPS = st.tuples(
    st.sampled_from([0, 3, 9, 30, 90]),  # seconds on
    st.sampled_from([0, 0, 5, 12, 80]),  # and behind
    st.sampled_from(["", "", *KEYS, *KEYS, "moon"]),
    st.sampled_from("abc"),
    st.integers(1, 9),
    st.sampled_from(["Ann", "Bob", "Cy"]),
)


def log_of(steps: list[tuple[int, int, str, str, int, str]]) -> list[Row]:
    """Return rows whose times go on, more or less; those without a key are heartbeats."""
    at, rows = 0, []
    for on, behind, shop, *rest in steps:
        at += on
        rows.append(Row(at - behind, shop, *rest) if shop else beat(at - behind))
    return rows


LOGS = st.lists(STEPS, min_size=1, max_size=30).map(log_of)


def fed(windows: Windows, rows: list[Row], cuts: list[int]) -> int:
    places = sorted({0, len(rows), *(cut % (len(rows) + 1) for cut in cuts)})
    return sum(windows.add(batch_of(rows[a:b]), a + 1) for a, b in itertools.pairwise(places))


AGREEMENTS = st.sampled_from([AGREEMENT, PEOPLE])


@pytest.mark.parametrize("clock", ["events", "heartbeats"])
@pytest.mark.parametrize("clip", [None, "none"], ids=["units", "sums"])
def test_errors_name_the_row_of_the_log_whatever_rows_before_it_are_left_out(clip: str | None, clock: str) -> None:
    """A row without a time, a heartbeat and a blank row do not count, and are counted in the numbers."""
    rows = [Row(3, "", "a", 1, "Ann"), Row(4, "moon", "a", 2, "Ann"), beat(5), Row(6, "moon", "b", 3, "Bob")]
    batch = batch_of([*rows, *rows])
    cells = batch.to_pylist()
    cells[0]["at"], cells[7]["n"] = "", "many"
    batch = pa.RecordBatch.from_pylist(cells)
    policy = policy_of(Path("out"), AGREEMENT.replace(missing="drop"), clip=clip, clock=clock)
    for numbers in (101, [*range(201, 205), *range(301, 305)]):
        windows = Windows(policy, SECRET, strict=True)
        with pytest.raises(BadRowsError) as raised:
            windows.add(batch, numbers)
        row = 108 if isinstance(numbers, int) else 304
        assert f" in row {row}" in str(raised.value)
        ((place, why),) = raised.value.rows.items()
        assert place == 7
        assert f" in row {row}" in why


def contents_of(windows: Windows) -> dict[int, dict[int, bytes]]:
    contents = {number: window.content for number, window in windows.open.items()}
    return {number: dict(content) for number, content in contents.items() if isinstance(content, Mapping)}


@given(LOGS, st.lists(st.integers(0, 100), max_size=4), st.sampled_from(["events", "heartbeats"]), AGREEMENTS)
def test_what_is_in_a_window_depends_on_the_log_alone(
    rows: list[Row], cuts: list[int], clock: str, agreement: ss.Agreement
) -> None:
    windows = Windows(policy_of(Path("out"), agreement, clock=clock), SECRET)
    events = fed(windows, rows, cuts)
    expected, late = windows_of(rows, clock=clock)
    assert events == sum(map(len, expected.values()))
    assert windows.counts.rows_late == late
    assert windows.counts.rows_before_start == sum(bool(row.shop) and row.at < 0 for row in rows)
    assert {number - windows.next for number in windows.open} == set(expected)
    monkeypatch = pytest.MonkeyPatch()
    for number in range(windows.next, windows.next + 50):
        closed = windows.closing()
        its = expected.get(number - windows._policy.first, [])
        told = bound_by(windows.secret_of(number), its, monkeypatch, agreement) if its else ss.SketchTable(agreement)
        assert closed.table == told
        windows.advance(closed)
    assert not windows.open
    assert windows.counts.bounding.rows_read == events
    assert windows.counts.bounding.rows_of_other_keys == sum(
        row.shop == "moon" for its in expected.values() for row in its
    )


@given(LOGS, st.lists(st.integers(0, 100), max_size=4), st.sampled_from([None, "none"]), AGREEMENTS)
def test_a_window_comes_back_from_its_bytes(
    rows: list[Row], cuts: list[int], clip: str | None, agreement: ss.Agreement
) -> None:
    once, again = (Windows(policy_of(Path("out"), agreement, clip=clip), SECRET) for _ in range(2))
    fed(once, rows, [])
    places = sorted({0, len(rows), *(cut % (len(rows) + 1) for cut in cuts)})
    for a, b in itertools.pairwise(places):
        again.open = {number: again.restored(window.content) for number, window in again.open.items()}
        again.add(batch_of(rows[a:b]), a + 1)
    assert (again.clock.newest, again.counts) == (once.clock.newest, once.counts)
    for _ in range(50):
        mine, theirs = once.closing(), again.closing()
        assert mine == theirs
        once.advance(mine)
        again.advance(theirs)


@pytest.mark.parametrize("clip", [None, "none"])
@pytest.mark.parametrize("agreement", [AGREEMENT, PEOPLE], ids=["L1", "SketchL2"])
def test_a_key_that_a_dictionary_repeats_is_one_key(agreement: ss.Agreement, clip: str | None) -> None:
    """Each word of a batch's dictionary would be clipped by itself, and no state with both could be read again."""
    rows = batch_of([Row(1, shop, item, 9, "Ann") for shop in ("north", "south") for item in "abcd"])
    shops = rows.column("shop")
    repeated = pa.DictionaryArray.from_arrays(pa.array(range(8)), shops)
    found = []
    for column in (shops, shops.dictionary_encode(), repeated):
        windows = Windows(policy_of(Path("out"), agreement, clip=clip), SECRET)
        windows.add(rows.set_column(rows.schema.names.index("shop"), "shop", column), 1)
        windows.open = {number: windows.restored(window.content) for number, window in windows.open.items()}
        found.append(windows.closing())
    assert found[0] == found[1] == found[2]


def test_sums_without_units_are_those_of_the_rows() -> None:
    agreement = ss.Agreement(AGREEMENT.projection, index="item", key="shop", value="n")
    policy = policy_of(Path("out"), agreement, clip="none", neighbours=ss.L1(5, unit="sale"))
    windows = Windows(policy, SECRET)
    rows = [Row(1, "north", "a", 7, "Ann"), Row(2, "moon", "b", 1, "Ann"), Row(61, "south", "b", 2, "Bob")]
    assert windows.add(batch_of(rows), 1) == 3
    table = windows.closing().table
    told = AGREEMENT.projection.table()
    told.update(["north"], ["a"], [7])
    assert table == told
    assert windows.counts.bounding.rows_of_other_keys == 1


def test_one_unit_cannot_move_what_heartbeats_move() -> None:
    """Where rows move the watermark, one unit's makes all others late: a condition of the guarantee says so."""
    others = [Row(second, "north", "a", 1, f"c{second}") for second in range(0, 240, 5)]
    ahead = Row(3000, "south", "b", 1, "Ann")
    logs = [[beat(0), *others, beat(400)], [beat(0), ahead, *others, beat(400)]]
    for clock, same in (("heartbeats", True), ("events", False)):
        kept = []
        for log in logs:
            windows = Windows(policy_of(Path("out"), clock=clock), SECRET)
            windows.add(batch_of(log), 1)
            kept.append([windows.closing()[0].sketch_of("north").state().tolist()])
        assert (kept[0] == kept[1]) is same
    guarantees = [policy_of(Path("out"), clock=clock).publisher().guarantee for clock in ("heartbeats", "events")]
    assert [guarantee.conditions for guarantee in guarantees] == [
        (),
        (
            (
                "no event follows another in the log that is more than 10 s newer, and the time of the newest event is "
                "public"
            ),
        ),
    ]
    assert guarantees[0].neighbours == ss.L1(5, unit="customer in one window of 60 s", max_keys=2)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"at": "yesterday"}, "the column at holds text that is not a time"),
        ({"at": ""}, "the column at is null or blank"),
        ({"at": "2026-11-29T13:00:00Z"}, r"more than 10,000 windows \(max_ahead\) after the rows before"),
        ({"at": "99999-01-01T00:00:00Z"}, "not a time in ISO 8601"),
        ({"n": "many"}, "not a plain decimal number"),
        ({"item": ""}, "the column item is null or blank"),
    ],
)
def test_after_a_bad_row_nothing_has_changed(changes: dict[str, str], said: str) -> None:
    windows = Windows(policy_of(Path("out")), SECRET)
    windows.add(batch_of([Row(1, "north", "a", 1, "Ann")]), 1)
    before = (
        windows.clock.newest,
        windows.next,
        repr(windows.counts),
        contents_of(windows),
    )
    batch = batch_of([Row(100, "north", "a", 1, "Ann"), Row(200, "south", "a", 1, "Bob")])
    rows: list[dict[str, Any]] = batch.to_pylist()
    bad = type(batch).from_pylist([rows[0], rows[1] | changes], schema=batch.schema)
    with pytest.raises(ss.InvalidInputError, match=said):
        windows.add(bad, 2)
    after = (
        windows.clock.newest,
        windows.next,
        repr(windows.counts),
        contents_of(windows),
    )
    assert after == before


def test_rows_with_something_missing_are_dropped_where_that_is_agreed_on() -> None:
    agreement = ss.Agreement(
        AGREEMENT.projection, index="item", key="shop", value="n", unit="customer",
        neighbours=AGREEMENT.neighbours, missing="drop",
    )  # fmt: skip
    windows = Windows(policy_of(Path("out"), agreement), SECRET)
    rows = [Row(1, "north", "a", 1, "Ann"), Row(2, "north", "", 1, "Ann"), Row(3, "north", "a", 1, "")]
    assert windows.add(batch_of([*rows, beat(100)]), 1) == 1
    untimed = batch_of([Row(4, "north", "a", 1, "Ann")]).set_column(0, "at", pa.array([""]))
    assert windows.add(untimed, 5) == 0
    assert windows.counts.bounding.rows_blank == 3
    assert windows.counts.bounding.rows_read == 4
    assert windows._policy.windows.number(windows.clock.watermark or 0) == windows.next + over_in([beat(100)])


BLANKS = ("shop", "item", "customer")
UNSOUND: dict[str, tuple[dict[str, str], str]] = {
    "a time that is none": ({"at": "yesterday"}, "malformed"),
    "no time": ({"at": ""}, "blank"),
    "years ahead": ({"at": "2046-01-01T00:00:00Z"}, "malformed"),
    "10,001 windows ahead": ({"at": "2026-11-29T11:42:00Z"}, "malformed"),
    "beyond all times": ({"at": "99999-01-01T00:00:00Z"}, "malformed"),
    "a value that is none": ({"n": "many"}, "malformed"),
    "a value beyond 63 bits": ({"n": "9" * 26}, "beyond"),
    "no item": ({"item": ""}, "blank"),
    "no item, and a time that is none": ({"at": "yesterday", "item": ""}, "malformed"),
    "no value, and years ahead": ({"at": "2046-01-01T00:00:00Z", "n": ""}, "blank"),
    "an item of blanks alone": ({"item": " \u00a0"}, "blank"),
    "no heartbeat, but blanks": ({"at": "2026-11-22T13:01:55Z", **dict.fromkeys(BLANKS, " "), "n": ""}, "blank"),
}


@pytest.mark.parametrize(
    ("lacking", "clip"),
    [
        ("drop", "scale"),
        ("refuse", "none"),
        *(pytest.param(*case, marks=pytest.mark.long) for case in [("drop", "none"), ("refuse", "scale")]),
    ],
)
@pytest.mark.parametrize("fault", UNSOUND)
def test_with_heartbeats_no_row_of_a_unit_ends_the_stream(fault: str, lacking: Any, clip: str) -> None:
    """The others' windows are as without it, wherever batches are cut, and it is counted."""
    changes, counted = UNSOUND[fault]
    agreement = AGREEMENT.replace(missing=lacking, text=TextRule())
    log = [beat(0), *(Row(second, "north", "a", 1, f"c{second}") for second in range(0, 100, 9)), beat(130)]
    cells = batch_of(log).to_pylist()
    eve = batch_of([Row(30, "south", "b", 1, "Eve")]).to_pylist()[0] | changes

    def played(rows: list[dict[str, str]], size: int) -> tuple[Windows, list[Any]]:
        windows = Windows(policy_of(Path("out"), agreement, clock="heartbeats", clip=clip), SECRET)
        for at in range(0, len(rows), size):
            windows.add(pa.RecordBatch.from_pylist(rows[at : at + size], schema=batch_of(log).schema), at + 1)
        sums = []
        for _ in range(2):
            assert windows.is_over
            closed = windows.closing()
            sums.append(closed.table.sketch_of("north").state().tolist())
            windows.advance(closed)
        return windows, sums

    _, without = played(cells, 99)
    for size in (1, 99):
        windows, sums = played([*cells[:4], eve, eve, *cells[4:]], size)
        assert sums == without, size
        found = windows.counts.bounding
        if counted == "beyond" and clip == "scale":
            counted = "kept"  # its unit is clipped
        assert found.rows_blank == 2 * (counted == "blank"), size
        assert found.rows_malformed == 2 * (counted in ("malformed", "beyond")), size
        assert found.rows_read == len(log), "without two heartbeats, with two of hers"


@pytest.mark.parametrize(
    "fault",
    [{"at": "2026-11-22T12:00:30"}, {"item": "2500-01-01"}, {"item": "9999-12-31T00:00:00Z"}],
    ids=["another form of time", "a year beyond nanoseconds", "another such year"],
)
def test_with_heartbeats_a_time_of_another_form_changes_no_row_of_others(fault: dict[str, str]) -> None:
    agreement = AGREEMENT.replace(index={"item": "timestamp"})
    seconds = range(0, 50, 7)
    fine = [Row(second, "north", f"2026-11-22T10:00:00.00000000{second % 10}", 1, f"c{second}") for second in seconds]
    cells = batch_of([beat(0), *fine, beat(130)]).to_pylist()
    eve = batch_of([Row(30, "south", "2026-11-22", 1, "Eve")]).to_pylist()[0] | fault

    def played(rows: list[dict[str, str]], size: int) -> Any:
        windows = Windows(policy_of(Path("out"), agreement, clock="heartbeats"), SECRET)
        for at in range(0, len(rows), size):
            windows.add(pa.RecordBatch.from_pylist(rows[at : at + size], schema=batch_of([]).schema), at + 1)
        return windows.closing()[0].sketch_of("north")

    without = played(cells, 99)
    assert without.mass == len(fine)
    for size in (1, 3, 99):
        assert played([*cells[:4], eve, *cells[4:]], size) == without, size


def test_the_last_window_that_a_row_may_be_in_is_ten_thousand_ahead() -> None:
    last = Row(60 * 10_000 + 59 + 10, "north", "a", 1, "Ann")  # its time less the delay
    windows = Windows(policy_of(Path("out"), clock="heartbeats"), SECRET)
    assert windows.add(batch_of([beat(1), last, last._replace(at=last.at + 1)]), 1) == 1
    assert windows.add(batch_of([beat(70), last._replace(at=last.at + 1)]), 4) == 1
    assert windows.counts.bounding.rows_malformed == 1


@pytest.mark.parametrize("clock", ["events", "heartbeats"])
def test_a_row_beyond_max_ahead_ends_no_window(clock: str) -> None:
    """The first row may be further ahead, as a log may begin long after the first window."""
    log = [beat(0), beat(3600), Row(3601, "north", "a", 1, "Ann"), Row(7300, "north", "a", 1, "Eve")]
    windows = Windows(policy_of(Path("out"), clock=clock, max_ahead="1 hour"), SECRET)
    assert windows.add(batch_of(log[:3]), 1) == 1
    newest = windows.clock.newest
    if clock == "events":
        with pytest.raises(ss.InvalidInputError, match=r"more than 60 windows \(max_ahead\)"):
            windows.add(batch_of(log[3:]), 4)
    else:
        assert windows.add(batch_of(log[3:]), 4) == 0
        assert windows.counts.bounding.rows_malformed == 1
    assert windows.clock.newest == newest
    assert windows.add(batch_of([Row(3602, "north", "a", 1, "Bob"), Row(7200, "north", "a", 1, "Cyd")]), 5) == 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"max_ahead": 0}, "longer than 0 seconds"),
        ({"max_ahead": "soon"}, "a number and a unit"),
        ({"max_dropped": 1.5}, "max_dropped is a share of rows from 0 to 1"),
        ({"max_dropped": -0.1}, "max_dropped is a share of rows from 0 to 1"),
    ],
)
def test_limits_of_a_job_are_checked(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ss.InvalidInputError, match=said):
        policy_of(Path("out"), **changes)


def test_limits_that_a_job_does_not_have_are_not_in_its_json() -> None:
    """It is in states, which go on with the job that they began with; an alarm may change."""
    before = policy_of(Path("out")).job.to_dict()
    assert not {"max_ahead", "max_dropped"} & before.keys()
    job = policy_of(Path("out"), max_ahead="1 hour", max_dropped=0.5).job
    assert job.changed(before) == ["max_ahead"]
    assert Job.from_json(job.to_json()) == job


@pytest.mark.parametrize("at", ["2046-01-01T00:00:00Z", "soon"])
def test_a_heartbeat_that_cannot_be_read_raises(at: str) -> None:
    windows = Windows(policy_of(Path("out"), clock="heartbeats"), SECRET)
    good = Row(1, "north", "a", 1, "Ann")
    bad = pa.RecordBatch.from_pylist([*batch_of([good, beat(2)]).to_pylist()], schema=batch_of([good]).schema)
    bad = bad.set_column(0, "at", pa.array([bad.column("at")[0].as_py(), at]))
    with pytest.raises(ss.InvalidInputError, match="the column at"):
        windows.add(bad, 1)
    assert (windows.clock.newest, windows.open) == (None, {})


def test_dropped_rows_that_cannot_be_kept_change_nothing() -> None:
    """As where a disk is full: the rows are added once when that is mended."""
    windows = Windows(policy_of(Path("out")), SECRET)
    windows.add(batch_of([beat(100)]), 1)
    rows = batch_of([Row(1, "north", "a", 1, "Ann"), Row(101, "north", "a", 1, "Ann")])

    def full(_: dict[str, pa.RecordBatch]) -> None:
        raise OSError("no space is left")

    windows.on_dropped = full
    with pytest.raises(OSError, match="no space"):
        windows.add(rows, 2)
    assert (windows.open, windows.counts.rows_late) == ({}, 0)
    kept: list[int] = []
    windows.on_dropped = lambda dropped: kept.extend(batch.num_rows for batch in dropped.values())
    assert windows.add(rows, 2) == 1
    assert (windows.counts.rows_late, sum(kept)) == (1, 1)


def test_a_window_does_not_hold_the_messages_of_its_rows() -> None:
    """Their other columns would add to the 40 bytes of an event."""
    agreement = AGREEMENT.replace(index={"item": "integer"})
    windows, numbers = Windows(policy_of(Path("out"), agreement), SECRET), np.arange(2)
    rows = batch_of([Row(1, "north", "", 1, "Ann"), Row(2, "south", "", 1, "Bob")])
    rows = rows.set_column(rows.schema.get_field_index("item"), "item", pa.array(numbers))
    message = weakref.ref(numbers)
    assert windows.add(rows, 1) == 2
    del rows, numbers
    assert message() is None


@given(st.lists(st.integers(0, 9), min_size=1, max_size=60))
@example([4] * 60)
def test_few_chunks_hold_a_window_and_each_event_is_saved_a_few_times(sizes: list[int]) -> None:
    windows, saved, written = Windows(policy_of(Path("out")), SECRET), set[int](), 0
    for place, size in enumerate(sizes):
        rows = [Row(1, "north", "a", 1, f"c{place} {number}") for number in range(size)]
        windows.add(batch_of([*rows, Row(1, "south", "b", 2, "Bob")]), 1)
        (window,) = windows.open.values()
        chunks = window.content
        assert isinstance(chunks, Mapping)
        counts = {number: pa.ipc.open_stream(chunk).read_all().num_rows for number, chunk in chunks.items()}
        written += sum(count for number, count in counts.items() if number not in saved)
        saved |= counts.keys()
        total = sum(sizes[: place + 1]) + place + 1
        assert sum(counts.values()) == total
        assert len(counts) <= 1 + math.log2(total)
    assert written <= total * (1 + math.log(total, 1.5))


def test_a_long_chunk_is_not_written_again() -> None:
    windows = Windows(policy_of(Path("out")), SECRET)
    windows.add(batch_of([Row(1, "north", "a", 1, "Ann")]), 1)
    (window,) = windows.open.values()
    assert isinstance(window, UnitsWindow)
    none = np.zeros(1 << 20, np.int64)
    many = Contributions(np.zeros((none.size, 2), np.uint64), [("north", WHOLE)], none, none, none)
    numbers = []
    for _ in range(3):
        window.add([many])
        content = window.content
        assert isinstance(content, Mapping)
        numbers.append(list(content))
    assert numbers[0] == numbers[1][:1] == numbers[2][:1]
    assert numbers[1] == numbers[2][:2]
    assert [len(each) for each in numbers] == [1, 2, 3]
