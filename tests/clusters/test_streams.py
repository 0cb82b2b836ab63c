"""A stream on Flink outlives all that may happen to it: each key and window once, with the sums of its topic."""

import time
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

import streamsketch as ss
from streamsketch.continual import History, Tree
from tests.clusters.cluster import FlinkCluster
from tests.clusters.streaming import (
    BASE,
    KEYS,
    MINUTE,
    Files,
    Folder,
    Job,
    Log,
    assert_is_the_log,
    assert_once,
    replayed,
    rows,
)


@pytest.mark.parametrize(
    ("moment", "backend", "bundle"),
    [("before a release", "filesystem", 50), ("after a release", "rocksdb", 1)],
)
def test_a_task_manager_killed(
    moment: str, backend: str, bundle: int, cluster: FlinkCluster, log: Log, tmp_path: Path
) -> None:
    folder = Folder(tmp_path / "stream")
    log.put(range(3))
    with Job(cluster, log, folder, stream={"backend": backend, "bundle": bundle}) as job:
        job.wait_for(lambda: len(folder.windows()) == 3, "the first windows")
        log.put(range(3, 5))
        if moment == "after a release":
            job.wait_for(lambda: len(folder.windows()) > 3, "another window")
        else:
            time.sleep(0.3)
        cluster.kill_task_manager(-1)
        cluster.wait_for_task_managers(1)
        cluster.start_task_manager()
        log.write(0, 1, rows(1, 50, seed=9))  # late: in the stream and in its replay it counts for nothing
        log.put(range(5, 8))
        job.wait_for(lambda: len(folder.windows()) == 8, "the windows after it")
        epoch = job.epoch
    assert_once(folder)
    assert_is_the_log(log, folder, tmp_path / "again", epoch, 8)


def test_a_job_restored_from_a_savepoint_keeps_bounds_and_one_launched_anew_draws_other_noise(
    cluster: FlinkCluster, log: Log, tmp_path: Path
) -> None:
    folder = Folder(tmp_path / "stream")
    log.put(range(2))
    with Job(cluster, log, folder) as job:
        job.wait_for(lambda: len(folder.windows()) == 2, "the first windows")
        log.write(0, 2, rows(2, 300))  # a part of a minute, which the savepoint then holds
        time.sleep(3)
        savepoint = job.end_with_savepoint(tmp_path / "savepoint")
        assert job.epoch == 1
    log.put(range(2, 5), seed=1)  # the same units again, in the same minute
    with Job(cluster, log, folder, f"--savepoint_path={savepoint}", epoch=1) as job:
        job.wait_for(lambda: len(folder.windows()) == 5, "the windows after it")
    assert_once(folder)
    assert_is_the_log(log, folder, tmp_path / "again", 1, 5)

    anew = Folder(tmp_path / "anew")
    anew.claims = folder.claims
    with Job(cluster, log, anew) as job:
        assert job.epoch == 2
        job.wait_for(lambda: len(anew.windows()) == 5, "all windows")
        with pytest.raises(ss.InvalidInputError, match="epoch 1 of the stream test is over"):
            Job(cluster, log, folder, f"--savepoint_path={savepoint}", epoch=1)
    assert_is_the_log(log, anew, tmp_path / "anew again", 2, 5)
    assert not set(folder.slots().values()) & set(anew.slots().values())


def test_a_row_far_ahead_removes_nobody_where_heartbeats_alone_move_the_clock(
    cluster: FlinkCluster, log: Log, tmp_path: Path
) -> None:
    """A day ahead, it would end all windows of the day, and make the rows of others late."""
    folder = Folder(tmp_path / "stream")
    log.put(range(2))
    log.write(0, 24 * 60, rows(24 * 60, 1))
    with Job(cluster, log, folder, clock="heartbeats") as job:
        job.wait_for(lambda: len(folder.windows()) == 2, "the first windows")
        log.put(range(2, 5))
        log.write(1, 1, rows(1, 50, seed=9))  # late by the heartbeats of its partition
        job.wait_for(lambda: len(folder.windows()) == 5, "the windows after it")
        assert len(folder.windows()) == 5
    assert_once(folder)
    assert_is_the_log(log, folder, tmp_path / "again", 1, 5, "heartbeats")
    moved = replayed(log, folder, tmp_path / "moved", 1, 5, clock="events").images("sketches")
    kept = folder.images("sketches")
    gone = {name for name in kept if name.split(" ")[0] in folder.windows()[2:]} - moved.keys()
    assert gone, "rows that a clock of events takes as late"
    assert {ss.PrivateSketch.from_bytes(image).guarantee.conditions for image in folder.slots().values()} == {()}


