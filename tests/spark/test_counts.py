"""Rows that Spark drops are counted in their unit, with the limits and the codes of every other engine."""

import dataclasses
import json
import logging
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch import jobs
from streamsketch.errors import InvalidInputError
from streamsketch.features import Number
from streamsketch.once.counts import ROW_CODES, RowCounts
from streamsketch.spark import sketch_per_key
from streamsketch.streams import FileSink, Job, RowLimits
from tests.spark.conftest import FrameOf
from tests.spark.frames import LocalFrame
from tests.spark.rows import agreed, sales
from tests.spark.test_batches import KEYS, batch, published, publishing

UNIT = ss.L1(10**6, unit="customer", max_keys=3)
LIST = pa.table({"shop": ["N", "E", None], "customer": ["a", "b", "c"], "x": [1.0, 2.0, 3.0], "y": [3, 4, 5]})


def counted(rows: pa.Table, public: list[str] | None) -> RowCounts:
    """Count by a second way: what rows lack, and which keys they have."""
    lists = [rows[name].to_pylist() for name in ("shop", "item", "customer", "sold")]
    blank = malformed = other = 0
    for shop, item, customer, sold in zip(*lists, strict=True):
        if None in (shop, item, customer, sold):
            blank += 1
        elif math.isinf(sold):
            malformed += 1
        elif public is not None and shop not in public:
            other += 1
    return RowCounts(read=len(rows), blank=blank, malformed=malformed, other_keys=other)


def broken(rows: pa.Table, *, infinite: int) -> pa.Table:
    sold = np.array(rows["sold"].to_pylist())
    sold[5 : 5 + infinite] = np.inf
    return rows.set_column(rows.column_names.index("sold"), "sold", pa.array(sold))


@pytest.mark.parametrize("public", [None, ["N", "S"], ["elsewhere"]])
@pytest.mark.parametrize("partitions", [1, 5])
def test_dropped_rows_are_counted_once_whatever_tasks_run_again(
    frame_of: FrameOf, public: list[str] | None, partitions: int
) -> None:
    rows = broken(sales(), infinite=7)
    sketches = sketch_per_key(frame_of(rows, partitions), agreed(UNIT), public_keys=public)
    assert sketches.row_counts == counted(rows, public)
    assert sketches.row_counts.malformed, "the test has rows of each kind"
    plain = sketch_per_key(frame_of(sales(), partitions), agreed(), public_keys=public)
    assert plain.row_counts == counted(sales(), public)
    assert all(isinstance(key, str) for key in plain.table())


def test_rows_of_features_count_once_and_not_for_each_feature() -> None:
    features = ss.Features({"x": Number(0, 4), "y": Number(0, 9)}, seed=1)
    agreement = ss.Agreement(key="shop", features=features, missing="drop")
    found = sketch_per_key(LocalFrame.of(LIST, 2), agreement, public_keys=["N"]).row_counts
    assert (found.read, found.blank, found.other_keys) == (3, 1, 1)


def test_no_rows_have_no_counts(frame_of: FrameOf) -> None:
    assert sketch_per_key(frame_of(sales(3)[:0], 1), agreed(UNIT)).row_counts == RowCounts()


CASES = {
    "rows_dropped": lambda rows: broken(rows, infinite=12),
    "rows_blank": lambda rows: rows.set_column(1, "item", pa.nulls(len(rows), pa.string())),
    "rows_of_other_keys": lambda rows: rows.set_column(0, "shop", pa.array(["n"] * len(rows))),
    "volume_low": lambda rows: rows[:9],
}


