"""What is played: releases by an agreement, all that an outsider sees of a run, and mechanisms of DP-Auditorium."""

import contextlib
import io
import logging
import tempfile
import warnings
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from streamsketch.auditing.laws import by_value
from streamsketch.core.numbers import Ints


class Agreed(Protocol):
    """An `Agreement` with terms."""

    def release(self, rows: object, *, again: bool = False) -> Any:
        """Release rows."""


def by_agreement(agreement: Agreed) -> Callable[[Any], Ints]:
    """Return the function that releases rows under an agreement, for `play`.

    Parameters
    ----------
    agreement
        With terms; without keys, or with listed ones, so that all releases have one shape.

    Returns
    -------
    callable
        Of rows, to the published numbers: the cells and counts of each key, int64, (n,).

    Examples
    --------
    >>> import pyarrow as pa
    >>> import streamsketch as ss
    >>> rows = pa.table({"who": ["ann", "ann", "ben"], "item": ["tea", "jam", "tea"]})
    >>> projection = ss.CountSketch(sketch_dim=8, seed=1)
    >>> agreement = ss.agree(rows, projection, index="item", unit="who", epsilon=1, delta=1e-6)
    >>> by_agreement(agreement)(rows).shape  # eight cells and a count
    (9,)
    """

    def release(rows: object) -> Ints:
        released: Any = agreement.release(rows, again=True)
        each = released.values() if hasattr(released, "keys") else [released]
        numbers: Ints = np.concatenate([sketch.numbers for sketch in each])
        return numbers

    return release


class _Collected(logging.Handler):
    """Adds level, logger and text of each record to a list."""

    def __init__(self, texts: list[str]) -> None:
        super().__init__()
        self._texts = texts

    def emit(self, record: logging.LogRecord) -> None:
        self._texts.append(f"{record.levelname} {record.name} {record.getMessage()}")


class Seen(NamedTuple):
    """What an outsider sees of a run, but for the time it takes."""

    outcome: Hashable
    """What was returned, by value."""
    printed: str
    """Standard output and errors, and warnings."""
    logged: tuple[str, ...]
    """Level, logger and text of each log record."""
    files: tuple[tuple[str, int, int], ...]
    """Name, mode and bytes of each file in the folder."""
    error: str
    """Type and text of the exception with which it ended; empty if it returned."""


def seen(release: Callable[[Any, Path], Any]) -> Callable[[Any], Seen]:
    """Return a function for `play` that returns all that an outsider sees of a run.

    Parameters
    ----------
    release
        Called with the data and an empty folder of its own, for its files.

    Examples
    --------
    An error message that names a person tells who is in the data, at any ε:

    >>> from streamsketch.auditing import play
    >>> def careless(people, folder):
    ...     if "Ann" in people:
    ...         raise ValueError("Ann has no age")
    >>> play(seen(careless), ["Ben"], ["Ben", "Ann"], epsilon=1.0, runs=500).holds
    False
    """

    def run(data: object) -> Seen:
        printed, logged, outcome, error = io.StringIO(), list[str](), None, ""
        handler, root = _Collected(logged), logging.getLogger()
        level = root.level
        root.addHandler(handler)
        root.setLevel(logging.DEBUG)
        try:
            with (
                tempfile.TemporaryDirectory() as name,
                contextlib.redirect_stdout(printed),
                contextlib.redirect_stderr(printed),
                warnings.catch_warnings(record=True) as warned,
            ):
                warnings.simplefilter("always")
                try:
                    outcome = by_value(release(data, Path(name)))
                except Exception as raised:  # noqa: BLE001 - an outsider sees any error
                    error = f"{type(raised).__name__}: {raised}".replace(name, "")
                files = tuple(
                    (str(path.relative_to(name)), path.lstat().st_mode, path.lstat().st_size)
                    for path in sorted(Path(name).rglob("*"))
                )
        finally:
            root.removeHandler(handler)
            root.setLevel(level)
        texts = [printed.getvalue(), *(f"{warning.category.__name__}: {warning.message}" for warning in warned)]
        return Seen(outcome, "\n".join(filter(None, texts)).replace(name, ""), tuple(logged), files, error)

    return run


def as_mechanism(release: Callable[[Any], Any]) -> Callable[[Any, int], "np.ndarray[Any, Any]"]:
    """Return a release function as DP-Auditorium calls mechanisms: with data and a number of samples.

    Returns
    -------
    callable
        Of a data set and a number of samples n, to an array whose first axis has n outcomes.

    Examples
    --------
    >>> import secrets
    >>> as_mechanism(lambda people: people + secrets.randbelow(3))(5, 4).shape
    (4,)
    """

    def mechanism(dataset: Any, num_samples: int) -> "np.ndarray[Any, Any]":
        return np.asarray([release(dataset) for _ in range(num_samples)])

    return mechanism


def of_mechanism(mechanism: Callable[[Any, int], Any], batch: int = 1000) -> Callable[[Any], Any]:
    """Return a mechanism of DP-Auditorium as a release function, which draws a batch of samples at a time.

    Parameters
    ----------
    mechanism
        Called with a data set and a number of samples.
    batch
        How many samples of each data set it draws at once.

    Examples
    --------
    >>> import secrets
    >>> release = of_mechanism(lambda data, n: [data + secrets.randbelow(3) for _ in range(n)])
    >>> 5 <= release(5) <= 7
    True
    """
    held: dict[int, tuple[Any, list[Any]]] = {}

    def release(data: object) -> Any:
        source, left = held.get(id(data), (None, []))
        if source is not data or not left:
            left = list(mechanism(data, batch))
        held[id(data)] = data, left
        return left.pop()

    return release
