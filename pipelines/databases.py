"""Databases that hold a stream's releases."""

import importlib
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamsketch as ss


def connection(database: str, *, read_only: bool = False) -> Callable[[], Any]:
    """Return what connects to a database: ``sqlite:PATH``, or ``postgresql`` with libpq's environment variables."""
    if database.startswith("sqlite:"):
        path = Path(database.removeprefix("sqlite:"))
        if read_only:  # else SQLite would create what is not there
            return lambda: sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=10)
        return lambda: sqlite3.connect(path, timeout=60)
    if database != "postgresql":
        raise ss.InvalidInputError(f"--database takes sqlite:PATH or postgresql, got {database!r:.80}")

    def connect() -> Any:
        driver = importlib.import_module("pg8000.dbapi")  # workers that write to PostgreSQL have it
        password, name = os.environ.get("PGPASSWORD"), os.environ.get("PGDATABASE", "postgres")
        host, port = os.environ.get("PGHOST", "127.0.0.1"), int(os.environ.get("PGPORT", "5432"))
        return driver.connect(os.environ["PGUSER"], host, name, port, password)

    return connect
