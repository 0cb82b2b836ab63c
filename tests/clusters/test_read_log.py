"""The clock of a partition goes on from a checkpoint as if there had been none; lost records are noticed."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.clusters.kafka import Kafka
from tests.patience import PATIENCE

PROGRAM = Path(__file__).with_name("Marks.java")


def test_a_record_behind_a_checkpoint_is_judged_by_all_that_was_read_before_it(kafka: Kafka) -> None:
    """Beam's own source keeps the watermark that was asked for last, which may be older than what it has read.

    A record that is more than 10,000 windows ahead moves nothing, before the checkpoint as after it.
    """
    kafka.create("marks", 1)
    with kafka.writer("marks") as writer:
        for seconds, content in ((0, b""), (300, b""), (1_000_000, b""), (7, b"late")):
            writer.write(0, seconds * 1000, content)
    command = ["java", "-cp", f"{os.environ['STREAMSKETCH_FLINK_JARS']}/*", str(PROGRAM), kafka.servers, "marks", "3"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)  # noqa: S603
    assert answer.stdout == "295000\n", answer.stderr


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        ("beginning", "partition 0 of lost-beginning begins at offset 4, but 3 is to be read next"),
        ("end", "partition 0 of lost-end ends at offset 1, but was read to 3"),
    ],
)
def test_a_log_that_lost_records_is_not_read_on_from_a_checkpoint(kafka: Kafka, lost: str, said: str) -> None:
    """Kafka's clients would begin again at the first record that is there, and count all of them twice."""
    topic = f"lost-{lost}"
    kafka.create(topic, 1)
    with kafka.writer(topic) as writer:
        for seconds in range(5):
            writer.write(0, seconds * 1000)  # alone: others are read together
    command = ["java", "-cp", f"{os.environ['STREAMSKETCH_FLINK_JARS']}/*", str(PROGRAM), kafka.servers, topic]
    with subprocess.Popen(  # noqa: S603
        [*command, "3", "", "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "made\n"
            if lost == "beginning":
                kafka.delete_records(topic, 0, 4)
            else:
                kafka.replace(topic, 1)
                with kafka.writer(topic) as writer:
                    writer.write(0, 0)
            _, errors = process.communicate("\n", timeout=PATIENCE)
        finally:
            process.kill()
    assert process.returncode == 1
    assert said in errors
