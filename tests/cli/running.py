"""The command, in this process and in others: the same `main`, arguments, exit status and streams.

`streamsketch` starts Python anew, as a user's shell does. `Forks.run` calls `main` in the process of the tests.
`Forks.started` forks a process that has imported the command: for tests of signals, of pipes and of several at once.
"""

import contextlib
import copy
import errno
import fcntl
import functools
import gc
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
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self
from unittest import mock

import typer

import streamsketch as ss
from streamsketch.cli import app as command
from streamsketch.cli.app import main
from tests.cli.agreeing import agreeing, by_agreement
from tests.noise import fixed_noise
from tests.patience import PATIENCE, wait_until
from tests.powered import stay_powered

ROOT = Path(ss.__file__).parent.parent
COMMAND = [sys.executable, "-m", "streamsketch"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
STREAMS = ("stdin", "stdout", "stderr")
command.announce_compiling = lambda _: contextlib.nullcontext()  # type: ignore[assignment]


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
    wait_until(lambda: fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)) == bytes(4), "a reader of the pipe")


def wait_until_there(path: Path) -> None:
    wait_until(path.exists, str(path))


def open_when_read(pipe: Path, reader: subprocess.Popen[bytes] | Forked) -> BinaryIO:
    """Open a named pipe for writing once its reader has opened it, not before."""
    for _ in range(100 * PATIENCE):
        assert reader.poll() is None, "the reader has ended"
        try:
            return os.fdopen(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK), "wb", buffering=0)
        except OSError as error:
            assert error.errno == errno.ENXIO  # noqa: PT017 - nobody reads yet
            time.sleep(0.01)
    raise AssertionError(f"nobody ever opened {pipe}")


class Forks:
    """Runs commands: where a test is not about processes, in this one."""

    _process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.communicate()
            self._socket.close()

    def _start(self) -> subprocess.Popen[str]:
        """Start the process from which others fork, at the first of them."""
        self._socket, theirs = socket.socketpair()
        with theirs:
            return subprocess.Popen(  # noqa: S603
                [sys.executable, __file__, str(theirs.fileno())], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                text=True, env=ENVIRONMENT, pass_fds=[theirs.fileno()],
            )  # fmt: skip

    def asked(self, verb: str, *call: Any) -> Any:
        """Return what the process with the imports answers."""
        self._process = self._process or self._start()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([verb, *call]) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def warm(self, *arguments: object, cwd: Path) -> None:
        """Run a command where others are forked, which then find loaded what it loads."""
        self.asked("warm", list(map(str, arguments)), str(cwd))

    def run(self, *arguments: object, cwd: Path | None = None, stdin: bytes = b"", encoding: str = "utf-8") -> Done:
        """Run a command to its end, in this process; its streams have an encoding."""
        folder = cwd or Path.cwd()
        return run_command(_call_of(arguments, folder), folder, stdin, encoding)

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
            self._process = self._process or self._start()
            socket.send_fds(self._socket, [b" "], numbers)
            noise = os.urandom(16).hex()  # of the test's own
            pid = self.asked("start", _call_of(arguments, cwd), str(cwd), ENVIRONMENT, before, noise)
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
        call = _call_of(arguments, cwd)
        before = sorted(cwd.rglob("*"))
        done = self.run(*call, cwd=cwd, stdin=stdin)
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


def _call_of(arguments: Sequence[object], folder: Path) -> list[str]:
    """Return a call with an agreement of what it states; the call that makes the agreement if that one is refused."""
    calls = agreeing(arguments, folder)
    if calls is None:
        return by_agreement(arguments, folder)
    agree, release = calls
    return release if run_command(agree, folder).returncode == 0 else agree


