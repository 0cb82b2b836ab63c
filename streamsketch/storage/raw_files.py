"""Raw sketches at rest: a private format, apart from the exchange format and never to be shared.

A file is an SQLite database with the word SECRET in its first page. Only its owner can read it. It holds checksums and
a record of the releases from it. One party uses it between two runs or by several workers; other parties get releases.
"""

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path

from streamsketch.core.files import locked
from streamsketch.core.limits import current_limits, read_bounded
from streamsketch.errors import InvalidInputError, WireFormatError
from streamsketch.storage import old_formats
from streamsketch.storage.database import Database, NotSQLiteError, create, opened
from streamsketch.storage.first_bytes import RAW
from streamsketch.storage.sketches import (
    PastRelease,
    RawHeader,
    RawSketch,
    State,
    add_to_sketch,
    distinct_releases,
    read_header_of,
    read_sketch,
    write_sketch,
)

_PART = "sketch"


def load_raw(path: str | os.PathLike[str], *, max_bytes: int | None = None) -> RawSketch:
    """Return the contents of a raw file of at most ``max_bytes``, by default `Limits.max_raw_bytes`.

    Returns
    -------
    RawSketch
        The exact sketch or table in ``state``, which is secret, and its earlier releases in ``releases``. To release
        it, use `release_raw`, which also records the release in the file.

    Raises
    ------
    WireFormatError
        If the file is too large, truncated, changed, inconsistent or of another version.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> from streamsketch import CountSketch
    >>> path = getfixture("tmp_path") / "north.raw-sketch"
    >>> sketch = CountSketch(sketch_dim=256, seed=7).sketch()
    >>> sketch.update(["tea", "milk"])
    >>> save_raw(sketch, path)
    >>> loaded = load_raw(path)
    >>> loaded.state == sketch, loaded.releases
    (True, ())
    """
    try:
        with opened(path, RAW, max_bytes=max_bytes) as database:
            return read_sketch(database, _PART)
    except NotSQLiteError:
        most = current_limits().max_raw_bytes if max_bytes is None else max_bytes
        return old_formats.read_old_sketch(read_bounded(path, most, "max_raw_bytes"))


def read_header(path: str | os.PathLike[str]) -> RawHeader:
    """Return the header of a raw file without reading its cells; errors as `load_raw`, except for cells and keys.

    Examples
    --------
    >>> from streamsketch import CountSketch
    >>> path = getfixture("tmp_path") / "north.raw-sketch"
    >>> save_raw(CountSketch(sketch_dim=256, seed=7).table(keys=["DE", "FR"]), path)
    >>> read_header(path).keys
    2
    """
    try:
        with opened(path, RAW) as database:
            return read_header_of(database, _PART)
    except NotSQLiteError:
        return RawHeader.of(load_raw(path))


def save_raw(raw: RawSketch | State, path: str | os.PathLike[str]) -> None:
    """Write a raw sketch to a file that only its owner can read (mode 0600), and keep the file's record of releases.

    So one process may keep replacing the file while another releases its contents. The file is as secret as the sketch;
    share only releases of it, which `release_raw` makes.

    Parameters
    ----------
    raw
        A `Sketch`, a `SketchTable`, or a `RawSketch` that `load_raw` returned.
    path
        The file; its name usually ends in ``.raw-sketch``.

    Raises
    ------
    InvalidInputError
        If the existing file is not a valid raw sketch, or has several hard links. It is not replaced then.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> from streamsketch import CountSketch
    >>> path = getfixture("tmp_path") / "north.raw-sketch"
    >>> save_raw(CountSketch(sketch_dim=256, seed=7).sketch(), path)
    >>> f"{path.stat().st_mode & 0o777:o}"
    '600'
    """
    raw = raw if isinstance(raw, RawSketch) else RawSketch(raw)
    with locked(path):
        if not Path(path).exists():
            _create(path, raw)
            return
        try:
            with _opened(path) as database:
                earlier = read_header_of(database, _PART).releases
                releases = distinct_releases([earlier, raw.releases])
                write_sketch(database, _PART, dataclasses.replace(raw, releases=releases))
        except WireFormatError as error:
            raise InvalidInputError(f"{path} is not replaced, because it is not a valid raw sketch: {error}") from None


