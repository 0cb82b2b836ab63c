"""Changed at random, bytes are read or refused with the documented error, in bounded memory.

With STREAMSKETCH_FUZZ_ROUNDS set, each reader takes as many inputs; with STREAMSKETCH_FUZZ_SEED, others.
"""

import contextlib
import os
import random
import tracemalloc

import pytest

import streamsketch as ss
from tests.untrusted.readers import readers, use

NAMES = [
    *("release", "load", "signs", "table", "sign table", "raw", "coder", "mean", "projection", "mechanism", "ledger"),
    *("round", "contribution", "envelope", "signatures", "signed table", "public key", "private key"),
    *("report of priv-unit-g", "report of proj-unit", "report of sqkr", "report of priv-hs"),
]
ROUNDS = int(os.environ.get("STREAMSKETCH_FUZZ_ROUNDS", "0"))
SEED = int(os.environ.get("STREAMSKETCH_FUZZ_SEED", "1"))
MOST_MEMORY = 300 << 20


def fuzz(name: str, seed: int, rounds: int) -> int:
    """Return how many changed inputs of a reader were sound; raise what it must not raise."""
    reader, chance, sound = readers()[name], random.Random(f"{name}/{seed}"), 0  # noqa: S311 - it draws tests, no secrets
    for _ in range(rounds):
        data = chance.choice(reader.changes)(chance.choice(reader.samples), chance)
        try:
            read = reader.read(data)
        except reader.error as error:
            str(error).encode()
            continue
        sound += 1
        with contextlib.suppress(ss.StreamsketchError):
            use(read)
    return sound


def test_every_reader_is_there() -> None:
    assert set(NAMES) == set(readers())


@pytest.mark.parametrize("name", NAMES)
def test_samples_are_sound(name: str) -> None:
    for sample in readers()[name].samples:
        use(readers()[name].read(sample))


@pytest.mark.parametrize("name", NAMES)
def test_changed_bytes_are_read_or_refused(name: str) -> None:
    rounds = ROUNDS or (20 if "table" in name else 60)
    tracemalloc.start()
    try:
        sound = fuzz(name, SEED, rounds)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MOST_MEMORY
    assert sound < rounds
