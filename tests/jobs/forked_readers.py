"""Processes of `streamsketch.jobs.Readers` as forks of the tests, which have loaded what a new one would load."""

import contextlib
import os
import signal
import subprocess
import warnings
from collections.abc import Iterator
from unittest import mock

from streamsketch.jobs import readers


class Forked:
    """A reader that runs in a fork, with the methods and pipes of a `subprocess.Popen` that `Readers` uses."""

    def __init__(self, command: list[str], **_: object) -> None:
        assert command[1:] == ["-m", readers.__name__]
        task, answer = os.pipe(), os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12, of any fork beside a thread
            self.pid = os.fork()
        if not self.pid:
            with contextlib.suppress(BaseException):
                os.setsid()
                os.dup2(task[0], 0)
                os.dup2(answer[1], 1)
                os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # among them pipes of other readers
                readers.main()
            os._exit(0)
        os.close(task[0])
        os.close(answer[1])
        self.stdin, self.stdout = os.fdopen(task[1], "wb"), os.fdopen(answer[0], "rb")
        self._is_over = False

    def kill(self) -> None:
        if not self._is_over:  # until it is waited for, nobody else gets its number
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> None:
        os.waitpid(self.pid, 0)
        self._is_over = True


@contextlib.contextmanager
def forked_readers() -> Iterator[None]:
    """Let `Readers` that begin meanwhile fork."""
    with mock.patch.object(subprocess, "Popen", Forked):
        yield