def test_rows_of_a_schedule_outlive_a_kill_and_a_savepoint(cluster: FlinkCluster, tmp_path: Path) -> None:
    """The sums of earlier windows are in the state: batch, which has none, computes the same bytes."""
    log, folder, ledger = Files(tmp_path / "log"), Folder(tmp_path / "stream"), tmp_path / "ledger"
    schedule = Tree(horizon=8, depth=2, max_windows=None)
    ss.Ledger(ledger).dataset("test", unit="unit", epsilon=1)
    how: dict[str, Any] = {"schedule": schedule, "ledger": ledger}
    log.put(range(3))
    with Job(cluster, log, folder, **how) as job:
        job.wait_for(lambda: len(folder.windows()) == 3, "the first rows")
        log.put(range(3, 5))
        cluster.kill_task_manager(-1)
        cluster.wait_for_task_managers(1)
        cluster.start_task_manager()
        job.wait_for(lambda: len(folder.windows()) == 5, "the rows after it")
        savepoint = job.end_with_savepoint(tmp_path / "savepoint")
    log.put(range(5, 10))  # two more than the horizon
    with Job(cluster, log, folder, f"--savepoint_path={savepoint}", epoch=1, **how) as job:
        job.wait_for(lambda: len(folder.windows()) == 8, "all rows")
        before = job.checkpoints()
        job.wait_for(lambda: job.checkpoints() > before + 1, "two checkpoints")
    assert len(folder.windows()) == 8
    assert not folder.images("refused")
    assert_once(folder)
    assert_is_the_log(log, folder, tmp_path / "again", 1, 8, schedule=schedule)
    rows_of = [folder.slots()[f"{window} AA"] for window in folder.windows()]
    assert History(map(ss.PrivateSketch.from_bytes, rows_of)).windows == 8
    spent = [entry.body["epsilon"] for entry in ss.Ledger(ledger).entries() if entry.body["kind"] == "charge"]
    assert sorted(spent) == [0.0] * 8 + [1.0], "one charge for all rows, and the draw of each"


def test_a_folder_that_grows_while_a_task_manager_is_killed(cluster: FlinkCluster, tmp_path: Path) -> None:
    """With a budget for the windows up to there, each of which is charged once."""
    log, folder, ledger = Files(tmp_path / "log"), Folder(tmp_path / "stream"), tmp_path / "ledger"
    ss.Ledger(ledger).dataset("test", unit="unit", epsilon=8)
    log.put(range(3))
    with Job(cluster, log, folder, clock="heartbeats", ledger=ledger) as job:
        job.wait_for(lambda: len(folder.windows()) == 3, "the first windows")
        log.put(range(3, 5))
        job.wait_for(lambda: len(folder.windows()) > 3, "another window")
        cluster.kill_task_manager(-1)
        log.write(rows(1, 50, seed=9), BASE + 5 * MINUTE)  # late rows, in the stream as in its replay
        cluster.wait_for_task_managers(1)
        cluster.start_task_manager()
        log.put(range(5, 9))
        job.wait_for(lambda: len(list((folder.path / "refused").iterdir())) == len(KEYS), "a window that is refused")
    assert len(folder.windows()) == 8
    assert_once(folder)
    assert_is_the_log(log, folder, tmp_path / "again", 1, 8, "heartbeats")
    assert sum(entry.body["kind"] == "charge" for entry in ss.Ledger(ledger).entries()) == 8


@pytest.mark.parametrize("case", ["stable input", "killed after the release", "no stable input"])
def test_rows_that_come_late_after_a_failure_publish_nothing_twice(
    case: str, cluster: FlinkCluster, log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let a window end, kill, let late rows arrive that the runner takes as on time, restore."""
    if case == "no stable input":
        monkeypatch.setattr("streamsketch.beam.streams.stable.StableParDo", beam.ParDo)
    folder = Folder(tmp_path / "stream")
    log.put(range(2))
    with Job(cluster, log, folder, stream={"interval": 15000}, late_by_runner=True) as job:
        job.wait_for(lambda: len(folder.windows()) == 2 and job.checkpoints() > 1, "the first windows")
        before = job.checkpoints()
        job.wait_for(lambda: job.checkpoints() > before, "a checkpoint that just ended")
        log.put(range(2, 4))
        job.wait_for(lambda: len(folder.images("sketches")) > 2 * 2, "the end of a window")
        if case == "stable input":
            time.sleep(1)
            assert len(folder.images()) == 2 * len(KEYS), "nothing leaves before a checkpoint has it"
        else:
            job.wait_for(lambda: len(folder.images()) > 2 * len(KEYS), "a release")
        cluster.kill_task_manager(-1)
        for partition in (0, 1):
            log.write(partition, 2, rows(2, 300, seed=2))
        cluster.wait_for_task_managers(1)
        cluster.start_task_manager()
        log.put(range(4, 6))
        job.wait_for(lambda: len(folder.windows()) == 6, "the windows after it")
    twice = [name for name, images in folder.images().items() if len(images) > 1]
    assert bool(twice) == (case == "no stable input"), "with other sums, had the sink not refused the second"


@pytest.mark.parametrize(
    ("count", "bundle"),
    [(16_667, 50), (16_667, 1), (1, 1)],
    ids=["five million rows", "five million rows in bundles of a batch", "three thousand rows in bundles of one"],
)
def test_a_backlog_loses_no_window_while_a_partition_has_heartbeats_alone(
    count: int, bundle: int, cluster: FlinkCluster, log: Log, tmp_path: Path
) -> None:
    """All rows wait when the job starts, in one of two partitions; bundles that close by time overtake nothing."""
    minutes = 30
    folder = Folder(tmp_path / "stream")
    for minute in range(minutes):
        whole = rows(minute, max(count, 100))
        for batch in [whole] * 10 if count > 1 else [whole.slice(row, 1) for row in range(whole.num_rows)]:
            log.write(0, minute, batch)
        log.end(minute)
    with Job(cluster, log, folder, stream={"bundle": bundle}) as job:
        job.wait_for(lambda: len(folder.windows()) == minutes, "all windows")
    assert_once(folder)
    sampled = {0, 14, 29}  # the whole replay takes minutes
    again = replayed(log, folder, tmp_path / "again", 1, minutes, only=sampled)
    windows = [folder.windows()[minute] for minute in sorted(sampled)]
    expected = {name: image for name, image in again.slots().items() if name.split(" ")[0] in windows}
    assert {name: image for name, image in folder.slots().items() if name in expected} == expected
