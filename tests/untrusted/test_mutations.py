"""Changed at random, bytes are read or refused with the documented error, in bounded memory.

With STREAMSKETCH_FUZZ_ROUNDS set, each reader takes as many inputs; with STREAMSKETCH_FUZZ_SEED, others.
"""

import contextlib
import os
import random
import tracemalloc
from collections.abc import Iterator

import pyarrow as pa
import pytest

import streamsketch as ss
from tests.untrusted.inventory import ELSEWHERE, READERS, found
from tests.untrusted.readers import readers, use

NAMES = [
    *(
        "avro message",
        "release",
        "load",
        "signs",
        "sign index",
        "signs of tables",
        "table",
        "sign table",
        "raw",
        "coder",
        "mean",
        "projection",
    ),
    *("mechanism", "ledger"),
    *("round", "contribution", "envelope", "signatures", "signed table", "public key", "private key"),
    *(
        "report of priv-unit-g",
        "report of proj-unit",
        "report of sqkr",
        "report of priv-hs",
        "raw header",
        "raw of version 2",
    ),
    *(f"events in {form}" for form in ("csv", "csv.gz", "jsonl", "avro", "parquet", "log")),
    *("lines of csv", "lines of jsonl", "messages in arrow", "messages in json"),
    *("job", "agreement", "features", "state of units", "state of sums", "state of rows", "claim", "root key"),
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


def test_every_function_that_reads_is_listed() -> None:
    """A new one fails here until a reader of these tests changes what it gets, or a reason stands beside it."""
    listed = [name for names in (*READERS.values(), *ELSEWHERE.values()) for name in names]
    assert len(set(listed)) == len(listed)
    assert set(listed) == set(found())
    assert READERS.keys() <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_samples_are_sound(name: str) -> None:
    for sample in readers()[name].samples:
        use(readers()[name].read(sample))


@pytest.fixture
def arrow_memory() -> Iterator[pa.MemoryPool]:
    """Count what Arrow takes in a test."""
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    pa.set_memory_pool(pool)
    yield pool
    pa.set_memory_pool(before)


def check(name: str, seed: int, rounds: int, pool: pa.MemoryPool) -> None:
    tracemalloc.start()
    try:
        sound = fuzz(name, seed, rounds)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MOST_MEMORY
    assert pool.max_memory() < MOST_MEMORY
    assert sound < rounds or not readers()[name].error, "where nothing raises, all is read"


@pytest.mark.filterwarnings("ignore::streamsketch.errors.NoiseMismatchWarning")  # changed numbers that are read
@pytest.mark.parametrize("name", NAMES)
def test_changed_bytes_are_read_or_refused(name: str, arrow_memory: pa.MemoryPool) -> None:
    check(name, SEED, ROUNDS or (10 if "table" in name or "lines" in name else 15), arrow_memory)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::streamsketch.errors.NoiseMismatchWarning")  # changed numbers that are read
@pytest.mark.parametrize("seed", range(2, 6))
@pytest.mark.parametrize("name", NAMES)
def test_many_changed_bytes_are_read_or_refused(name: str, seed: int, arrow_memory: pa.MemoryPool) -> None:
    check(name, seed, 300 if "table" in name else 3000, arrow_memory)
