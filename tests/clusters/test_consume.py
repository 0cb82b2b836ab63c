"""`streamsketch stream kafka` on a broker: killed anywhere it publishes the same bytes, and what breaks is said."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.clusters.conftest import jars_of_flink
from tests.clusters.kafka import PASSWORD, Kafka
from tests.jobs.topic import BASE, MINUTE, arrow, policy_in, rows
from tests.patience import PATIENCE, wait_until

ROOT = Path(__file__).resolve().parents[2]
MINUTES, PARTITIONS = 12, 3


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    with Kafka(jars_of_flink(), tmp_path_factory.mktemp("consume"), secure=True) as running:
        yield running


def fill(kafka: Kafka, topic: str, partitions: int = PARTITIONS, first: int = 0, *, create: bool = True) -> None:
    """Write minutes of rows into each partition, and a heartbeat that ends them."""
    if create:
        kafka.create(topic, partitions)
    with kafka.writer(topic) as writer:
        for minute in range(first, first + MINUTES):
            for number in range(partitions):
                for batch in (rows(minute, 50, seed=number), rows(minute, 50, seed=number + 50)):
                    writer.write(number, (BASE + MINUTE * minute) * 1000, arrow(batch))
        for number in range(partitions):
            writer.write(number, (BASE + MINUTE * (first + MINUTES) + 5) * 1000)


def begun(folder: Path, **changes: Any) -> Path:
    """Return a folder with an agreement and a job whose releases are in it."""
    folder.mkdir()
    policy = policy_in(Path("out"), **changes)
    policy.agreement.save(folder / "agreement.json")
    policy.job.save(folder / "job.json")
    return folder


def command(kafka: Kafka, folder: Path, topic: str, *more: str) -> list[str]:
    names = [f"--agreement={folder}/agreement.json", f"--job={folder}/job.json", f"--set=topic={topic}"]
    return [sys.executable, "-m", "streamsketch", "stream", "kafka", *names, f"--set=servers={kafka.servers}", *more]


def run(given: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(given, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE, check=False)  # noqa: S603


def released(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "out").iterdir())}


def wait_for(found: Callable[[], Any]) -> None:
    wait_until(found, "what the reader writes")


@pytest.mark.parametrize("kills", [5, pytest.param(50, marks=pytest.mark.long)])
def test_a_reader_that_is_killed_publishes_the_same_bytes(secure: Kafka, tmp_path: Path, kills: int) -> None:
    topic, rng = f"killed{kills}", np.random.default_rng(kills)
    secure.create(topic, PARTITIONS)
    first = run(command(secure, begun(tmp_path / "whole"), topic, "--once"))
    assert first.returncode == 0, first.stderr
    folder = shutil.copytree(tmp_path / "whole", tmp_path / "killed")
    fill(secure, topic, create=False)
    assert run(command(secure, tmp_path / "whole", topic, "--once")).returncode == 0
    started = time.monotonic()
    assert run(command(secure, shutil.copytree(folder, tmp_path / "again"), topic, "--once")).returncode == 0
    longest = time.monotonic() - started
    for _ in range(kills):
        process = subprocess.Popen(  # noqa: S603 - our own command
            command(secure, folder, topic, "--set=every=0.05"),
            cwd=ROOT,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        time.sleep(longest * rng.uniform(0.2, 1))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert run(command(secure, folder, topic, "--once")).returncode == 0
    assert len(released(folder)) == MINUTES
    assert released(folder) == released(tmp_path / "whole") == released(tmp_path / "again")


def test_a_dry_run_leaves_no_trace_and_counts_what_is_read(secure: Kafka, tmp_path: Path) -> None:
    fill(secure, "tried")
    folder = begun(tmp_path / "tried")
    before = sorted(folder.rglob("*"))
    done = run(command(secure, folder, "tried", "--set=dry_run=yes", "--json"))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert sorted(folder.rglob("*")) == before
    assert found["rows"]["read"] == 2 * 50 * MINUTES * PARTITIONS
    assert [(one["rows"], one["late"], one["is_over"]) for one in found["windows"]] == [
        (100 * PARTITIONS, 0, True)
    ] * MINUTES
    other = run(command(secure, folder, "tried", "--once", f"--set=summary={folder}/s.json"))
    assert other.returncode == 0, other.stderr
    summary = json.loads((folder / "s.json").read_text())
    assert summary["rows_of_other_keys"] == found["rows"]["other_keys"]


def test_a_signal_saves_and_ends(secure: Kafka, tmp_path: Path) -> None:
    fill(secure, "signalled")
    folder = begun(tmp_path / "s", stream="sales")
    given = command(secure, folder, "signalled", "--set=log=json", f"--set=client_settings={secure.client_settings}")
    given = [f"--set=servers={secure.secure}" if one.startswith("--set=servers") else one for one in given]
    with (folder / "log").open("wb") as log, subprocess.Popen(given, cwd=ROOT, stderr=log) as process:  # noqa: S603
        wait_for(lambda: len(list((folder / "out").rglob("*.sketch"))) == 2 * MINUTES)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 128 + signal.SIGTERM
    lines = (folder / "log").read_text().splitlines()
    events = [json.loads(line)["event"] for line in lines if line.startswith("{")]
    assert "released" in events
    assert json.loads(lines[-1])["state"] == "STOPPED"
    assert PASSWORD not in "".join(lines)


def test_an_added_partition_is_read(secure: Kafka, tmp_path: Path) -> None:
    fill(secure, "grown", 1)
    folder = begun(tmp_path / "grown")
    given = command(secure, folder, "grown")
    with (folder / "log").open("wb") as log, subprocess.Popen(given, cwd=ROOT, stderr=log) as process:  # noqa: S603
        wait_for(lambda: len(released(folder)) == MINUTES if (folder / "out").exists() else False)
        secure.grow("grown", 2)
        fill(secure, "grown", 2, first=MINUTES, create=False)
        wait_for(lambda: len(released(folder)) == 2 * MINUTES)
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)
    assert "partition 1 was added" in (folder / "log").read_text()
    state = run([*command(secure, folder, "grown", "--once", f"--set=summary={folder}/s.json")])
    assert state.returncode == 0, state.stderr
    summary = json.loads((folder / "s.json").read_text())
    assert (summary["rows_late"], summary["rows_read"]) == (0, 100 * MINUTES + 200 * MINUTES)


def test_a_broker_that_is_killed_is_waited_for(secure: Kafka, tmp_path: Path) -> None:
    fill(secure, "restarted")
    folder = begun(tmp_path / "restarted")
    log = folder / "log"
    given = command(secure, folder, "restarted")
    with log.open("wb") as said, subprocess.Popen(given, cwd=ROOT, stderr=said) as process:  # noqa: S603
        wait_for(lambda: "newest=" in log.read_text())
        secure.kill_broker()
        wait_for(lambda: " unreachable " in log.read_text())
        secure.start_broker()
        wait_for(lambda: " reached " in log.read_text())
        fill(secure, "restarted", first=MINUTES, create=False)
        wait_for(lambda: len(released(folder)) == 2 * MINUTES)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 128 + signal.SIGTERM
    # the client may not have tried to connect again when it is found unreachable
    assert any(cause in log.read_text() for cause in ("no broker answers", "Connection refused"))


def test_what_retention_removed_is_refused(secure: Kafka, tmp_path: Path) -> None:
    folder = begun(tmp_path / "lost")
    secure.create("lost", 1)
    assert run(command(secure, folder, "lost", "--once")).returncode == 0
    fill(secure, "lost", 1, create=False)
    secure.delete_records("lost", 0, 10)
    refused = run(command(secure, folder, "lost", "--once"))
    assert refused.returncode == 2
    assert "partition 0 of lost begins at offset 10, but 0 is to be read next" in refused.stderr
    accepted = run(command(secure, folder, "lost", "--once", "--set=accept_loss=yes"))
    assert accepted.returncode == 0, accepted.stderr
    assert len(released(folder)) == MINUTES


def test_a_wrong_password_is_said(secure: Kafka, tmp_path: Path) -> None:
    folder, settings = begun(tmp_path / "wrong"), tmp_path / "client.properties"
    settings.touch(mode=0o600)
    settings.write_text(secure.client_settings.read_text().replace(PASSWORD, "wrong"))
    given = command(secure, folder, "none", "--once", f"--set=client_settings={settings}")
    answer = run([f"--set=servers={secure.secure}" if one.startswith("--set=servers") else one for one in given])
    assert answer.returncode == 2
    assert "SASL authentication error: Authentication failed" in answer.stderr
