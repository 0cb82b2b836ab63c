"""A process that is killed before its n-th operation on a file, while it works on a log a few lines at a time."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from streamsketch.intake import log

PIECE_BYTES = 600  # a few lines: several pieces, and snapshots between them
_OPERATIONS = {"open", "os.rename", "os.link", "os.remove", "os.utime", "os.listdir", "os.scandir"}


def kill_before(n: int, folder: Path) -> None:
    """Kill this process before its n-th operation on what is in a folder."""
    log.BLOCK_BYTES = PIECE_BYTES
    done = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal done
        if event in _OPERATIONS and str(arguments[0]).startswith(str(folder)):
            done += 1
            if done == n:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
