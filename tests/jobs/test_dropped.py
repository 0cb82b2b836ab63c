"""Rows that a job drops: counted, kept as dead letters, and said by the watch."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from prometheus_client import generate_latest

import streamsketch as ss
from streamsketch.beam.streams import WriteDeadLetters
from streamsketch.jobs import DroppedRows, Server, Watch
from streamsketch.streams import RowCounts, counts_in
from tests.jobs.job import at, end, job_of, policy_of, put, run
from tests.patience import wait_until

ROWS = [
    ("AA", "JFK-LAX", "N1", 70),
    ("AA", "late", "N2", 5),
    ("UA", "wrong clock", "N3", 90_000),
    ("UA", "EWR-SFO", "N4", 100),
    (None, None, None, 200),
]


def total(folder: Path) -> RowCounts:
    found = RowCounts()
    for one in counts_in(folder).values():
        found = found.plus(one)
    return found


@pytest.mark.usefixtures("root_key")
@pytest.mark.parametrize("clock", [pytest.param("events", marks=pytest.mark.long), "heartbeats"])
def test_what_a_job_drops_is_counted_and_kept(clock: str, runner: list[str], tmp_path: Path) -> None:
    for place, row in enumerate([ROWS[4], *ROWS[:4]] if clock == "heartbeats" else ROWS):
        put(tmp_path / "log", f"00{place}.parquet", [row if clock == "events" or row[0] else (*row[:-1], 69)])
    end(tmp_path / "log")
    letters = tmp_path / "letters"
    how: dict[str, Any] = {"clock": clock, "max_ahead": "1 hour", "dead_letters": str(letters)}
    assert run(tmp_path, runner, **how) == 0
    messages = 5 if clock == "events" else 4  # a heartbeat is none
    expected = RowCounts(4, late=1, ahead=1, messages=messages)
    # workers may write a second later
    wait_until(lambda: total(tmp_path / "claims/flights.counts") == expected, "the counts")
    kept = {path.name.partition("-")[0]: pq.read_table(path).to_pylist() for path in letters.iterdir()}
    assert {kind: [row["route"] for row in rows] for kind, rows in kept.items()} == {
        "late": ["late"],
        "ahead": ["wrong clock"],
    }
    assert {path.stat().st_mode & 0o777 for path in letters.iterdir()} == {0o600}
    assert len(list((tmp_path / "out/flights").rglob("AA.sketch"))) == 3, "no window beyond those was opened"


def test_a_full_folder_of_dead_letters_takes_no_more_and_that_is_counted(tmp_path: Path) -> None:
    counts = tmp_path / "counts"
    step = WriteDeadLetters(str(tmp_path / "letters"), most_bytes=10, counts=str(counts))._step
    for name, content in (("a.parquet", b"12345"), ("b.parquet", b"123456"), ("c.parquet", b"12345")):
        for _ in range(2):  # a runner repeats it
            step.process((name, 3, content))
    assert sorted(path.name for path in (tmp_path / "letters").iterdir()) == ["a.parquet", "c.parquet"]
    assert total(counts) == RowCounts(lost=6), "each time that there was no room"
    again = WriteDeadLetters(str(tmp_path / "letters"), most_bytes=10, counts=str(counts))._step
    again.process(("d.parquet", 1, b"1"))
    assert total(counts) == RowCounts(lost=7), "what is there counts for another worker"


def test_dead_letters_are_not_kept_where_results_are_published(tmp_path: Path) -> None:
    for folder in (tmp_path / "out", tmp_path / "out/flights/letters"):
        with pytest.raises(ss.InvalidInputError, match="is in the folder of published results"):
            job_of(tmp_path, dead_letters=str(folder))


def test_the_watch_says_that_rows_are_dropped_and_then_that_all_is_well(tmp_path: Path) -> None:
    folder, now = tmp_path / "counts", [1000.0]
    folder.mkdir()
    (tmp_path / "out").mkdir()
    policy = policy_of(tmp_path, start=at(0), stale_after=100.0)
    cause = DroppedRows(folder, policy.job.limits)
    watch = Watch(*policy, causes=[cause], clock=lambda: now[0])

    def said(seconds: int, **counts: int) -> list[str]:
        now[0] += seconds
        (folder / "worker.json").write_text(json.dumps(RowCounts(**counts)._asdict()))
        watch.look()
        return [sentence for sentence in watch.complaints() if "rows" in sentence]

    assert said(0, read=100, late=2) == [
        "2 % of the rows that were read were dropped, more than max_dropped, 1 %: 2 late, 0 too far ahead, 0 malformed"
    ]
    assert said(50, read=1000, late=3) == [], "3 of 900 since the first look"
    (sentence,) = said(50, read=1100, late=3, malformed=50)
    assert sentence.startswith("5.1 % of the rows of the last 100 s")
    assert said(101, read=1200, late=3, malformed=50) == []
    with Server(watch, 0) as server:
        assert b'streamsketch_stream_rows_malformed{stream="flights"} 50.0' in generate_latest(server.registry)
    (folder / "worker.json").write_text("[")
    watch.look()
    assert "the counts of rows cannot be read: JSONDecodeError" in watch.complaints()
