"""A broker that asks for TLS and a password is reached by a file of client settings."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from streamsketch.jobs import PartitionLag, SilentPartitions, client_settings, group_of
from streamsketch.jobs.brokers import Brokers
from tests.clusters.conftest import jars_of_flink
from tests.clusters.kafka import PASSWORD, Kafka
from tests.clusters.test_publish import ROOT, fill, held, policy_in, published
from tests.patience import PATIENCE


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    with Kafka(jars_of_flink(), tmp_path_factory.mktemp("secure"), secure=True) as running:
        yield running


def publish(kafka: Kafka, folder: Path, topic: str, settings: Path | None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "streamsketch", "stream", "publish", policy_in(folder), "--once"]
    command += [f"--set=servers={kafka.secure}", f"--set=releases_topic={topic}"]
    command += [] if settings is None else [f"--set=client_settings={settings}"]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE, check=False)  # noqa: S603


def test_releases_are_published_by_tls_with_a_password(secure: Kafka, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    fill(folder, range(2))
    answer = publish(secure, folder, "releases", secure.client_settings)
    assert answer.returncode == 0, answer.stderr
    assert published(secure, "releases") == sorted(held(folder).items())


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        (PASSWORD, "wrong", "SASL authentication error: Authentication failed"),
        ("ssl.ca.location", "#", "certificate verify failed"),
        ("sasl.mechanism=PLAIN", "sasl.mechanism=SCRAM-SHA-256", "broker's supported mechanisms: PLAIN"),
        ("SASL_SSL", "PLAINTEXT", "whether the broker needs TLS or a login"),
    ],
)
def test_what_is_wrong_with_a_connection_is_said(
    secure: Kafka, tmp_path: Path, before: str, after: str, problem: str
) -> None:
    text, path = secure.client_settings.read_text(), tmp_path / "changed.properties"
    assert before in text
    path.touch(mode=0o600)
    path.write_text(text.replace(before, after))
    ((wrong,), numbers) = SilentPartitions(str(secure.secure), "releases", 60, client_settings(path)).look(0, 0)
    assert problem in wrong
    assert PASSWORD not in wrong
    assert numbers == {}


def test_lag_of_each_partition_is_seen(secure: Kafka) -> None:
    settings = client_settings(secure.client_settings)
    secure.create("lagging", 2)
    with secure.writer("lagging") as writer:
        for _ in range(5):
            writer.write(1, 1_700_000_000_000, b"{}")
    lag = PartitionLag(str(secure.secure), "lagging", group_of("flights"), settings)
    assert lag.look(0, 0) == ([], {}), "nothing was read yet"
    reader = Brokers(str(secure.secure), settings).consumer(group_id=group_of("flights"))
    reader.commit(offsets=[TopicPartition("lagging", number, 2 * number) for number in (0, 1)], asynchronous=False)
    reader.close()
    assert lag.look(0, 0) == ([], {"partition_lag_records": {0: 0, 1: 3}})


def test_the_connector_reads_the_same_settings(secure: Kafka) -> None:
    """Java has other names for them, and none of its own file."""
    secure.create("java", 1)
    with secure.writer("java") as writer:
        for seconds in (0, 300, 7):
            writer.write(0, seconds * 1000)
    command = ["java", "-cp", f"{jars_of_flink()}/*", str(Path(__file__).with_name("Marks.java"))]
    command += [str(secure.secure), "java", "2", str(secure.client_settings)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)  # noqa: S603
    assert answer.stdout == "295000\n", answer.stderr
