"""A standby waits for the process that has the state, and goes on where that ends: with the same bytes."""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import streamsketch as ss
from streamsketch.core.files import exclusive
from tests.cli.running import ENVIRONMENT
from tests.jobs.kinesis import ARN, DataStream, served
from tests.jobs.running import command
from tests.jobs.topic import as_json, policy_in, released, rows
from tests.patience import PATIENCE, wait_until

pytest.importorskip("boto3")

ROOT = Path(__file__).resolve().parents[2]
LOGIN = {"AWS_ACCESS_KEY_ID": "somebody", "AWS_SECRET_ACCESS_KEY": "somebody"}


def options_in(folder: Path, **fields: object) -> list[str]:
    """Return the options of a job; its state is ``job.raw-stream`` in the folder."""
    policy_in(folder / "out")[0].save(folder / "agreement.json")
    job = {"job": 1, "folder": str(folder / "out"), "delay": 5, "topic": ARN, "format": "json", "log": "json"}
    (folder / "job.json").write_text(json.dumps(job | {"every": 0.1} | fields))
    (folder / "out").mkdir(exist_ok=True)
    return [f"--agreement={folder / 'agreement.json'}", f"--job={folder / 'job.json'}"]


@contextmanager
def running(folder: Path, address: str, name: str, **fields: object) -> Iterator[subprocess.Popen[bytes]]:
    """Run the command, whose log is a file of this name; it is killed at the end."""
    options = options_in(folder, **fields)
    environment = ENVIRONMENT | LOGIN | {"AWS_ENDPOINT_URL_KINESIS": address}
    with (folder / name).open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-m", "streamsketch", "stream", "kafka", *options],
            stderr=log,
            stdout=log,
            cwd=ROOT,
            env=environment,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def wait_for(process: "subprocess.Popen[bytes]", holds: Callable[[], bool], what: str) -> None:
    """Wait until something is so, as long as a process runs."""
    wait_until(lambda: holds() or process.poll() is not None, what)
    assert holds(), f"the process ended before {what}"


def events(folder: Path, name: str) -> list[str]:
    """Return the events in a log."""
    lines = (folder / name).read_text().splitlines()
    return [json.loads(line)["event"] for line in lines if line.startswith("{") and line.endswith("}")]


def filled(minutes: list[int]) -> DataStream:
    stream = DataStream(1)
    stream.now = time.time()
    fill(stream, minutes)
    return stream


def fill(stream: DataStream, minutes: list[int]) -> None:
    for minute in minutes:
        stream.write(0, *as_json(rows(minute, 8)))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_standby_continues_with_the_same_bytes(tmp_path: Path, how: signal.Signals) -> None:
    (tmp_path / "begun").mkdir()
    with served(filled([])) as address, running(tmp_path / "begun", address, "first") as first:
        wait_for(first, (tmp_path / "begun" / "job.raw-stream").exists, "a state")
        first.terminate()
        assert first.wait(PATIENCE) == 128 + signal.SIGTERM
    whole, two = (shutil.copytree(tmp_path / "begun", tmp_path / name) for name in ("whole", "two"))
    with served(filled([0, 1, 2, 4])) as address, running(whole, address, "log") as alone:
        wait_for(alone, lambda: len(released(whole)) == 4, "all windows")
    stream = filled([0, 1])
    with served(stream) as address, running(two, address, "first") as first:
        wait_for(first, lambda: len(released(two)) == 1, "the first window")
        with running(two, address, "second", standby=True) as second:
            wait_for(second, lambda: "standby" in events(two, "second"), "a standby")
            first.send_signal(how)
            first.wait(PATIENCE)
            fill(stream, [2, 4])
            wait_for(second, lambda: len(released(two)) == 4, "the other windows")
            assert events(two, "second")[:2] == ["standby", "took_over"]
            second.terminate()
            assert second.wait(PATIENCE) == 128 + signal.SIGTERM
    assert released(two) == released(whole)


def test_a_standby_that_waits_ends_by_a_signal_and_writes_nothing(tmp_path: Path) -> None:
    with exclusive(tmp_path / "job.raw-stream"), running(tmp_path, "http://127.0.0.1:1", "log", standby=True) as waits:
        wait_for(waits, lambda: "standby" in events(tmp_path, "log"), "a standby")
        waits.terminate()
        assert waits.wait(PATIENCE) == 128 + signal.SIGTERM
    assert not (tmp_path / "job.raw-stream").exists()
    assert events(tmp_path, "log") == ["standby"]


def test_without_standby_a_second_process_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in LOGIN.items():
        monkeypatch.setenv(name, value)
    with exclusive(tmp_path / "job.raw-stream"), pytest.raises(ss.InvalidInputError, match="in use by another process"):
        command("stream", "kafka", *options_in(tmp_path, log="text"), "--once")
    assert not list((tmp_path / "out").iterdir())
