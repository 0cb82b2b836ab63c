"""Kernels that suit the processor's features give the same bits with fewer, and use no instruction of others."""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from streamsketch import SJLT
from streamsketch.kernels import carryless
from streamsketch.kernels.blake2b import digest_under_keys
from streamsketch.kernels.popcount import in_blocks
from streamsketch.local import MeanAggregator, ProjUnit
from streamsketch.privacy.samplers import KeyedBits
from streamsketch.projections.hadamard import hadamard_transform
from streamsketch.signs.hamming import distances_between, nearest_in
from streamsketch.sketching.bounding.digests import UnitDigests
from tests.fewer_features import outputs_of

BASE = "+sse,+sse2"
OLD = f"{BASE},+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt"
NARROW = f"{OLD},+avx,+avx2,+fma"
WIDE = f"{NARROW},+avx512f,+avx512bw,+avx512dq,+avx512vl"
COUNTING = f"{WIDE},+avx512vpopcntdq"
WORDS = ("popcnt", "ymm", "vfmadd", "zmm", "vpopcnt")
FOUND = {  # features → which of the words appear in the code of arithmetic, and of hashing
    BASE: ([], []),
    OLD: (["popcnt"], []),
    NARROW: (["ymm", "vfmadd"], ["ymm"]),
    WIDE: (["ymm", "vfmadd", "zmm"], ["ymm", "zmm"]),
    COUNTING: (["popcnt", "ymm", "vfmadd", "zmm", "vpopcnt"], ["ymm", "zmm"]),
}

IMPORTS = """
import warnings
warnings.simplefilter("ignore")
from streamsketch.kernels.blake2b import compress_lanes, hash_texts
from streamsketch.projections.hadamard import transform_cells
from streamsketch.kernels.popcount import count_pairs
from tests.kernels.test_targets import WORDS, results
"""
PROGRAM = """
print(results(arguments))
for kernels in ((transform_cells, count_pairs), (compress_lanes, hash_texts)):
    code = "".join(text for kernel in kernels for text in kernel.inspect_asm().values())
    print(*(word for word in WORDS if word in code))
"""


def transforms(dtype: type) -> Iterator[bytes]:
    rng = np.random.default_rng(1)
    for bits in (4, 9, 13, 16):
        cells = (rng.normal(size=1 << bits) * 1000).astype(dtype)
        hadamard_transform(cells)
        yield cells.tobytes()


def counts(words: int) -> Iterator[bytes]:
    rows = np.random.default_rng(2).integers(0, 1 << 63, (70, words)).view(np.uint64)
    for columns in (rows, rows[:37]):
        yield distances_between(rows, columns).astype(np.int32).tobytes()
        yield nearest_in(rows, in_blocks(columns), len(columns), 5).places.tobytes()


def reports() -> Iterator[bytes]:
    vectors = np.random.default_rng(3).normal(size=(3, 700))
    vectors /= np.linalg.norm(vectors, axis=1)[:, np.newaxis]
    mechanism = ProjUnit(dim=700, sketch_dim=50, epsilon=4.0, shared=True)
    sent = mechanism.randomize_many(vectors, bits=KeyedBits(bytes(32), b""))
    server = MeanAggregator(mechanism)
    server.add(sent)
    yield from (sent.values.tobytes(), server.totals.tobytes())


def digests() -> Iterator[bytes]:
    rng = np.random.default_rng(4)
    texts = pa.array([rng.bytes(size) for size in [*range(300), *range(60)]])
    yield SJLT(sketch_dim=8, sparsity=1, seed=1).indices_of(texts).tobytes()
    yield UnitDigests(bytes(32)).of(texts).tobytes()
    yield digest_under_keys(rng.integers(0, 1 << 63, (20, 2)).view(np.uint64), b"p", [b"", b"12"]).tobytes()


PARTS = {
    "transforms": lambda: transforms(np.float64),
    "transforms of integers": lambda: transforms(np.int64),
    "counts": lambda: counts(3),
    "large counts": lambda: counts(520),
    "reports": reports,
    "digests": digests,
}
FIRST = {BASE: ["transforms"]}  # without wide registers and fused multiply-add


def results(parts: Iterable[str]) -> str:
    """Return a digest of what the kernels compute."""
    return hashlib.blake2b(b"".join(one for part in parts for one in PARTS[part]()), digest_size=16).hexdigest()


@pytest.mark.parametrize("cases", [FIRST, pytest.param({each: [*PARTS] for each in FOUND}, marks=pytest.mark.long)])
def test_every_processor_gets_the_same_bits(cases: dict[str, list[str]], tmp_path: Path) -> None:
    """Code is generated for less than this processor."""
    triple, _, here = carryless.target()
    possible = [each for each in cases if triple.startswith("x86_64") and set(each.split(",")) <= set(here.split(","))]
    if not possible:
        pytest.skip("not an x86 processor")
    calls = [(features, cases[features]) for features in possible]
    (outputs,) = outputs_of(IMPORTS, PROGRAM, [calls], tmp_path)  # code from another cache could not be looked at
    for (features, parts), (found, *words) in zip(calls, outputs, strict=True):
        assert found == results(parts), features
        assert tuple(line.split() for line in words) == FOUND[features], features
