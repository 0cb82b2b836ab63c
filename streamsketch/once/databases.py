"""Databases that hold a stream's releases."""

import importlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from streamsketch.errors import InvalidInputError


def connection(database: str, *, read_only: bool = False) -> Callable[[], Any]:
    """Return a function that connects to ``sqlite:PATH``, or to ``postgresql`` with libpq's environment variables.

    Parameters
    ----------
    database
        The database: ``sqlite:PATH`` or ``postgresql``.
    read_only
        Whether an SQLite database is opened for reading only, so that a missing file is an error.

    Raises
    ------
    InvalidInputError
        If ``database`` is something else.
    """
    if database.startswith("sqlite:"):
        path = Path(database.removeprefix("sqlite:"))
        if read_only:  # otherwise SQLite would create a missing file
            return lambda: sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=10)
        return lambda: _written(path)
    if database != "postgresql":
        raise InvalidInputError(f"a database is sqlite:PATH or postgresql, got {database!r:.80}")
    return lambda: importlib.import_module("psycopg").connect()  # of the extra postgres, on workers too


def _written(path: Path) -> sqlite3.Connection:
    opened = sqlite3.connect(path, timeout=60)
    opened.execute("PRAGMA synchronous = EXTRA")  # after a power failure, too, what was committed is there
    return opened
