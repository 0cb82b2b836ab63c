"""A PostgreSQL server of this machine, reached by a socket in a folder, and gone afterwards."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from tests.patience import PATIENCE

NO_SERVER = "PostgreSQL is tested by make test-postgres, which needs its server"


def programs() -> Path | None:
    """Return the folder of the server's programs, if `make test-postgres` named one."""
    named = os.environ.get("STREAMSKETCH_POSTGRES")
    return Path(named) if named else None


class Server:
    """A server that can go down and come back; its superuser is ``owner``. A context manager.

    Parameters
    ----------
    programs
        The folder of the server's programs.
    """

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="pg"))
        self._options: dict[str, Any] = {"cwd": self.folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        if os.geteuid() == 0:  # as which PostgreSQL refuses to run
            account = _account()
            os.chown(self.folder, account.pw_uid, account.pw_gid)
            self._options |= {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        self.folder.chmod(0o755)
        try:
            make = ["-D", "data", "-U", "owner", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
            subprocess.run([self._programs / "initdb", *make], check=True, **self._options)  # noqa: S603
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        listen = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={self.folder}", "-c", "max_connections=40"]
        command = [self._programs / "postgres", "-D", "data", "-F", *listen]
        self._process = subprocess.Popen(command, **self._options)  # noqa: S603
        _wait(self._programs, self.folder, self._process)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it: by default at once, with all connections; ``SIGQUIT`` as if it had crashed."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.communicate(timeout=PATIENCE)


@contextlib.contextmanager
def server(programs: Path) -> Iterator[Path]:
    """Start a server and return the folder of its socket; its superuser is ``owner``."""
    with Server(programs) as running:
        yield running.folder


def _account() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


def _wait(programs: Path, folder: Path, process: "subprocess.Popen[bytes]") -> None:
    for _ in range(10 * PATIENCE):
        assert process.poll() is None, process.communicate()[1]
        ready = [programs / "pg_isready", "-q", "-h", folder, "-d", "postgres", "-U", "owner"]
        if not subprocess.run(ready, check=False).returncode:  # noqa: S603
            return
        time.sleep(0.1)
    raise AssertionError("the server never took a connection")
