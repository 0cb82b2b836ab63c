"""Runs the command again and again, killed before the n-th operation on a file, for every n.

A process that has imported the command runs `play`, and forks for each run. For each n a copy of a folder is worked
on, once until it is killed and once more to the end.
"""

import contextlib
import functools
import gc
import io
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import typer

from streamsketch.cli import _log
from streamsketch.cli.app import main

_OPERATIONS = {"open", "os.rename", "os.link", "os.remove", "os.utime", "os.listdir", "os.scandir"}
_KILLED = 9


def killed_before(n: int, folder: Path) -> None:
    """Kill this process before its n-th operation on what is in a folder."""
    done = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal done
        if event in _OPERATIONS and str(arguments[0]).startswith(str(folder)):
            done += 1
            if done == n:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def run(arguments: list[str], folder: Path, n: int | None) -> int:
    """Run the command in a fork, and return its status: 9 if it was killed."""
    child = os.fork()
    if not child:
        os.chdir(folder)
        sys.argv = ["streamsketch", *arguments]
        sys.stderr = io.TextIOWrapper(open("said.txt", "ab", buffering=0), write_through=True)  # noqa: SIM115, PTH123
        status = 0
        if n is not None:
            killed_before(n, folder)
        try:
            main()
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def all_of(folder: Path, arguments: list[str]) -> int:
    """Do that for every n, and return how many there were."""
    warm = folder.with_name(f"{folder.name}-0")
    shutil.copytree(folder, warm)
    os.chdir(warm)  # here, so that forks find all kernels loaded
    sys.argv = ["streamsketch", *arguments]
    with contextlib.suppress(SystemExit):
        main()
    typer.main.get_command = functools.cache(typer.main.get_command)  # built once for all forks
    gc.collect()
    gc.freeze()  # or each fork would copy what its collector looks at
    n = 0
    while True:
        n += 1
        copy = folder.with_name(f"{folder.name}-{n}")
        shutil.copytree(folder, copy)
        first = run(arguments, copy, n)
        shutil.copytree(copy / "out", copy / "before")  # what an outsider saw then
        assert first in (0, -_KILLED), first
        assert run(arguments, copy, None) == 0, (copy / "said.txt").read_text()
        if first == 0:
            return n


def play() -> None:
    """Do it for the folder and the command that are this process's arguments, and print how many n there were."""
    _log.PIECE_BYTES = 600  # a few lines: several pieces, and snapshots between them
    folder, *arguments = sys.argv[1:]
    print(all_of(Path(folder), arguments), flush=True)  # noqa: T201 - the test reads it
