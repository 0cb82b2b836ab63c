"""What a reader of bytes is to the tests."""

import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import streamsketch as ss

Change = Callable[[bytes, random.Random], bytes]


class Reader(NamedTuple):
    """One reader."""

    samples: list[bytes]
    changes: list[Change]
    read: Callable[[bytes], Any]
    error: type[ss.StreamsketchError] | tuple[type[ss.StreamsketchError], ...]
    """What it documents; nothing else may come out of ``read``."""


def from_file(load: Callable[[Path], Any]) -> Callable[[bytes], Any]:
    """Return what reads bytes as a file, which only its owner can access, as that of a key."""

    def read(data: bytes) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "file"
            path.touch(mode=0o600)
            path.write_bytes(data)
            return load(path)

    return read
