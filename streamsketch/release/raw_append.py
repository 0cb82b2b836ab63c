"""Adding to raw files that other processes add to and release from as well."""

import dataclasses
import os
from pathlib import Path
from typing import Any, cast

import numpy as np

from streamsketch.core import locked
from streamsketch.errors import InvalidInputError
from streamsketch.release.raw_file import RawSketch, State, load_raw, replace_raw, united
from streamsketch.sketching import Sketch, SketchTable


def append_raw(raw: RawSketch, path: str | os.PathLike[str], *, new: bool = False) -> RawSketch:
    """Add a raw sketch to what a file holds, or write it if there is none; return what the file holds then.

    The file is locked from the read to the write: what several processes append, and snapshots between, all count.

    Parameters
    ----------
    raw
        The events to add. Made from `emptied` of what the file holds, it adds no data ids.
    path
        The raw file.
    new
        Whether there must be no such file yet.

    Raises
    ------
    InvalidInputError
        If one holds one stream and the other a table, or there is a file that should be new.
    IncompatibleProjectionsError
        If the projections differ.
    WireFormatError, OSError
        As `load_raw`, or if the file cannot be written. The file is then unchanged.
    """
    with locked(path):
        if new and Path(path).exists():
            raise InvalidInputError(f"{path} was made by another process meanwhile and is not replaced; append to it")
        try:
            there = load_raw(path)
        except FileNotFoundError:
            whole = raw
        else:
            if type(there.state) is not type(raw.state):
                raise InvalidInputError(
                    f"{path} and what is added to it differ: one holds one stream, the other one for each key"
                )
            cast("Any", there.state).merge(raw.state)
            whole = dataclasses.replace(
                there, events=there.events + raw.events, releases=united([there.releases, raw.releases])
            )
        replace_raw(whole, path)
    return whole


def emptied(state: State) -> State:
    """Return an empty sketch or table with the data ids of another: its events count as the same data."""
    projection = state.projection
    known: Any = {"ids": state.data_ids, "agreement": state.agreement}
    if isinstance(state, Sketch):
        return Sketch.from_state(projection, np.zeros(projection.sketch_dim, dtype=np.int64), 0, **known)
    cells, masses = np.zeros((0, projection.sketch_dim), dtype=np.int64), np.zeros(0, dtype=np.int64)
    return SketchTable.from_state(projection, [], cells, masses, **known)
