"""A dry run counts what a stream would drop of each window, and leaves no trace."""

import dataclasses
import itertools
import random
from pathlib import Path

import pytest

import streamsketch as ss
from streamsketch.streams import DryStream, Stream
from streamsketch.streams.policy import StreamPolicy
from tests.streams.naive import AGREEMENT, KEYS, Row, batch_of, beat, over_in, policy_of, windows_of

ASSERTED = AGREEMENT.replace(unit=None, neighbours=ss.L1(5, unit="customer"))


def drawn(seed: int, clock: str) -> list[Row]:
    """Return a log with late rows, rows before the start and of other keys, and with heartbeats, if they count."""
    bits = random.Random(seed)  # noqa: S311 - a test's data
    rows = []
    for at in range(-100, 600, 2):
        rows.append(Row(at - bits.choice([0] * 6 + [75, 140]), bits.choice([*KEYS, "moon"]), "a", 1, f"c{at % 7}"))
        if clock == "heartbeats" and at > 0 and at % 10 == 0:
            rows.append(beat(at))
    return rows


def added(stream: Stream, rows: list[Row], piece: int) -> None:
    for start in range(0, len(rows), piece):
        stream.add(batch_of(rows[start : start + piece]), start + 1)
        stream.save({"rows": start})


PAIRS = {  # every pair of values of two parameters
    ("clipped", "events", 7, None),
    ("asserted", "heartbeats", 7, "sales"),
    ("clipped", "heartbeats", 1000, "sales"),
    ("asserted", "events", 1000, None),
    ("clipped", "events", 1000, "sales"),
    ("asserted", "heartbeats", 1000, None),
}


def test_the_cases_have_every_pair_of_values() -> None:
    values = [set(column) for column in zip(*PAIRS, strict=True)]
    assert [len(each) for each in values] == [2, 2, 2, 2]
    for one, other in itertools.combinations(range(4), 2):
        assert len({(case[one], case[other]) for case in PAIRS}) == 4, (one, other)


@pytest.mark.parametrize(("bounding", "clock", "piece", "name"), sorted(PAIRS, key=str))
def test_it_counts_what_the_stream_drops(
    tmp_path: Path, bounding: str, clock: str, piece: int, name: str | None
) -> None:
    agreement = AGREEMENT if bounding == "clipped" else ASSERTED
    rows = drawn(3, clock)
    for each in ("out", "real"):
        (tmp_path / each).mkdir()
    dry = DryStream(*policy_of(tmp_path / "out", agreement, clock=clock, stream=name))
    added(dry, rows, piece)
    stream = Stream(*policy_of(tmp_path / "real", agreement, clock=clock), tmp_path / "s.raw-stream")
    added(stream, rows, piece)
    expected, late = windows_of(rows, clock=clock)
    found = {one.window: one for one in dry.rows_of_windows}
    kept = {dry.policy.windows.name(dry.policy.first + number): its for number, its in expected.items() if number >= 0}
    assert {window: one.rows - one.late for window, one in found.items() if one.rows > one.late} == {
        window: len(its) for window, its in kept.items()
    }
    assert {window: one.other_keys for window, one in found.items() if one.other_keys} == {
        window: sum(row.shop == "moon" for row in its) for window, its in kept.items()
    }
    assert sum(one.late for one in found.values()) == late > 0
    assert dry.row_counts == stream.row_counts
    assert dry.row_counts.early > 0
    clocked = rows if clock == "events" else [row for row in rows if not row.shop]
    assert sum(one.is_over for one in found.values()) == over_in(clocked) == stream.released
    assert dry.released == 0
    assert list((tmp_path / "out").iterdir()) == []


def test_rows_that_lack_a_value_belong_to_the_window_of_their_time(tmp_path: Path) -> None:
    policy = policy_of(tmp_path, AGREEMENT.replace(missing="drop"))
    dry = DryStream(*policy)
    lacking = [Row(70, "north", "", 1, "c"), Row(130, "", "a", 1, "c"), Row(-5, "north", "", 1, "c")]
    dry.add(batch_of([Row(10, "north", "a", 1, "c"), *lacking]), 1)
    assert [(one.rows, one.blank) for one in dry.rows_of_windows] == [(1, 0), (1, 1), (1, 1)]
    assert dry.row_counts.blank == len(lacking)
    assert set(dry.complaints(dry.row_counts)) == {"rows_blank"}


def test_rows_of_a_blank_unit_belong_to_the_window_of_their_time(tmp_path: Path) -> None:
    """Which windows themselves drop, where values that are missing are kept."""
    dry = DryStream(*policy_of(tmp_path, AGREEMENT.replace(missing="keep", value=None)))
    dry.add(batch_of([Row(10, "north", "a", 1, "c"), Row(70, "north", "a", 1, ""), Row(70, "moon", "a", 1, "c")]), 1)
    assert [(one.rows, one.blank, one.other_keys) for one in dry.rows_of_windows] == [(1, 0, 0), (2, 1, 1)]
    assert dry.row_counts.blank == sum(one.blank for one in dry.rows_of_windows)


def test_a_job_for_a_dry_run_releases_nothing_on_any_engine(tmp_path: Path) -> None:
    agreement, job = policy_of(tmp_path / "out")
    tried = dataclasses.replace(job, dry_run=True)
    with pytest.raises(ss.InvalidInputError, match="leave out dry_run"):
        StreamPolicy(agreement, tried)
    assert DryStream(agreement, tried).rows_of_windows == []


def test_nothing_is_written_wherever_the_job_says(tmp_path: Path) -> None:
    places = {name: str(tmp_path / name) for name in ("alarms", "dead_letters", "ledger")}
    dry = DryStream(*policy_of(tmp_path / "out", **places, dataset="sales"))
    added(dry, drawn(5, "events"), 50)
    assert list(tmp_path.rglob("*")) == []
