"""Noise that is the same at each run of a test, where other noise could fail it by chance."""

import contextlib
import functools
import hashlib
import os
import secrets
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ParamSpec, TypeVar

import numpy as np

from streamsketch.privacy.samplers import KeyedBits

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_SYSTEM = os.urandom
SALT_NAME = "STREAMSKETCH_TEST_SALT"
SALT = os.environ.get(SALT_NAME, "")
"""Other bits for each test, where a run has a salt (make test-salted)."""

CHANCE = 5_000
"""A test that draws secret bits may fail a right library once in so many draws, unless it is marked with `rejects`."""

_KEY = hashlib.sha256(SALT.encode()).digest() if SALT else bytes(32)


def salted_rng(seed: int | Sequence[int]) -> np.random.Generator:
    """Return the generator of a seed, and in a run with a salt another: for data and draws of statistical tests.

    What is to be the same in every run, such as an exact output that a test pins, has a generator of its own.
    """
    if not SALT:
        return np.random.default_rng(seed)
    return np.random.default_rng([*np.atleast_1d(seed).tolist(), *_KEY])


def salted_seed(seed: int) -> int:
    """Return the public seed of a map, and in a run with a salt another: where a law is of all maps, not of a few."""
    return int(salted_rng(seed).integers(1 << 62)) if SALT else seed


def salted_bits(context: bytes, secret: bytes = bytes(32)) -> KeyedBits:
    """Return secret bits by their context, and in a run with a salt others: see `salted_rng`."""
    return KeyedBits(hashlib.sha256(_KEY + secret).digest() if SALT else secret, context)


@contextlib.contextmanager
def fixed_noise(name: str) -> Iterator[Mapping[str, KeyedBits]]:
    """Let this process draw secret bits by the name of a test; processes that it forks draw the system's.

    What it yields is empty as long as nothing is drawn.

    Each module draws from a stream of its own: what another draws when it is first imported, or for the name of a
    file, does not change the noise. UUIDs are the system's: Beam tells classes that it pickles apart by them, and would
    mistake one for another where a fixture that is set up twice repeats them.
    """
    streams: dict[str, KeyedBits] = {}
    lock, own = threading.RLock(), os.getpid()  # a finaliser may draw while a draw is under way

    def drawn(module: str, size: int) -> bytes:
        if os.getpid() != own or module == uuid.__name__:
            return _SYSTEM(size)
        with lock:
            if module not in streams:
                streams[module] = KeyedBits(_KEY, f"{name} {module}".encode())
            return streams[module].read(size)

    def token_bytes(nbytes: int | None = None) -> bytes:
        return drawn(sys._getframe(1).f_globals["__name__"], 32 if nbytes is None else nbytes)

    def randbits(k: int) -> int:
        return int.from_bytes(drawn(sys._getframe(1).f_globals["__name__"], -(-k // 8))) >> -k % 8

    before = os.urandom, secrets.token_bytes, secrets.randbits
    os.urandom = secrets.token_bytes = token_bytes
    secrets.randbits = randbits
    try:
        yield streams
    finally:
        os.urandom, secrets.token_bytes, secrets.randbits = before


def drawn_once(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Call a function once for its arguments: what it draws goes by its name, whichever test is the first to ask."""

    @functools.cache
    @functools.wraps(function)
    def drawn(*arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
        with fixed_noise(f"{function.__module__}.{function.__qualname__} {arguments} {named}"):
            return function(*arguments, **named)

    return drawn
