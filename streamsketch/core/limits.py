"""Limits on the memory and work spent on untrusted bytes.

Files, messages and agreements come from other parties. Readers allocate nothing by a size that a file claims, and stop
at these limits; `Limits` says how to raise them.
"""

import contextlib
import contextvars
import dataclasses
import functools
import json
import os
import stat
from collections.abc import Collection, Iterator
from typing import Any, BinaryIO

from streamsketch.core.numbers import check_int
from streamsketch.core.wrong import check_json_text, check_path
from streamsketch.errors import InvalidInputError, WireFormatError

_VARIABLE = "STREAMSKETCH_LIMITS"
_BLOCK = 1 << 18


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits on memory and work that readers spend on untrusted bytes. All limits are positive integers.

    Change them for a block of code with `reading_limits`, or for a whole process, its commands and its workers with
    the environment variable ``STREAMSKETCH_LIMITS``, such as ``max_bytes=1073741824,max_keys=10000000``.

    Parameters
    ----------
    max_bytes
        Length in bytes of one release, of published signs or of a mean.
    max_table_bytes
        Size in bytes of a Parquet table. It limits each of three sizes: the file, its decompressed pages, and its keys
        and releases in memory.
    max_raw_bytes
        Length in bytes of a party's own raw file.
    max_json_bytes
        Length in bytes of a projection, an agreement or a mechanism as JSON.
    max_header_bytes
        Length in bytes of a raw file's header, which lists its releases. A Parquet table's footer may be a quarter as
        long.
    max_keys
        Number of rows of a table.
    max_items
        Number of entries of a repeated field of a message, such as a release's ids.
    max_entries
        Number of entries of a random matrix that are enumerated for untrusted bytes, to check a release's noise or to
        compute angles between published signs. 2^24 entries take about a second.
    max_raw_entries
        The same for a party's own raw sketches, in files and between Beam workers.
    max_matrix_bytes
        Memory in bytes for the random matrix of such a projection.

    Examples
    --------
    >>> Limits(max_bytes=1 << 30).max_bytes
    1073741824
    """

    max_bytes: int = 1 << 28
    max_table_bytes: int = 1 << 30
    max_raw_bytes: int = 1 << 33
    max_json_bytes: int = 1 << 16
    max_header_bytes: int = 1 << 24
    max_keys: int = 1 << 20
    max_items: int = 1 << 20
    max_entries: int = 1 << 24
    max_raw_entries: int = 1 << 30
    max_matrix_bytes: int = 1 << 28

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            check_int(getattr(self, field.name), field.name, 1)


_NAMES = tuple(field.name for field in dataclasses.fields(Limits))
_CHANGED: contextvars.ContextVar[Limits | None] = contextvars.ContextVar("streamsketch_limits", default=None)


def current_limits() -> Limits:
    """Return the `Limits` in force: those of the innermost `reading_limits`, else those of the process.

    Raises
    ------
    InvalidInputError
        If the environment variable ``STREAMSKETCH_LIMITS`` is not a list of limits.
    """
    return _CHANGED.get() or _of_the_process(os.environ.get(_VARIABLE, ""))


@contextlib.contextmanager
def reading_limits(**changes: int) -> Iterator[Limits]:
    """Change the limits for readers inside a ``with`` block, in this thread or task.

    For a whole process and its workers, set ``STREAMSKETCH_LIMITS``; see `Limits`.

    Parameters
    ----------
    **changes
        Fields of `Limits`; the others keep their values.

    Yields
    ------
    Limits
        The limits in force inside the block.

    Raises
    ------
    InvalidInputError
        If a limit is not a positive integer.
    TypeError
        For an unknown limit.

    Examples
    --------
    >>> with reading_limits(max_entries=1 << 30) as limits:
    ...     limits.max_entries == current_limits().max_entries
    True
    """
    if unknown := changes.keys() - _NAMES:
        raise TypeError(f"unknown limit {', '.join(sorted(unknown))}; the limits are {', '.join(_NAMES)}")
    changed = dataclasses.replace(current_limits(), **changes)
    token = _CHANGED.set(changed)
    try:
        yield changed
    finally:
        _CHANGED.reset(token)


@functools.lru_cache(maxsize=4)
def _of_the_process(text: str) -> Limits:
    try:
        pairs = [part.split("=") for part in text.split(",") if part.strip()]
        return Limits(**{name.strip(): int(value) for name, value in pairs})
    except (InvalidInputError, TypeError, ValueError):
        raise InvalidInputError(
            f"the environment variable {_VARIABLE} must list limits such as max_bytes=1073741824,max_keys=10000000, "
            f"got {text!r:.100}. The limits are {', '.join(_NAMES)}"
        ) from None


def check_length(length: int, most: int, name: str) -> None:
    """Raise `WireFormatError` if a length exceeds ``most``, the limit called ``name``."""
    if length > most:
        remedy = "raise max_bytes" if name == "max_bytes" else f"raise max_bytes, or {name} by reading_limits"
        raise WireFormatError("length", f"{length} bytes or more, over the limit of {most}; {remedy}")


def read_bounded(path: str | os.PathLike[str], most: int, name: str = "max_bytes") -> bytes:
    """Return a file's bytes, allocating little more than the file holds and never much more than ``most``.

    Pipes are read in blocks.

    Raises
    ------
    WireFormatError
        If the file is longer than ``most``, the limit called ``name``.
    OSError
        If the file cannot be read.
    """
    check_path(path)
    with open(path, "rb") as file:  # noqa: PTH123 - path may be any path-like
        return read_open(file, most, name)


def read_open(file: BinaryIO, most: int, name: str = "max_bytes") -> bytes:
    """Return the bytes of an open file; as `read_bounded`."""
    status = os.fstat(file.fileno())
    size = status.st_size if stat.S_ISREG(status.st_mode) else 0
    check_length(size, most, name)
    blocks, length = [file.read(size + 1)], 0
    while blocks[-1]:
        length += len(blocks[-1])
        check_length(length, most, name)
        blocks.append(file.read(min(_BLOCK, most + 1 - length)))
    return b"".join(blocks)


def json_fields(text: str | bytes, what: str, nested: Collection[str] = ()) -> dict[str, Any]:
    """Return the fields of one JSON object whose values are text, numbers, booleans or null, but for ``nested`` ones.

    Raises
    ------
    InvalidInputError
        For text longer than ``max_json_bytes``, other JSON, or a name that appears twice.
    """
    check_json_text(text, what)
    most = current_limits().max_json_bytes
    if len(text) > most:
        raise InvalidInputError(
            f"{what} must be JSON of at most {most} characters, got {len(text)}; raise max_json_bytes"
        )
    try:
        fields = read_json(text)
    except (ValueError, RecursionError) as error:
        problem = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidInputError(f"{what} must be one JSON object: {problem}") from None
    if not isinstance(fields, dict):
        raise InvalidInputError(f"{what} must be one JSON object, got a {type(fields).__name__}")
    for name, value in fields.items():
        if isinstance(value, list | dict) and name not in nested:
            raise InvalidInputError(f"{what} cannot hold lists or objects, got one for {name!r:.60}")
    return fields


def read_json(text: str | bytes) -> Any:
    """Return what JSON holds, in which no object has a name twice: readers differ in which of two values they take.

    Raises
    ------
    ValueError, RecursionError
        If it is no JSON, a name is there twice, or it is nested too deeply.

    Examples
    --------
    >>> read_json('{"epsilon": 1}')
    {'epsilon': 1}
    >>> read_json('{"epsilon": 1, "epsilon": 1000}')
    Traceback (most recent call last):
    ValueError: a field appears twice
    """
    return json.loads(text, object_pairs_hook=_no_repeats)


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise ValueError("a field appears twice")
    return dict(pairs)
