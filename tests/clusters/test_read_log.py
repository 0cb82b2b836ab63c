"""The clock of a partition goes on from a checkpoint as if there had been none."""

import os
import subprocess
from pathlib import Path

from tests.clusters.kafka import Kafka

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
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603
    assert answer.stdout == "295000\n", answer.stderr
