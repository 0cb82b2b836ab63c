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
from typing import Any

_PATIENCE = 60  # seconds
NO_SERVER = "PostgreSQL is tested by make test-postgres, which needs its server"


def programs() -> Path | None:
    """Return the folder of the server's programs, if `make test-postgres` named one."""
    named = os.environ.get("STREAMSKETCH_POSTGRES")
    return Path(named) if named else None


@contextlib.contextmanager
def server(programs: Path) -> Iterator[Path]:
    """Start a server and return the folder of its socket; its superuser is ``owner``."""
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    options: dict[str, Any] = {"cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    if os.geteuid() == 0:  # as which PostgreSQL refuses to run
        account = _account()
        os.chown(folder, account.pw_uid, account.pw_gid)
        options |= {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    folder.chmod(0o755)
    try:
        make = ["-D", "data", "-U", "owner", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        subprocess.run([programs / "initdb", *make], check=True, **options)  # noqa: S603
        listen = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={folder}", "-c", "max_connections=40"]
        with subprocess.Popen([programs / "postgres", "-D", "data", "-F", *listen], **options) as process:  # noqa: S603
            try:
                _wait(programs, folder, process)
                yield folder
            finally:
                process.send_signal(signal.SIGINT)  # a fast shutdown
                process.communicate(timeout=_PATIENCE)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _account() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


def _wait(programs: Path, folder: Path, process: "subprocess.Popen[bytes]") -> None:
    for _ in range(10 * _PATIENCE):
        assert process.poll() is None, process.communicate()[1]
        ready = [programs / "pg_isready", "-q", "-h", folder, "-d", "postgres", "-U", "owner"]
        if not subprocess.run(ready, check=False).returncode:  # noqa: S603
            return
        time.sleep(0.1)
    raise AssertionError("the server never took a connection")
