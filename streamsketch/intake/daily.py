"""A log in many files, such as one for each day, which are read in the order of their names."""

import fnmatch
import select
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Self, TypeAlias

from streamsketch.core.documents import Json
from streamsketch.errors import InvalidInputError
from streamsketch.intake.lines import Add, Stop
from streamsketch.intake.log import Log
from streamsketch.intake.rotation import LostLogError

Open: TypeAlias = Callable[[BinaryIO, str, Json | None], Log]
"""Returns the log of an open file, from its name and the position in it."""

_LOOK = 1.0  # seconds between two looks for another file


def is_pattern(path: Path) -> bool:
    """Return whether the last part of a path stands for several names, ``sales-*.csv``, and is not a file's name."""
    return any(mark in path.name for mark in "*?[") and not path.exists()


class DailyFiles:
    """The files of a folder whose names match a pattern, as one log: read in the order of their names.

    Names must sort as their contents follow each other, as ``sales-2026-11-22.csv`` does. A file is complete once a
    later one is there: what is written to it after that is not read, and an unfinished last line is a bad line. Each
    CSV file begins with a header line.

    `position` records which files were read, and how far the last one was. A file that appears before it in the order
    is refused, since its rows would be too late. Files that were read may be moved away, except for the last one.

    Parameters
    ----------
    pattern
        The folder, and the pattern of names in it.
    log_of
        Makes the log of one file.
    position
        The `position` of earlier files, to resume from.
    on_loss
        A function that is called with a message if the file that was read last is gone. Reading then goes on with the
        next one. Without a function, this is an error.
    look
        Seconds between two looks for another file.

    Raises
    ------
    LostLogError
        If the file that was read last is gone, or is another one.
    InvalidInputError
        If no file matches, the position is of another log, or a file appeared among those that were read.
    """

    def __init__(
        self,
        pattern: Path,
        log_of: Open,
        position: Json | None = None,
        *,
        on_loss: Callable[[str], None] | None = None,
        look: float = _LOOK,
    ) -> None:
        self._pattern, self._log_of, self._look = pattern, log_of, look
        self._read: list[str] = []
        if position is None:
            names = self._names()
            if not names:
                raise InvalidInputError(
                    f"no file matches {pattern}; write the pattern in quotes, or the shell expands it"
                )
            self._open(names[0], None)
            return
        if not _is_position(position):
            raise InvalidInputError(f"the state holds the position in one log, and {pattern} are several files")
        self._read = list(position["files"])
        try:
            self._open(position["name"], position["log"])
        except (FileNotFoundError, LostLogError) as error:
            lost = f"{self._path(position['name'])}, the file that was read last, is gone or is another one"
            following = self._following(position["name"])
            if on_loss is None or following is None:
                raise LostLogError(lost) from error
            on_loss(f"{lost}; what was not read of it is lost")
            self._read.append(position["name"])
            self._open(following, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file that is read."""
        self._log.close()
        self._file.close()

    @property
    def conditions(self) -> tuple[str, ...]:
        """As `Log.conditions`."""
        return self._log.conditions

    @property
    def position(self) -> Json:
        """Which files were read, and how far the last one was, as a dictionary that JSON can hold. Secret."""
        return {"files": self._read, "name": self._name, "log": self._log.position}

    def read(self, piece: bytes, add: Add) -> None:
        """Pass the rows of a piece to ``add`` in batches, without bad lines; see `Log.read`."""
        self._log.read(piece, add)

    def pieces(
        self, *, follow: bool = False, stop: Stop | None = None, wait: Callable[[], float | None] = lambda: None
    ) -> Iterator[bytes]:
        """Yield whole lines of all files, as `Log.pieces`; with ``follow``, wait for lines and for other files.

        Raises
        ------
        InvalidInputError
            As `Log.pieces`; and if a file appears before the one that is read.
        """
        yield from self._log.pieces(stop=stop)
        while stop is None or not stop.is_set():
            following = self._following(self._name)
            yield from self._log.rest(stop=stop)  # what was written before the next file was begun
            if stop is not None and stop.is_set():
                return  # perhaps before the end of this file
            if following is not None:
                self._log.end()
                self.close()
                self._read.append(self._name)
                self._open(following, None)
                yield from self._log.pieces(stop=stop)
                continue
            if not follow:
                return
            left = wait()
            select.select(
                [] if stop is None else [stop.wakes], [], [], self._look if left is None else min(self._look, left)
            )
            if wait() == 0:
                yield b""

    def _names(self) -> list[str]:
        """Return the names that match, in their order."""
        pattern = self._pattern
        return sorted(
            path.name
            for path in pattern.parent.iterdir()
            if fnmatch.fnmatchcase(path.name, pattern.name) and path.is_file()
        )

    def _following(self, name: str) -> str | None:
        """Return the name after one, if there is a file; raise for a file before it that was not read."""
        names = self._names()
        if late := sorted({other for other in names if other < name} - {*self._read}):
            raise InvalidInputError(
                f"{self._path(late[0])} appeared after {self._path(name)} was begun, which comes later in the order of "
                "names: its rows would be late. Name files so that later ones sort behind, or move it away"
            )
        return next((other for other in names if other > name), None)

    def _path(self, name: str) -> Path:
        return self._pattern.parent / name

    def _open(self, name: str, position: Json | None) -> None:
        file = self._path(name).open("rb", buffering=0)
        try:
            self._log = self._log_of(file, str(self._path(name)), position)
        except BaseException:
            file.close()
            raise
        self._file, self._name = file, name


def _is_position(position: Json) -> bool:
    """Return whether a position is one that `DailyFiles.position` gave."""
    files, name, log = (position.get(field) for field in ("files", "name", "log"))
    names = [*files, name] if isinstance(files, list) else [None]
    return all(isinstance(text, str) and Path(text).name == text for text in names) and isinstance(log, dict)