def append_raw(raw: RawSketch, path: str | os.PathLike[str], *, new: bool = False) -> RawHeader:
    """Add a raw sketch to a file, or create the file; return the file's header afterwards.

    It is one transaction, which reads and writes only the cells of the keys in ``raw``. If the process is killed, all
    of ``raw`` was added or nothing. Several processes may append to one file, and nothing that they add is lost.

    Parameters
    ----------
    raw
        The events to add. If they were added to `RawHeader.empty` of the file, it adds no data ids.
    path
        The raw file.
    new
        Whether the file must not exist yet.

    Raises
    ------
    InvalidInputError
        If one holds one stream and the other a table, the file exists and should be new, or both together are too
        large for a file.
    IncompatibleProjectionsError
        If the projections differ.
    WireFormatError, OSError
        As in `load_raw`, or if the file cannot be written. The file is then unchanged.

    Examples
    --------
    >>> from streamsketch import CountSketch
    >>> projection, path = CountSketch(sketch_dim=256, seed=7), getfixture("tmp_path") / "north.raw-sketch"
    >>> for items in (["tea", "milk"], ["tea"]):
    ...     sketch = projection.sketch()
    ...     sketch.update(items)
    ...     header = append_raw(RawSketch(sketch, events=len(items)), path)
    >>> header.events, load_raw(path).state.mass
    (3, 3)
    """
    with locked(path):
        if not Path(path).exists():
            _create(path, raw)
            return RawHeader.of(raw)
        if new:
            raise InvalidInputError(
                f"{path} was made by another process in the meantime and is not replaced; append to it"
            )
        with _opened(path) as database:
            try:
                return add_to_sketch(database, _PART, raw)
            except InvalidInputError as error:
                raise InvalidInputError(f"{path} and what is added to it: {error}") from None


class RawTransaction:
    """A raw file in a transaction, during which no other process can change it; see `transaction`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def load(self) -> RawSketch:
        """Return the contents of the file; errors as `load_raw`."""
        return read_sketch(self._database, _PART)

    def record(self, release: PastRelease) -> None:
        """Add a release to the record of the file; it is written when the transaction ends."""
        header = read_header_of(self._database, _PART).with_releases([release])
        self._database.change(_PART, header.to_fields())


@contextlib.contextmanager
def transaction(path: str | os.PathLike[str]) -> Iterator[RawTransaction]:
    """Open a raw file for one transaction: until it ends, no other process can change the file or see half a change.

    The other raw files in its folder, which may hold the same data, are locked too. If the block raises, the file is
    unchanged. A file of an earlier version is converted first.

    Raises
    ------
    InvalidInputError
        If the file has several names by hard links.
    WireFormatError, OSError
        As in `load_raw`, or if the file cannot be written.

    Examples
    --------
    >>> from streamsketch import CountSketch
    >>> path = getfixture("tmp_path") / "north.raw-sketch"
    >>> save_raw(CountSketch(sketch_dim=256, seed=7).sketch(), path)
    >>> with transaction(path) as file:
    ...     file.load().releases
    ()
    """
    with locked(path), _opened(path) as database:
        yield RawTransaction(database)


@contextlib.contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[Database]:
    """Open a raw file for one transaction; the caller holds `locked`."""
    with contextlib.ExitStack() as stack:
        try:
            database = stack.enter_context(opened(path, RAW, write=True))
        except NotSQLiteError:
            _create(path, load_raw(path))
            database = stack.enter_context(opened(path, RAW, write=True))
        yield database


def _create(path: str | os.PathLike[str], raw: RawSketch) -> None:
    create(path, RAW, lambda database: write_sketch(database, _PART, raw))
