"""Processes that live as long as a ``with`` block, and their children with them."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from tests.patience import PATIENCE

STOPPING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}  # what ends this process, and should end all it started
_TICKS, _PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
_ROOT = Path(__file__).resolve().parents[2]


class StartError(RuntimeError):
    """A process does not come up."""


class Usage(NamedTuple):
    """What a process and its children use: processor time in seconds, resident memory in bytes."""

    seconds: float
    memory: int


class Processes:
    """A context manager of processes: all are killed on exit, with whatever they started.

    Parameters
    ----------
    folder
        A folder for their logs.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill(*self._running.values())

    def start(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        """Start a command, which finds this project's Python packages; what it prints goes to ``NAME.log``."""
        path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
        held = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)  # what has started must be in the list
        try:
            with self._log(name).open("wb") as output:
                # a session of its own: Ctrl-C reaches only us, and its children can be killed with it
                process = self._running[name] = subprocess.Popen(  # noqa: S603 - our own commands
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, "PYTHONPATH": path},
                    start_new_session=True,
                )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
        return process

    def kill(self, *processes: subprocess.Popen[bytes]) -> None:
        """Kill processes at once, with their children, and wait until they are gone."""
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # each leads its group
        for process in processes:
            process.wait()
        self._running = {name: process for name, process in self._running.items() if process not in processes}

    def kill_grandchildren(self, process: subprocess.Popen[bytes]) -> int:
        """Kill the processes that a process's children started, at once; return how many there were."""
        parents = _parents()
        found = [pid for pid, parent in parents.items() if parents.get(parent) == process.pid]
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return len(found)

    def usage(self) -> dict[str, Usage]:
        """Return what each command uses, with those of its children that run."""
        sessions = {process.pid: name for name, process in self._running.items()}  # each leads one
        found = dict.fromkeys(self._running, Usage(0.0, 0))
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):  # it ended meanwhile
                fields = path.read_text().rpartition(")")[2].split()
                if name := sessions.get(int(fields[3])):
                    ticks, pages = int(fields[11]) + int(fields[12]), int(fields[21])
                    before = found[name]
                    seconds, memory = before.seconds + ticks / _TICKS, before.memory + pages * _PAGE
                    found[name] = Usage(seconds, memory)
        return found

    def wait(self, what: str, is_there: Callable[[], bool], *, seconds: float = PATIENCE) -> None:
        """Wait until something is there; raise if a process ended or the time is over."""
        deadline = time.monotonic() + seconds
        while not is_there():
            for name, process in self._running.items():
                if process.poll() is not None:
                    raise StartError(f"{name} ended with status {process.returncode}:\n{self._tail(name)}")
            if time.monotonic() > deadline:
                logs = "\n".join(f"{name}:\n{self._tail(name)}" for name in self._running)
                raise StartError(f"{what} was not there after {seconds:g} seconds:\n{logs}")
            time.sleep(0.1)

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _tail(self, name: str) -> str:
        return "\n".join(self._log(name).read_text(errors="replace").splitlines()[-15:])


def _parents() -> dict[int, int]:
    """Return the parent of each process of this machine."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            found[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    return found


def free_ports(count: int) -> list[int]:
    """Return ports of 127.0.0.1 on which nothing listens now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


def listens(port: int) -> bool:
    """Return whether something accepts connections at this port of 127.0.0.1."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