def _serve() -> None:
    connection = socket.socket(fileno=int(sys.argv[1]))
    from tests import loaded  # noqa: F401, PLC0415 - what commands load when they need it

    stay_powered()
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        verb, *call = json.loads(line)
        if verb == "poll":
            (pid,) = call
            ended, status = os.waitpid(pid, os.WNOHANG)
            answer: Any = os.waitstatus_to_exitcode(status) if ended else None
        elif verb == "warm":
            arguments, cwd = call
            answer = run_command(arguments, Path(cwd))
            gc.freeze()
        else:
            _, files, _, _ = socket.recv_fds(connection, 1, len(STREAMS))
            *how, before, noise = call
            answer = _forked(*how, before, noise, files)
            for file in files:
                os.close(file)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _forked(
    arguments: list[str], cwd: str, environment: dict[str, str], before: str, noise: str, files: list[int]
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

    def all_of_it() -> None:
        with fixed_noise(noise):
            exec(before, {})  # noqa: S102 - a test's
            main()

    os._exit(_status_of(all_of_it))


def _status_of(main: Callable[[], None]) -> int:
    """Return the status with which the interpreter would end."""
    try:
        main()
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else 0
    except BaseException:  # noqa: BLE001 - as the interpreter would
        traceback.print_exc()
        return 1
    else:
        return 0
    finally:
        for stream in filter(None, (sys.stdout, sys.stderr)):  # None where nobody reads on
            stream.flush()


def run_command(arguments: list[str], cwd: Path, stdin: bytes = b"", encoding: str = "utf-8") -> Done:
    """Run a command in this process, which stays as it is."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin)
        given.seek(0)
        with _as_a_process(arguments, cwd, (given, out, err), encoding):
            status = _status_of(functools.partial(main, sys.exit))
        said = []
        for stream in (out, err):
            stream.seek(0)
            said.append(stream.read().decode(encoding))
        return Done(status, *said)


@contextlib.contextmanager
def _as_a_process(
    arguments: list[str], cwd: Path, files: tuple[Any, Any, Any], encoding: str = "utf-8"
) -> Iterator[None]:
    """Give this process the arguments, folder, environment, streams, signals and warnings of a new one, for a while."""
    with contextlib.ExitStack() as own:
        for number in (signal.SIGINT, signal.SIGTERM):
            own.callback(signal.signal, number, signal.getsignal(number))
        own.enter_context(contextlib.chdir(cwd))
        own.enter_context(mock.patch.dict(os.environ, ENVIRONMENT, clear=True))
        own.enter_context(mock.patch.object(sys, "argv", ["streamsketch", *arguments]))
        for number, (name, file) in enumerate(zip(STREAMS, files, strict=True)):
            before = os.dup(number)
            own.callback(os.close, before)
            own.callback(os.dup2, before, number)
            os.dup2(file.fileno(), number)
            stream = open(  # noqa: SIM115 - it ends with the process
                number, "w" if number else "r", encoding=encoding, errors="backslashreplace" if number == 2 else None,
                closefd=False,
            )  # fmt: skip
            own.callback(stream.close)
            own.enter_context(mock.patch.object(sys, name, stream))
        own.enter_context(warnings.catch_warnings())
        warnings.resetwarnings()
        for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", category)
        warnings.showwarning = _show_warning
        yield


def _show_warning(message: Any, category: Any, filename: str, lineno: int, *_: Any) -> None:
    sys.stderr.write(warnings.formatwarning(message, category, filename, lineno))


_built: dict[Any, Any] = {}


def _built_once(build: Callable[[typer.Typer], Any]) -> Callable[[typer.Typer], Any]:
    """Build each command once, not at each call; a call gets a list of its own of its parameters, to which it adds."""

    def command(of: typer.Typer) -> Any:
        key = tuple(each.callback for each in of.registered_commands) or of
        if key not in _built:
            _built[key] = build(of)
        own = copy.copy(_built[key])
        own.params = list(own.params)
        return own

    return command


typer.main.get_command = _built_once(typer.main.get_command)


if __name__ == "__main__":
    _serve()
