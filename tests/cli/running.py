"""The command in processes of its own.

`streamsketch` starts Python anew, as a user's shell does. `Forks` imports the command once and forks for each call:
the same `main`, exit status, signals and streams, without a second of imports each time.
"""

import contextlib
import errno
import fcntl
import functools
import gc
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

import streamsketch as ss

ROOT = Path(ss.__file__).parent.parent
COMMAND = [sys.executable, "-m", "streamsketch"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
STREAMS = ("stdin", "stdout", "stderr")
PATIENCE = 300  # seconds: against waiting for ever, on the slowest of machines


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def streamsketch(*arguments: object, cwd: Path | None = None, stdin: bytes = b"") -> Done:
    done = subprocess.run(  # noqa: S603
        [*COMMAND, *map(str, arguments)], cwd=cwd, input=stdin, capture_output=True, check=False, env=ENVIRONMENT,
        timeout=PATIENCE,
    )  # fmt: skip
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


@contextlib.contextmanager
def started(command: list[Any], cwd: Path, **pipes: int) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that ends with the block, whatever has happened."""
    with subprocess.Popen(command, cwd=cwd, env=ENVIRONMENT, **pipes) as process:  # type: ignore[call-overload] # noqa: S603
        try:
            yield process
        finally:
            process.kill()


class Forked:
    """A command that runs in a fork, with the methods and pipes of a `subprocess.Popen`."""

    def __init__(self, forks: "Forks", pid: int, pipes: dict[str, Any]) -> None:
        self._forks, self.pid = forks, pid
        self.returncode: int | None = None
        self.stdin, self.stdout, self.stderr = (pipes.get(name) for name in STREAMS)

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._forks.asked("poll", self.pid)
        return self.returncode

    def wait(self, seconds: float) -> int:
        end = time.monotonic() + seconds
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("streamsketch", seconds)
            time.sleep(0.005)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:  # until it is waited for, nobody else gets its number
            os.kill(self.pid, number)


def wait_until_read(pipe: Any) -> None:
    for _ in range(10 * PATIENCE):
        if fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)) == bytes(4):
            return
        time.sleep(0.1)
    raise AssertionError("the pipe was never read")


def open_when_read(pipe: Path, reader: subprocess.Popen[bytes] | Forked) -> BinaryIO:
    """Open a named pipe for writing once its reader has opened it, not before."""
    for _ in range(10 * PATIENCE):
        assert reader.poll() is None, "the reader has ended"
        try:
            return os.fdopen(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK), "wb", buffering=0)
        except OSError as error:
            assert error.errno == errno.ENXIO  # noqa: PT017 - nobody reads yet
            time.sleep(0.1)
    raise AssertionError(f"nobody ever opened {pipe}")


class Forks:
    """Runs commands in forks of one process that has imported them."""

    def __enter__(self) -> Self:
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, __file__, str(theirs.fileno())], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                text=True, env=ENVIRONMENT, pass_fds=[theirs.fileno()],
            )  # fmt: skip
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()
        self._socket.close()

    def asked(self, verb: str, *call: Any) -> Any:
        """Return what the process with the imports answers."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([verb, *call]) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def run(self, *arguments: object, cwd: Path | None = None, stdin: bytes = b"") -> Done:
        with tempfile.NamedTemporaryFile() as given:
            given.write(stdin)
            given.flush()
            return Done(*self.asked("run", list(map(str, arguments)), str(cwd or Path.cwd()), ENVIRONMENT, given.name))

    @contextlib.contextmanager
    def started(self, arguments: list[Any], cwd: Path, before: str = "", **pipes: Any) -> Iterator[Forked]:
        """Start a command that ends with the block, whatever has happened.

        ``before`` is Python that its process runs first; ``pipes`` are as for `subprocess.Popen`.
        """
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            ends, files = {}, []
            for number, name in enumerate(STREAMS):
                files.append(pipes.get(name) or number)
                if files[-1] == subprocess.PIPE:
                    reading, writing = os.pipe()
                    own, files[-1] = (reading, writing) if number else (writing, reading)
                    ends[name] = ours.enter_context(os.fdopen(own, "rb" if number else "wb"))
                    theirs.callback(os.close, files[-1])
            numbers = [file if isinstance(file, int) else file.fileno() for file in files]
            socket.send_fds(self._socket, [b" "], numbers)
            pid = self.asked("start", list(map(str, arguments)), str(cwd), ENVIRONMENT, before)
            theirs.close()
            forked = Forked(self, pid, ends)
            try:
                yield forked
            finally:
                forked.send_signal(signal.SIGKILL)
                forked.wait(PATIENCE)
                if "stdin" in ends:
                    with contextlib.suppress(BrokenPipeError):
                        ends["stdin"].close()

    def piped(self, *arguments: object, cwd: Path, stdin: bytes) -> Done:
        """Run a command that reads a pipe, whose data fit into it."""
        every = dict.fromkeys(STREAMS, subprocess.PIPE)
        with self.started(list(arguments), cwd, **every) as running:
            running.stdin.write(stdin)
            running.stdin.close()
            said = [pipe.read().decode() for pipe in (running.stdout, running.stderr)]
            return Done(running.wait(PATIENCE), *said)

    def succeeded(self, *arguments: object, cwd: Path | None = None, stdin: bytes = b"") -> str:
        """Return what a command prints that is to succeed."""
        done = self.run(*arguments, cwd=cwd, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refused(self, *arguments: object, cwd: Path, stdin: bytes = b"") -> str:
        """Return the sentence with which a command refuses."""
        before = sorted(cwd.rglob("*"))
        done = self.run(*arguments, cwd=cwd, stdin=stdin)
        assert done.returncode == 2, (arguments, done)
        assert "Traceback" not in done.stderr
        assert done.stdout == ""
        assert sorted(cwd.rglob("*")) == before, "a mistake writes nothing"
        said = re.sub("^warning: ε = .*\n", "", done.stderr)  # tests take little noise
        if said.startswith("error: "):
            assert said.count("\n") == 1, "one sentence, one line"
            return said
        assert said.lstrip().startswith("Usage: streamsketch")  # of the parser, in a box
        return " ".join(said.replace("│", " ").split())


def _serve() -> None:
    connection = socket.socket(fileno=int(sys.argv[1]))
    import typer  # noqa: PLC0415 - the parent's tests need not import it

    from streamsketch.cli.app import app, main  # noqa: PLC0415 - as above
    from tests import loaded  # noqa: F401, PLC0415 - what commands load when they need it

    with contextlib.redirect_stdout(io.StringIO()):  # and what the reader and the printer of arguments load
        for command in app.registered_commands:
            app([str(command.name), "--help"], standalone_mode=False)
        for arguments in (["inspect", "--system"], ["plan", "--epsilon", "1", "--squared-distance", "1e5"]):
            app(arguments, standalone_mode=False)

    typer.main.get_command = functools.cache(typer.main.get_command)  # built once for all forks
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        verb, *call = json.loads(line)
        if verb == "poll":
            (pid,) = call
            ended, status = os.waitpid(pid, os.WNOHANG)
            answer: Any = os.waitstatus_to_exitcode(status) if ended else None
        elif verb == "start":
            _, files, _, _ = socket.recv_fds(connection, 1, len(STREAMS))
            *how, before = call
            answer = _forked(main, *how, files, before)
            for file in files:
                os.close(file)
        else:
            *how, stdin = call
            with Path(stdin).open("rb") as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
                _, status = os.waitpid(_forked(main, *how, [file.fileno() for file in (given, out, err)]), 0)
                answer = [os.waitstatus_to_exitcode(status)]
                for stream in (out, err):
                    stream.seek(0)
                    answer.append(stream.read().decode())
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _forked(
    main: Callable[[], None],
    arguments: list[str],
    cwd: str,
    environment: dict[str, str],
    files: list[int],
    before: str = "",
) -> int:
    """Return the number of a process that does what the command does."""
    child = os.fork()
    if child:
        return child
    signal.alarm(PATIENCE)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    sys.argv = ["streamsketch", *arguments]
    status = 0
    try:
        exec(before, {})  # noqa: S102 - a test's
        main()
    except SystemExit as exit_:
        status = exit_.code if isinstance(exit_.code, int) else 0
    except BaseException:  # noqa: BLE001 - as the interpreter would
        traceback.print_exc()
        status = 1
    finally:
        for stream in filter(None, (sys.stdout, sys.stderr)):  # None where nobody reads on
            stream.flush()
        os._exit(status)


if __name__ == "__main__":
    _serve()
