"""Parquet tables of published signs: one row a key, as `streamsketch.wire.tables` for private sketches."""

import os
from collections.abc import Mapping
from typing import Any

from streamsketch.projections import Projection
from streamsketch.signs import SignSketch
from streamsketch.wire.tables import load_rows, save_rows


def save_sign_table(sketches: Mapping[Any, SignSketch], path: str | os.PathLike[str]) -> None:
    """Write published signs as a Parquet table that `load_sign_table` and any Parquet reader can open.

    Columns as `streamsketch.save_table`, with ``signs`` in place of ``sketch``. Only a `SignSketch` has a place in a
    table: individual guarantees do not stand side by side.

    Parameters
    ----------
    sketches
        Releases of one projection by key; keys of one type: text, bytes, integers, dates or times.

    Raises
    ------
    TypeError
        If a value is not a SignSketch.
    IncompatibleProjectionsError, InvalidInputError
        As `streamsketch.save_table`.
    """
    save_rows(sketches, path, SignSketch, "signs")


def load_sign_table(
    path: str | os.PathLike[str], *, expect: Projection | None = None, max_bytes: int | None = None
) -> dict[Any, SignSketch]:
    """Return the published signs of a table, by key; parameters and errors as `streamsketch.load_table`."""
    return load_rows(path, SignSketch, "signs", expect=expect, max_bytes=max_bytes)
