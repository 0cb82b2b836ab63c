"""Noise that is the same at each run of a test, where other noise could fail it by chance."""

import contextlib
import os
import threading
from collections.abc import Iterator
from unittest import mock

from streamsketch.privacy import KeyedBits

_SYSTEM = os.urandom


@contextlib.contextmanager
def fixed_noise(name: str) -> Iterator[None]:
    """Let this process draw secret bits by the name of a test; processes that it forks draw the system's."""
    # a finaliser may draw while a draw is under way
    bits, lock, own = KeyedBits(bytes(32), name.encode()), threading.RLock(), os.getpid()

    def read(size: int = 32) -> bytes:
        if os.getpid() != own:
            return _SYSTEM(size)
        with lock:
            return bits.read(size)

    def randbits(bits: int) -> int:
        return int.from_bytes(read(-(-bits // 8))) >> -bits % 8

    with (
        mock.patch.object(os, "urandom", read),
        mock.patch("secrets.token_bytes", read),
        mock.patch("secrets.randbits", randbits),
    ):
        yield
