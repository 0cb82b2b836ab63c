"""A standby waits for the process that has the state, and goes on where that ends: with the same bytes."""

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TypeAlias
from unittest import mock

import pytest

import streamsketch as ss
from streamsketch.core.files import exclusive
from tests.cli.running import ENVIRONMENT, Forked, Forks
from tests.jobs.kinesis import ARN, DataStream, served
from tests.jobs.running import command
from tests.jobs.topic import as_json, policy_in, released, rows
from tests.patience import PATIENCE, wait_until

pytest.importorskip("boto3")

Running: TypeAlias = Callable[..., AbstractContextManager[Forked]]


def login(address: str) -> dict[str, str]:
    """Return the environment in which a command asks a server of this machine."""
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    return dict.fromkeys(names, "somebody") | {"AWS_ENDPOINT_URL_KINESIS": address}


def options_in(folder: Path, **fields: object) -> list[str]:
    """Return the options of a job; its state is ``job.raw-stream`` in the folder."""
    policy_in(folder / "out")[0].save(folder / "agreement.json")
    job = {"job": 1, "folder": str(folder / "out"), "delay": 5, "topic": ARN, "format": "json", "log": "json"}
    (folder / "job.json").write_text(json.dumps(job | {"every": 0.1} | fields))
    (folder / "out").mkdir(exist_ok=True)
    return [f"--agreement={folder / 'agreement.json'}", f"--job={folder / 'job.json'}"]


@pytest.fixture(scope="module")
def running(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Running:
    """Return a function that runs the command, whose log is a file of this name; it is killed at the end."""

    @contextmanager
    def run(folder: Path, address: str, name: str, **fields: object) -> Iterator[Forked]:
        options = options_in(folder, **fields)
        with (folder / name).open("wb") as log, ExitStack() as stack:
            with mock.patch.dict(ENVIRONMENT, login(address)):
                started = forks.started(["stream", "kafka", *options], folder, stdout=log, stderr=log)
                process = stack.enter_context(started)
            yield process

    folder = tmp_path_factory.mktemp("loaded")
    with exclusive(folder / "job.raw-stream"):  # so that it ends once all is loaded
        forks.warm("stream", "kafka", *options_in(folder, log="text"), cwd=folder)
    return run


def wait_for(process: Forked, holds: Callable[[], bool], what: str) -> None:
    """Wait until something is so, as long as a process runs."""
    wait_until(lambda: holds() or process.poll() is not None, what)
    assert holds(), f"the process ended before {what}"


def events(folder: Path, name: str) -> list[str]:
    """Return the events in a log."""
    lines = (folder / name).read_text().splitlines()
    return [json.loads(line)["event"] for line in lines if line.startswith("{") and line.endswith("}")]


def filled(minutes: list[int]) -> DataStream:
    stream = DataStream(1)
    stream.now, stream.most = time.time(), 1000  # a reader waits between two answers
    fill(stream, minutes)
    return stream


def fill(stream: DataStream, minutes: list[int]) -> None:
    for minute in minutes:
        stream.write(0, *as_json(rows(minute, 8)))


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a state in which nothing was read: its secrets are those of all copies."""
    folder = tmp_path_factory.mktemp("begun")
    read_alone(folder, filled([]))
    return folder


@pytest.fixture(scope="module")
def whole(begun: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return what one process releases."""
    folder = shutil.copytree(begun, tmp_path_factory.mktemp("whole") / "one")
    read_alone(folder, filled([0, 1, 2, 4]))
    return released(folder)


def read_alone(folder: Path, stream: DataStream) -> None:
    """Read a data stream to its end, in this process."""
    with served(stream) as address, mock.patch.dict(os.environ, login(address)):
        assert command("stream", "kafka", *options_in(folder, log="text"), "--once", "--json") == 0


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_standby_continues_with_the_same_bytes(
    begun: Path, whole: dict[str, bytes], running: Running, tmp_path: Path, how: signal.Signals
) -> None:
    two, stream = shutil.copytree(begun, tmp_path / "two"), filled([0, 1])
    with served(stream) as address, running(two, address, "first") as first:
        wait_for(first, lambda: len(released(two)) == 1, "the first window")
        with running(two, address, "second", standby=True) as second:
            wait_for(second, lambda: "standby" in events(two, "second"), "a standby")
            first.send_signal(how)
            first.wait(PATIENCE)
            fill(stream, [2, 4])
            wait_for(second, lambda: len(released(two)) == 4, "the other windows")
            assert events(two, "second")[:2] == ["standby", "took_over"]
            second.send_signal(signal.SIGTERM)
            assert second.wait(PATIENCE) == 128 + signal.SIGTERM
    assert released(two) == whole


def test_a_standby_that_waits_ends_by_a_signal_and_writes_nothing(running: Running, tmp_path: Path) -> None:
    with exclusive(tmp_path / "job.raw-stream"), running(tmp_path, "http://127.0.0.1:1", "log", standby=True) as waits:
        wait_for(waits, lambda: "standby" in events(tmp_path, "log"), "a standby")
        waits.send_signal(signal.SIGTERM)
        assert waits.wait(PATIENCE) == 128 + signal.SIGTERM
    assert not (tmp_path / "job.raw-stream").exists()
    assert events(tmp_path, "log") == ["standby"]


def test_without_standby_a_second_process_is_refused(tmp_path: Path) -> None:
    with exclusive(tmp_path / "job.raw-stream"), pytest.raises(ss.InvalidInputError, match="in use by another process"):
        command("stream", "kafka", *options_in(tmp_path, log="text"), "--once")
    assert not list((tmp_path / "out").iterdir())
