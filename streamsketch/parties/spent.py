"""The rounds that a key took part in: in memory, and in a file beside the key that all processes share."""

import os
import re
import threading
from io import FileIO
from pathlib import Path

from streamsketch.core.files import append, appending
from streamsketch.errors import InvalidInputError

SUFFIX = ".rounds"
"""What the name of the file ends in, after the name of the key's."""
_LINE = re.compile(rb"([0-9a-f]{64})(?: ([0-9a-f]{64})(?: ([0-9a-f]{64}))?)?")
_TORN = re.compile(rb"[0-9a-f ]{0,195}")  # what an interrupted write leaves; nothing was sent
_END_TORN = b" \n"  # as no whole line ends, so that a write that ended between two names is no record of the first
_MOST_BYTES = 1 << 28


class Spent:
    """The rounds that a key took part in.

    A file of them only grows: one line for each contribution, on the disk before the contribution leaves. It names
    the round and, for one key of a table, the round for that key. If the same bytes may be made again, it also has
    their SHA-256. A lock on the file makes processes take turns.

    Parameters
    ----------
    owner
        The party, for messages.
    path
        The file, which need not exist yet; None to keep the rounds in memory.
    """

    def __init__(self, owner: str, path: Path | None = None) -> None:
        self._owner, self._path = owner, path
        self._sent: dict[bytes, dict[bytes, bytes]] = {}  # of each round, of each of its keys: what was sent
        self._read, self._file = 0, (0, 0)
        self._turn = threading.Lock()

    def check(self, agreed: bytes, name: bytes) -> None:
        """Raise `InvalidInputError` if nothing more may be contributed, `OSError` if it could not be recorded.

        Parameters
        ----------
        agreed, name
            Names of 32 bytes: of the round, and of the part of it that is contributed to, which is the round itself or
            the round for a key.
        """
        with self._turn:
            if self._path is not None:
                with appending(self._path) as file:
                    self._catch_up(file)
            self._check(agreed, name, b"")

    def add(self, agreed: bytes, name: bytes, sent: bytes = b"") -> None:
        """Record a contribution before it is sent; raise `InvalidInputError` if there was another.

        Parameters
        ----------
        agreed, name
            As in `check`.
        sent
            SHA-256 of the contribution, if the same one may be made again; else nothing.

        Raises
        ------
        InvalidInputError
            If there was another contribution, or the file is damaged.
        OSError
            If the file cannot be written or locked.
        """
        with self._turn:
            self._write(agreed, name, sent, new=True)

    def take(self, others: "Spent") -> None:
        """Record all that another has recorded, or that its file has."""
        records = others.all()
        with self._turn:
            for agreed, name, sent in records:
                self._write(agreed, name, sent, new=False)

    def all(self) -> list[tuple[bytes, bytes, bytes]]:
        """Return what is known of each contribution, as in `add`."""
        with self._turn:
            if self._path is not None:
                with appending(self._path) as file:
                    self._catch_up(file)
            return [(agreed, *part) for agreed, parts in self._sent.items() for part in parts.items()]

    def _write(self, agreed: bytes, name: bytes, sent: bytes, *, new: bool) -> None:
        """Add a line; one that is there may be the same contribution, or any if it is not new."""
        if self._path is None:
            self._check(agreed, name, sent)
        else:
            with appending(self._path) as file:
                torn = self._catch_up(file)
                is_recorded = self._check(agreed, name, sent) if new else name in self._sent.get(agreed, {})
                if is_recorded:
                    return
                line = agreed if name == agreed and not sent else b"".join([agreed, name, sent])
                text = b" ".join(line[at : at + 32].hex().encode() for at in range(0, len(line), 32))
                append(file, (_END_TORN if torn else b"") + text + b"\n")
        self._sent.setdefault(agreed, {})[name] = sent

    def _check(self, agreed: bytes, name: bytes, sent: bytes) -> bool:
        """Return whether this very contribution was noted."""
        parts = self._sent.get(agreed, {})
        if name in parts and parts[name] == sent != b"":
            return True
        if name in parts or agreed in parts or (parts and name == agreed):
            where = "" if self._path is None else f", as {self._path.name} records"
            raise InvalidInputError(
                f"{self._owner} has already contributed to round {agreed.hex()[:16]}…{where}: the difference of two "
                "contributions would reveal its data. Send the same bytes again, or make a new round"
            )
        return False

    def _catch_up(self, file: FileIO) -> bool:
        """Read what other processes added since; return whether the file ends with a torn line."""
        state = os.fstat(file.fileno())
        if self._file != (state.st_dev, state.st_ino) or state.st_size < self._read:
            self._file, self._read = (state.st_dev, state.st_ino), 0
        if state.st_size > _MOST_BYTES:
            raise InvalidInputError(f"{self._path} is longer than {_MOST_BYTES} bytes; make a new key")
        file.seek(self._read)
        data = file.readall()
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._parse(line)
        self._read += len(data) - len(rest)
        return bool(rest)

    def _parse(self, line: bytes) -> None:
        match = _LINE.fullmatch(line)
        if match is not None:
            agreed, name, sent = (b"" if group is None else bytes.fromhex(group.decode()) for group in match.groups())
            self._sent.setdefault(agreed, {})[name or agreed] = sent
        elif not _TORN.fullmatch(line):
            raise InvalidInputError(
                f"{self._path} is damaged, so the rounds that the key took part in are not known; make a new key"
            )
