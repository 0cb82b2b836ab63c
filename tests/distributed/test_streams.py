"""A stream on Flink outlives all that may happen to it: each key and window once, with the sums of its topic."""

import time
import uuid
from pathlib import Path

import apache_beam as beam
import pytest

import streamsketch as ss
from pipelines.flink.cluster import FlinkCluster
from pipelines.flink.kafka import Kafka
from streamsketch.beam.streams import encoded_batch
from tests.distributed.streaming import BASE, KEYS, MINUTE, Folder, Job, put, replayed, rows


@pytest.fixture
def topic(kafka: Kafka) -> str:
    name = f"topic-{uuid.uuid4().hex[:8]}"
    kafka.create(name, 2)
    return name


def assert_once(folder: Folder) -> None:
    """Check that whatever was computed again was computed alike, and is what the sink holds."""
    slots = folder.slots()
    assert folder.images().keys() >= slots.keys()
    assert {name: {image} for name, image in slots.items()} == {name: folder.images()[name] for name in slots}


def assert_is_the_topic(kafka: Kafka, topic: str, folder: Folder, scratch: Path, epoch: int, stop: int) -> None:
    """Check bytes, and the sums before the noise, against a replay of the topic in batch."""
    again = replayed(kafka, topic, folder, scratch, epoch, stop)
    slots, expected = folder.slots(), again.slots()
    windows = folder.windows()
    assert windows == again.windows()[: len(windows)]
    assert slots == {name: expected[name] for name in slots}
    exact = again.images("sketches")
    assert {name: images for name, images in folder.images("sketches").items() if name.split(" ")[0] in windows} == {
        name: images for name, images in exact.items() if name.split(" ")[0] in windows
    }


@pytest.mark.parametrize("moment", ["before a release", "after a release"])
def test_a_task_manager_killed(moment: str, cluster: FlinkCluster, kafka: Kafka, topic: str, tmp_path: Path) -> None:
    folder = Folder(tmp_path / "stream")
    put(kafka, topic, range(3))
    with Job(cluster, kafka, topic, folder) as job:
        job.wait_for(lambda: len(folder.windows()) == 3, "the first windows")
        put(kafka, topic, range(3, 5))
        if moment == "after a release":
            job.wait_for(lambda: len(folder.windows()) > 3, "another window")
        else:
            time.sleep(0.3)
        cluster.kill_task_manager(-1)
        cluster.wait_for_task_managers(1)
        cluster.start_task_manager()
        put(kafka, topic, range(5, 8))
        job.wait_for(lambda: len(folder.windows()) == 8, "the windows after it")
        epoch = job.epoch
    assert_once(folder)
    assert_is_the_topic(kafka, topic, folder, tmp_path / "again", epoch, 8)


def test_a_job_restored_from_a_savepoint_keeps_bounds_and_one_launched_anew_draws_other_noise(
    cluster: FlinkCluster, kafka: Kafka, topic: str, tmp_path: Path
) -> None:
    folder = Folder(tmp_path / "stream")
    put(kafka, topic, range(2))
    with Job(cluster, kafka, topic, folder) as job:
        job.wait_for(lambda: len(folder.windows()) == 2, "the first windows")
        with kafka.writer(topic) as writer:  # half a minute, which the savepoint then holds
            writer.write(0, (BASE + 2 * MINUTE) * 1000, encoded_batch(rows(2, 300)))
        time.sleep(3)
        savepoint = job.stop_with_savepoint(tmp_path / "savepoint")
        assert job.epoch == 1
    put(kafka, topic, range(2, 5), seed=1)  # the same units again, in the same minute
    with Job(cluster, kafka, topic, folder, f"--savepoint_path={savepoint}", epoch=1) as job:
        job.wait_for(lambda: len(folder.windows()) == 5, "the windows after it")
    assert_once(folder)
    assert_is_the_topic(kafka, topic, folder, tmp_path / "again", 1, 5)

    anew = Folder(tmp_path / "anew")
    anew.claims = folder.claims
    with Job(cluster, kafka, topic, anew) as job:
        assert job.epoch == 2
        job.wait_for(lambda: len(anew.windows()) == 5, "all windows")
        with pytest.raises(ss.InvalidInputError, match="epoch 1 of the stream test is over"):
            Job(cluster, kafka, topic, folder, f"--savepoint_path={savepoint}", epoch=1)
    exact, others = folder.images("sketches"), anew.images("sketches")
    assert exact == others, "what bounds is the same in every epoch"
    assert not set(folder.slots().values()) & set(anew.slots().values())


@pytest.mark.parametrize("is_stable", [True, False], ids=["stable input", "none"])
def test_without_stable_input_a_window_is_published_twice(
    *, is_stable: bool, cluster: FlinkCluster, kafka: Kafka, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Release, kill before the next checkpoint, let late rows arrive that the runner takes as on time, restore."""
    if not is_stable:
        monkeypatch.setattr("streamsketch.beam.streams.stable.StableParDo", beam.ParDo)
    folder = Folder(tmp_path / "stream")
    put(kafka, topic, range(2))
    how = {"stream": {"interval": 8000}, "late_by_runner": True}
    with Job(cluster, kafka, topic, folder, **how) as job:
        job.wait_for(lambda: len(folder.windows()) == 2 and job.checkpoints() > 1, "the first windows")
        before = job.checkpoints()
        job.wait_for(lambda: job.checkpoints() > before, "a checkpoint that just ended")
        put(kafka, topic, range(2, 4))
        job.wait_for(lambda: len(folder.images()) > 2 * len(KEYS), "a release")
        cluster.kill_task_manager(-1)
        with kafka.writer(topic) as writer:
            for partition in (0, 1):
                writer.write(partition, (BASE + 2 * MINUTE) * 1000, encoded_batch(rows(2, 300, seed=2)))
        cluster.wait_for_task_managers(1)
        cluster.start_task_manager()
        put(kafka, topic, range(4, 6))
        job.wait_for(lambda: len(folder.windows()) == 6, "the windows after it")
    twice = [name for name, images in folder.images().items() if len(images) > 1]
    assert bool(twice) != is_stable, "with other sums, had the sink not refused the second"
