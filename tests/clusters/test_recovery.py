"""A stream on Flink goes on after its workers were killed, after a cancellation, and where its topic grows."""

from pathlib import Path
from typing import Any

import pytest

from tests.clusters.cluster import FlinkCluster
from tests.clusters.streaming import Folder, Job, Log, assert_is_the_log, assert_once, rows


def test_python_workers_killed_twice(cluster: FlinkCluster, log: Log, tmp_path: Path) -> None:
    """The second time, too, none of the dead ones is kept."""
    folder = Folder(tmp_path / "stream")
    log.put(range(2))
    with Job(cluster, log, folder) as job:
        for done in (2, 4):
            job.wait_for(lambda done=done: len(folder.windows()) == done, "the windows before it")
            log.put([done])
            assert cluster.kill_workers() > 0
            log.put([done + 1])
        job.wait_for(lambda: len(folder.windows()) == 6, "the windows after it")
        assert 2 <= job.failures() <= 6, "it does not start again and again"
        epoch = job.epoch
    assert_once(folder)
    assert_is_the_log(log, folder, tmp_path / "again", epoch, 6)


def test_a_cancelled_job_is_restored_from_its_last_checkpoint(cluster: FlinkCluster, log: Log, tmp_path: Path) -> None:
    folder = Folder(tmp_path / "stream")
    log.put(range(2))
    with Job(cluster, log, folder) as job:
        job.wait_for(lambda: len(folder.windows()) == 2, "the first windows")
        log.write(0, 2, rows(2, 300))  # a part of a minute, which the checkpoint then holds
        before = job.checkpoints()
        job.wait_for(lambda: job.checkpoints() > before + 1, "two checkpoints")
        checkpoint = job.cancel()
    assert checkpoint is not None
    log.put(range(2, 5), seed=1)  # the same units again, in the same minute
    with Job(cluster, log, folder, f"--savepoint_path={checkpoint}", epoch=job.epoch) as job:
        job.wait_for(lambda: len(folder.windows()) == 5, "the windows after it")
    assert_once(folder)
    assert_is_the_log(log, folder, tmp_path / "again", 1, 5)


def test_partitions_added_while_the_job_runs_and_while_it_does_not(
    cluster: FlinkCluster, log: Log, tmp_path: Path
) -> None:
    """The rows are of the window that is open when the partition appears, which ends at once."""
    folder = Folder(tmp_path / "stream")
    log.put(range(2))
    with Job(cluster, log, folder) as job:
        job.wait_for(lambda: len(folder.windows()) == 2 and job.checkpoints() > 1, "the first windows")
        log.kafka.grow(log.topic, 3)
        log.write(2, 2, rows(2, 300, seed=3))
        log.put([2])  # ends the window in the partitions that the job reads
        log.partitions = 3
        log.end(2)
        job.wait_for(lambda: len(folder.windows()) == 3, "the window with the new partition's rows")
        assert job.failures() == 1
        before = job.checkpoints()
        job.wait_for(lambda: job.checkpoints() > before + 1, "two checkpoints")
        savepoint = job.end_with_savepoint(tmp_path / "savepoint")
    log.kafka.grow(log.topic, 4)
    log.partitions = 4
    log.write(3, 3, rows(3, 300, seed=4))
    log.put(range(3, 5))
    with Job(cluster, log, folder, f"--savepoint_path={savepoint}", epoch=job.epoch) as job:
        job.wait_for(lambda: len(folder.windows()) == 5, "the windows after it")
        assert job.failures() == 0
    assert_once(folder)
    assert_is_the_log(log, folder, tmp_path / "again", 1, 5)


@pytest.mark.parametrize(
    ("slots", "more"), [((2, 3, 2), []), ((1, 2, 1), ["--operator_chaining"])], ids=["two and more", "from one"]
)
def test_a_job_restored_with_another_parallelism(
    slots: tuple[int, ...], more: list[str], cluster: FlinkCluster, log: Log, tmp_path: Path
) -> None:
    """The option, given alone, ends the chaining of operators, which with one slot names their state otherwise."""
    folder = Folder(tmp_path / "stream")
    savepoint, epoch = list[str](), None
    if 3 in slots:
        cluster.start_task_manager()
        cluster.wait_for_task_managers(3)
    for done, parallelism in enumerate(slots, 1):
        log.put([done - 1])
        how: dict[str, Any] = {"stream": {"parallelism": parallelism}, "epoch": epoch}
        with Job(cluster, log, folder, *more, *savepoint, **how) as job:
            epoch = job.epoch
            job.wait_for(lambda done=done: len(folder.windows()) == done, "the windows before it")
            log.write(0, done, rows(done, 300, seed=5))  # a part of a minute, which the savepoint then holds
            before = job.checkpoints()
            job.wait_for(lambda job=job, before=before: job.checkpoints() > before + 1, "two checkpoints")
            savepoint = [f"--savepoint_path={job.end_with_savepoint(tmp_path / 'savepoint')}"]
    if 3 in slots:
        cluster.kill_task_manager(-1)
        cluster.wait_for_task_managers(2)
    assert_once(folder)
    assert_is_the_log(log, folder, tmp_path / "again", 1, 3)
