"""What a producer changes without a word: each change is an alarm within one window, on every engine's counts."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("confluent_kafka")

from apache_beam.utils.timestamp import MIN_TIMESTAMP

from streamsketch.beam.streams import DecodeMessages
from streamsketch.once.counts import RowAlarms, RowCounts, RowLimits
from tests.jobs.topic import AGREEMENT, BASE, MINUTE, Topic, arrow, reader, rows

Change = Callable[[pa.RecordBatch], pa.RecordBatch]


def _with(batch: pa.RecordBatch, **columns: Any) -> pa.RecordBatch:
    kept = {name: batch.column(name) for name in batch.schema.names}
    return pa.RecordBatch.from_pydict({name: column for name, column in (kept | columns).items() if column is not None})


def _earlier(batch: pa.RecordBatch) -> pa.Array:
    millis = np.asarray(batch.column("at").cast(pa.int64())) // 1000
    return pa.array(millis).cast(pa.timestamp("us", "UTC"))


CHANGES: dict[str, tuple[Change, str]] = {
    "a column is renamed": (lambda rows: _with(rows, person=None, customer=rows["person"]), "messages_undecodable"),
    "a column has another type": (
        lambda rows: _with(rows, item=pa.array([[1]] * rows.num_rows)),
        "messages_undecodable",
    ),
    "a column became null": (lambda rows: _with(rows, person=pa.nulls(rows.num_rows, pa.string())), "rows_blank"),
    "keys are renamed": (
        lambda rows: _with(rows, shop=pa.array([shop.title() for shop in rows["shop"].to_pylist()])),
        "rows_of_other_keys",
    ),
    "milliseconds are read as microseconds": (lambda rows: _with(rows, at=_earlier(rows)), "rows_early"),
    "times are text that is none": (lambda rows: _with(rows, at=pa.array(["soon"] * rows.num_rows)), "rows_dropped"),
    "a clock is years ahead": (
        lambda rows: _with(
            rows, at=pa.array(np.asarray(rows["at"].cast(pa.int64())) + 10**15).cast(pa.timestamp("us", "UTC"))
        ),
        "rows_dropped",
    ),
    "hardly a row comes": (lambda rows: rows.slice(0, 0), "volume_low"),
    "nothing": (lambda rows: rows, ""),
}


def _messages(batch: pa.RecordBatch, form: str) -> list[bytes]:
    if form == "arrow":
        return [arrow(batch)]
    found = batch.to_pylist()
    texts = [row | {"at": row["at"] if isinstance(row["at"], str) else row["at"].isoformat()} for row in found]
    return [json.dumps(row).encode() for row in texts]


@pytest.mark.parametrize("form", ["arrow", "json"])
@pytest.mark.parametrize("how", CHANGES)
def test_a_change_of_half_of_the_producers_is_an_alarm_in_the_next_window(
    how: str, form: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """From the first window on, where nothing is usual yet, and after some windows."""
    change, code = CHANGES[how]
    for since in (0, 4):
        if how == "hardly a row comes" and not since:
            continue  # nobody can know
        caplog.set_level(logging.WARNING, "streamsketch")
        topic = Topic(1, most=100)
        read = reader(topic, tmp_path / str(since), form=form)
        events: list[list[str]] = []
        for minute in range(since + 2 if code else 7):
            caplog.clear()
            for half in (0, 1):
                batch = rows(minute, 150, seed=half)
                is_changed = minute >= since and (half or how == "hardly a row comes")
                topic.write(0, *_messages(change(batch) if is_changed else batch, form), second=MINUTE * minute)
            if how == "hardly a row comes":
                topic.write(0, b"", second=MINUTE * (minute + 1) + 5)
            while read.offsets[0] < topic.bounds()[0][1]:
                read.step(0)
            assert read.save()
            events.append([json.loads(text)["event"] for text in caplog.messages])
        assert not any(events[:since]), events
        wanted = "rows_dropped" if form == "json" and code == "messages_undecodable" else code
        if not code:
            assert not any(events), events
        else:
            assert any(wanted in found for found in events[since : since + 2]), (wanted, events)


@pytest.mark.parametrize("form", ["arrow", "json"])
@pytest.mark.parametrize("how", [how for how in CHANGES if how not in ("hardly a row comes", "a clock is years ahead")])
def test_workers_of_a_cluster_count_each_kind_in_its_unit(how: str, form: Any, tmp_path: Path) -> None:
    change, code = CHANGES[how]
    known = {"first": BASE * 10**6, "public_keys": ["north", "south"], "counts": str(tmp_path)}
    step = DecodeMessages(AGREEMENT, time="at", size=MINUTE, format=form, **known)._step  # type: ignore[arg-type]
    step.start_bundle()
    step.counts = None
    for half in (0, 1):
        batch = rows(0, 150, seed=half)
        for message in _messages(change(batch) if half else batch, form):
            list(step.process(message, MIN_TIMESTAMP))
    list(step.finish_bundle())
    counts = step._counts.plus(RowCounts(read=step._blank, blank=step._blank))
    wanted = "rows_dropped" if form == "json" and code == "messages_undecodable" else code
    if form == "json" and how == "a column is renamed":
        wanted = "rows_blank"  # what JSON lacks is null there
    assert counts.read + 150 * counts.undecodable == 300, counts
    assert counts.messages == (2 if form == "arrow" else 300)
    assert ([wanted] if wanted else []) == [*RowAlarms(RowLimits()).look(counts, "")], counts
