"""What raw files beside a raw file remember: releases of the same data, in copies, merges and other parts of them."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from streamsketch.errors import WireFormatError
from streamsketch.storage.files import read_head, united
from streamsketch.storage.format import MAGIC, PastRelease, RawSketch, read_header


def released_before(raw: RawSketch, path: str | os.PathLike[str]) -> tuple[str, tuple[PastRelease, ...]]:
    """Return of which data in a raw file it is known that they were released, as "… was" or "… were", and the releases.

    The files in its folder, and in that of the file it links to, are compared by their data ids. Of each only headers
    are read; what is no raw file, or cannot be read, is passed over.
    """
    beside = _releases_beside(raw, Path(path))
    releases = united([raw.releases, *beside.values()])
    if len(releases) == len(raw.releases):
        return f"{os.fspath(path)} was", releases
    hold = "holds" if len(beside) == 1 else "hold"
    return f"data in {os.fspath(path)}, which {' and '.join(sorted(beside))} {hold} too, were", releases


def _releases_beside(raw: RawSketch, path: Path) -> dict[str, Sequence[PastRelease]]:
    """Return the releases that other raw files with some of the same data remember, by the names of the files."""
    own, found = path.resolve(), {}
    for other in _files_beside(path):
        if other.resolve() == own:
            continue
        with contextlib.suppress(OSError, WireFormatError):
            releases = _releases_in(other)
            if releases and not raw.state.data_ids.parts.isdisjoint(read_head(other).empty.data_ids.parts):
                found[other.name] = releases
    return found


def _files_beside(path: Path) -> Iterator[Path]:
    for folder in dict.fromkeys([path.absolute().parent, path.resolve().parent]):
        yield from sorted(other for other in folder.iterdir() if other.is_file())


def _releases_in(path: Path) -> Sequence[PastRelease]:
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            return ()
        file.seek(0)
        found: Sequence[PastRelease] = read_header(file, os.fstat(file.fileno()).st_size)[0]["releases"]
        return found
