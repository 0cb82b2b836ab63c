"""Starting a cluster: what is missing is said, and nothing stays behind."""

import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.clusters import __main__ as command
from tests.clusters.processes import Processes, StartError
from tests.patience import PATIENCE

# prints its child's number, then waits for it
PARENT = "import subprocess; child = subprocess.Popen(['sleep', '600']); print(child.pid, flush=True); child.wait()"


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def printed_number(log: Path) -> int:
    deadline = time.monotonic() + PATIENCE
    while not (text := log.read_text()).endswith("\n"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return int(text)


def test_processes_end_with_their_block_and_so_do_their_children(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        parent = processes.start("parent", [sys.executable, "-c", PARENT])
        child = printed_number(tmp_path / "parent.log")
        assert is_there(child)
    assert parent.returncode == -signal.SIGKILL
    deadline = time.monotonic() + PATIENCE
    while is_there(child):  # until init has buried it
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_processes_use_includes_their_children(tmp_path: Path) -> None:
    work = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'while True: pass'])"
    with Processes(tmp_path) as processes:
        processes.start("worker", [sys.executable, "-c", work])
        processes.start("sleeper", ["sleep", "600"])
        deadline = time.monotonic() + PATIENCE
        while processes.usage()["worker"].seconds < 0.3:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        found = processes.usage()
    assert found["sleeper"].seconds < 0.2
    assert found["worker"].memory > found["sleeper"].memory > 0


def test_a_process_that_ends_early_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        processes.start("speaker", [sys.executable, "-c", "print('no such port'); raise SystemExit(3)"])
        with pytest.raises(StartError, match=r"speaker ended with status 3:\nno such port"):
            processes.wait("the speaker", lambda: False)


def test_a_wait_has_an_end(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        processes.start("sleeper", ["sleep", "600"])
        with pytest.raises(StartError, match=r"the sleeper was not there after 0\.1 seconds"):
            processes.wait("the sleeper", lambda: False, seconds=0.1)


def test_missing_jars_and_a_missing_java_are_told_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/java")
    assert command.main(["--jars", str(tmp_path), "--", "pipelines.private_distances"]) == 2
    assert "fetch them with: make flink" in capsys.readouterr().err
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert command.main(["--jars", str(tmp_path), "--", "pipelines.private_distances"]) == 2
    assert "install a development kit" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["--"], ["--task-managers", "0", "--", "stream"], ["--task-manager=1"]])
def test_arguments_that_make_no_sense_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        command.main(arguments)
    assert "error:" in capsys.readouterr().err
