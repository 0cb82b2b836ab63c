"""The command in processes of its own.

`streamsketch` starts Python anew, as a user's shell does. `Forks` imports the command once and forks for each call:
the same `main`, exit status and streams, without a second of imports each time.
"""

import contextlib
import errno
import fcntl
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import termios
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

import streamsketch as ss

ROOT = Path(ss.__file__).parent.parent
COMMAND = [sys.executable, "-m", "streamsketch"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
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


def wait_until_read(pipe: Any) -> None:
    for _ in range(10 * PATIENCE):
        if fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)) == bytes(4):
            return
        time.sleep(0.1)
    raise AssertionError("the pipe was never read")


def open_when_read(pipe: Path, reader: subprocess.Popen[bytes]) -> BinaryIO:
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
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def run(self, *arguments: object, cwd: Path | None = None, stdin: bytes = b"") -> Done:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.NamedTemporaryFile() as given:
            given.write(stdin)
            given.flush()
            call = list(map(str, arguments)), str(cwd or Path.cwd()), given.name, ENVIRONMENT
            self._process.stdin.write(json.dumps(call) + "\n")
            self._process.stdin.flush()
            return Done(*json.loads(self._process.stdout.readline()))

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
        if done.stderr.startswith("error: "):
            assert done.stderr.count("\n") == 1, "one sentence, one line"
            return done.stderr
        assert done.stderr.lstrip().startswith("Usage: streamsketch")  # of the parser, in a box
        return " ".join(done.stderr.replace("│", " ").split())


def _serve() -> None:
    from streamsketch.cli.app import app, main  # noqa: PLC0415 - the parent's tests need not import it

    for name in ss.__all__:  # what commands load when they need it
        getattr(ss, name)
    table = ss.SJLT(dim=ss.HASHED_DIM, sketch_dim=64, sparsity=4, seed=1).table()
    table.update(["a"], ["b"], [1.5])
    table["a"].release(epsilon=1.0, neighbours=ss.L1(1)).to_bytes()
    with contextlib.redirect_stdout(io.StringIO()):  # and what the reader and the printer of arguments load
        for command in app.registered_commands:
            app([str(command.name), "--help"], standalone_mode=False)
        for arguments in (["inspect", "--system"], ["plan", "--epsilon", "1", "--squared-distance", "1e5"]):
            app(arguments, standalone_mode=False)

    for line in sys.stdin:
        arguments, cwd, stdin, environment = json.loads(line)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            child = os.fork()
            if not child:
                signal.alarm(PATIENCE)
                os.chdir(cwd)
                os.environ.clear()
                os.environ.update(environment)
                os.dup2(os.open(stdin, os.O_RDONLY), 0)
                os.dup2(out.fileno(), 1)
                os.dup2(err.fileno(), 2)
                sys.argv = ["streamsketch", *arguments]
                status = 0
                try:
                    main()
                except SystemExit as exit_:
                    status = exit_.code if isinstance(exit_.code, int) else 0
                except BaseException:  # noqa: BLE001 - as the interpreter would
                    traceback.print_exc()
                    status = 1
                finally:
                    sys.stdout.flush()
                    sys.stderr.flush()
                    os._exit(status)
            _, status = os.waitpid(child, 0)
            texts = []
            for stream in (out, err):
                stream.seek(0)
                texts.append(stream.read().decode())
        sys.stdout.write(json.dumps([os.waitstatus_to_exitcode(status), *texts]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
