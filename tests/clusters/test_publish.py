"""Each slot is in the topic once, whatever happens to its publisher."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from streamsketch.streams.job import Job
from tests.clusters.kafka import Kafka
from tests.clusters.processes import Processes
from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


def fill(folder: Path, windows: range) -> None:
    for window in windows:
        place = folder / "test" / f"2013-01-01T{window:02}-00-00Z"
        place.mkdir(parents=True)
        for key in ("AA", "UA", "a%2Fb.c"):
            hidden = place / f".{key}"
            hidden.write_bytes(os.urandom(3000))
            hidden.rename(place / f"{key}.sketch")


def command(kafka: Kafka, folder: Path, topic: str, *more: str) -> list[str]:
    place = [policy_in(folder), f"--set=servers={kafka.servers}", f"--set=releases_topic={topic}"]
    return [sys.executable, "-m", "streamsketch", "stream", "publish", *place, "--set=check_every=0.05", *more]


def policy_in(folder: Path) -> str:
    """Write a job whose releases are in a folder, and return the option that names it."""
    path = folder.with_suffix(".json")
    Job(folder=str(folder), delay=0, stream="test").save(path)
    return f"--job={path}"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE, check=False)  # noqa: S603


def held(folder: Path) -> dict[str, bytes]:
    found = (folder / "test").rglob("*.sketch")
    return {f"{path.parent.name}/{path.name.removesuffix('.sketch')}": path.read_bytes() for path in found}


def published(kafka: Kafka, topic: str) -> list[tuple[str, bytes]]:
    return sorted((record.key.decode(), record.content) for record in kafka.read(topic))


def test_publishers_that_are_killed_and_replaced_publish_each_slot_once(kafka: Kafka, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with Processes(tmp_path / "logs") as processes:
        for round_ in range(6):
            fill(folder, range(3 * round_, 3 * round_ + 3))
            process = processes.start(f"publisher {round_}", command(kafka, folder, "killed"))
            time.sleep(0.4 + 0.3 * round_)  # from its first steps to its first transactions
            if round_ != 4:  # this one lives on beside the next, which ends it
                processes.kill(process)
        answer = run(*command(kafka, folder, "killed", "--once"))
        assert answer.returncode == 0, answer.stderr
    assert published(kafka, "killed") == sorted(held(folder).items())
    assert len(held(folder)) == 6 * 3 * 3


def test_a_publisher_that_was_replaced_ends(kafka: Kafka, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    fill(folder, range(1))
    with Processes(tmp_path / "logs") as processes:
        first = processes.start("first", command(kafka, folder, "replaced"))
        processes.wait("the first slots", lambda: "published 3" in (tmp_path / "logs" / "first.log").read_text())
        assert run(*command(kafka, folder, "replaced", "--once")).returncode == 0
        fill(folder, range(1, 2))
        assert first.wait(PATIENCE) == 2
        assert "fenced" in (tmp_path / "logs" / "first.log").read_text()
    assert len(published(kafka, "replaced")) == 3


def test_a_topic_that_forgets_is_refused(kafka: Kafka, tmp_path: Path) -> None:
    kafka.create("forgets", 1)
    answer = run(*command(kafka, tmp_path, "forgets", "--once"))
    assert answer.returncode == 2
    assert "the topic forgets has cleanup.policy=delete" in answer.stderr


@pytest.mark.usefixtures("kafka")
def test_a_broker_that_is_not_there_ends_in_a_sentence(tmp_path: Path) -> None:
    place = [policy_in(tmp_path / "out"), "--set=servers=127.0.0.1:1", "--set=releases_topic=none", "--once"]
    answer = run(sys.executable, "-m", "streamsketch", "stream", "publish", *place)
    assert answer.returncode == 2
    assert any(line.startswith("error: ") for line in answer.stderr.splitlines())
