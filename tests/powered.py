"""No test loses power: nothing waits for a disk, which takes longer than most tests.

What a process that is killed leaves is the same: journals are written as before, and their order is kept.
"""

import functools
import os
import sqlite3
from typing import Any

EXTRA = "PRAGMA synchronous = EXTRA"
synchronised_connect = sqlite3.connect
"""Connects as outside of tests."""


class Powered(sqlite3.Connection):
    """A connection that waits for no disk, although a statement asks for it."""

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        """Execute a statement."""
        return super().execute("PRAGMA synchronous = OFF" if sql == EXTRA else sql, *parameters)


def stay_powered() -> None:
    """Let this process wait for no disk; SQLite waits in code of its own."""
    os.fsync = lambda _: None
    sqlite3.connect = functools.partial(synchronised_connect, factory=Powered)