@pytest.mark.parametrize("code", CASES)
def test_each_loss_is_an_alarm_in_the_log_within_one_batch(
    code: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = sales()
    publish = publishing(tmp_path / "out", UNIT, counts=tmp_path / "counts")
    for number in range(3):
        publish(batch(rows), number)
    assert not codes(caplog)
    publish(batch(CASES[code](rows)), 3)
    assert code in codes(caplog)
    caplog.clear()
    publish(batch(CASES[code](rows)), 4)
    assert not codes(caplog), "an alarm that goes on is one line"
    (total,) = jobs.DroppedRows(tmp_path / "counts").look(0.0, 1.0)[1:]
    assert total["rows_read"] == sum(map(len, [rows] * 3 + [CASES[code](rows)] * 2))


def test_the_limits_are_those_of_the_job(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    job = Job(folder="out", delay=0, max_dropped=0.5, max_other_keys=0.01)
    publishing(tmp_path / "out", UNIT, limits=job.limits)(batch(broken(sales(), infinite=12)), 0)
    assert codes(caplog) == ["rows_of_other_keys"]
    publishing(tmp_path / "more", UNIT, limits=RowLimits(dropped=0.5))(batch(broken(sales(), infinite=12)), 0)
    assert codes(caplog) == ["rows_of_other_keys"]


def test_the_watch_of_other_engines_reads_counts_and_alarms(tmp_path: Path) -> None:
    """As batch 17 is the window 17 s after 1970, windows of one second follow a stream of batches."""
    windows = ss.Windows(time="at", every="1 s", first="1970-01-01")
    watched = dataclasses.replace(agreed(UNIT), keys=tuple(KEYS), windows=windows, terms=ss.Terms(epsilon=1))
    out, alarms, counts = (str(tmp_path / name) for name in ("out", "alarms", "counts"))
    job = Job(folder=out, delay=0, stream="sales", alarms=alarms, counts=counts, stale_after=3600)
    publish = publishing(tmp_path / "out", UNIT, alarms=alarms, counts=counts)
    publish(batch(), 0)
    publish(batch(sales()[:-200]), 0)
    watch = jobs.Watch(watched, job, causes=[jobs.DroppedRows(Path(counts), job.limits)])
    watch.look()
    health = watch.health()
    assert (health["releases"], health["alarms"], health["refused"]) == (2, 2, 0)
    assert health["rows_read"] == len(sales()) + len(sales()[:-200])
    assert all(path.stat().st_mode & 0o077 == 0 for name in (alarms, counts) for path in Path(name).iterdir())


def test_a_lost_checkpoint_ends_the_query_and_fills_no_slot(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Spark then counts batches from 0 again, with the rows that have come since."""
    alarms = tmp_path / "alarms"
    for number in range(3):
        publishing(tmp_path / "out", UNIT)(batch(sales(200 + number)), number)
    before = published(tmp_path / "out")
    for number in (0, 1):
        with pytest.raises(InvalidInputError, match="checkpoint was lost") as error:
            publishing(tmp_path / "out", UNIT, alarms=alarms)(batch(sales(300)), number)
        assert error.value.reason == "checkpoint_lost"
    assert published(tmp_path / "out") == before
    assert len(list(alarms.iterdir())) == 4
    failed = [json.loads(text) for text in caplog.messages if '"failed"' in text]
    assert [event["reason"] for event in failed] == ["checkpoint_lost"] * 2
    publishing(tmp_path / "out", UNIT)(batch(sales(200)), 0)  # the same rows are the same release
    other = publishing(tmp_path / "out", UNIT, window=lambda number: 10**9 + 10**6 * number)
    other(batch(sales(300)), 0)
    assert before.items() < published(tmp_path / "out").items()


def test_a_refusal_of_the_ledger_is_no_lost_checkpoint(tmp_path: Path) -> None:
    publishing(tmp_path / "out", UNIT)(batch(), 1)
    ledger = ss.Ledger(tmp_path / "ledger.sqlite")
    ledger.dataset("sales", unit="customer", epsilon=0.5, delta=0.0)
    publishing(tmp_path / "out", UNIT, ledger=ledger, dataset="sales")(batch(), 0)
    assert len(published(tmp_path / "out")) == 2


def test_a_batch_that_fails_says_why_without_its_rows(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows: Any = sales(20).set_column(2, "sold", pa.array(["many"] * 20))
    with pytest.raises(InvalidInputError):
        publishing(tmp_path / "out", UNIT, sink=FileSink(tmp_path))(batch(rows.drop_columns(["item"])), 0)
    (event,) = [json.loads(text) for text in caplog.messages if '"failed"' in text]
    assert (event["reason"], event["error"]) == ("setting", "InvalidInputError")


def codes(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the codes of lost rows in the log."""
    events = [json.loads(text) for text in caplog.messages if text.startswith("{")]
    return [event["event"] for event in events if event["event"] in ROW_CODES]


@pytest.fixture(autouse=True)
def _log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "streamsketch")
