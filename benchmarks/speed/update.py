"""Batch Sketch.update, ns per item, beside its limit, C, peers and the textbook.

The *additions alone* are the same read-modify-writes into the same signed scratch, their cells given as uint16, by the
fastest loop that was measured, four rows abreast: what an update would cost if hashing, checking and bounding were
free. They read 2 bytes for each entry where the sketch reads 8 of an index. A batch of 16,384 items stays in the
caches, and one of a million does not. *Hash words alone* computes those, tile by tile, and throws them away. *C* is the
same algorithm by gcc with intrinsics, bit by bit. The *textbook* evaluates 2s polynomials an item, one for each bucket
and one for each sign; it does no checking either. *DataSketches* takes items one by one: a count-min sketch of as many
rows and buckets, which answers other questions.

*Two threads* update a sketch each with half of the items, on two cores, where one thread updates both.
"""

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import datasketches
import numpy as np

import streamsketch as ss
from benchmarks.rows import Effort, Row, Target, compare, compare_each
from benchmarks.speed.compiler import compiled
from benchmarks.speed.limits import additions_only, given_cells, hash_only
from benchmarks.speed.textbook import textbook_update
from benchmarks.timing import Work
from streamsketch.core.numbers import Ints
from streamsketch.kernels.hashing import BitSlices, Words, polynomials

SKETCH_DIM = 1024
INDEPENDENCE = 8
_TARGETS = {  # for s = 8
    "additions alone": Target("ratio", 1.15),
    "C": Target("ratio", 1.1),
    "textbook": Target("ratio", 1 / 15),
}
_CACHED, _TO_CACHED_ADDITIONS = 16_384, Target("ratio", 1.25)
_TO_ONE_THREAD = Target("ratio", 1 / 1.7)

CUpdate = Callable[[Ints, Ints, Ints], tuple[int, int]]


def run(effort: Effort) -> list[Row]:
    """Measure sparsities 8, 4 and 16 with narrow (< 2^32) and wide (< 2^60) indices, and two threads."""
    rows = [row for sparsity in (8, 4, 16) for bits in (32, 60) for row in _rows(sparsity, bits, effort)]
    cached = [_cached(bits, effort) for bits in (32, 60)]
    return [*rows, *cached, *(_threads(bits, effort) for bits in (32, 60))]


def _rows(sparsity: int, bits: int, effort: Effort) -> list[Row]:
    """Return one row beside the limit; for s = 8 a row beside each other."""
    n = effort.size(1_000_000)
    indices, values = _events(bits, n)
    projection = _projection(sparsity, bits)
    sketch = projection.sketch()
    cells, size = given_cells(projection, indices)
    coefficients = _coefficients(projection)
    contenders = {
        "Sketch.update": Work(lambda: sketch.update(indices, values), n),
        "additions alone": Work(lambda: additions_only(cells, values, size), n),
        "hash words alone": Work(lambda: hash_only(indices.view(np.uint64), coefficients), n),
    }
    in_c = c_update(projection)
    if in_c is not None:
        state = np.zeros(SKETCH_DIM, dtype=np.int64)
        contenders["C"] = Work(lambda: in_c(indices, values, state), n)
    name = f"s={sparsity}, k={SKETCH_DIM}, t={INDEPENDENCE}, indices < 2^{bits}"
    if sparsity != 8:
        return [compare(name, contenders, effort)]
    few = effort.size(n, least=10) // 10  # slow enough to be timed on a tenth
    contenders["textbook"] = _textbook(sparsity, indices[:few], values[:few])
    contenders["DataSketches, item by item"] = _count_min(sparsity, indices[:few])
    return compare_each(name, contenders, effort, _TARGETS)


def _cached(bits: int, effort: Effort) -> Row:
    n = effort.size(_CACHED)
    indices, values = _events(bits, n)
    projection = _projection(8, bits)
    sketch, (cells, size) = projection.sketch(), given_cells(projection, indices)
    coefficients = _coefficients(projection)
    contenders = {
        "Sketch.update": Work(lambda: sketch.update(indices, values), n),
        "additions alone": Work(lambda: additions_only(cells, values, size), n),
        "hash words alone": Work(lambda: hash_only(indices.view(np.uint64), coefficients), n),
    }
    return compare(f"{n:,} items, s=8, indices < 2^{bits}", contenders, effort, target=_TO_CACHED_ADDITIONS)


def _threads(bits: int, effort: Effort) -> Row:
    n = effort.size(4_000_000)
    halves = [_events(bits, n // 2), _events(bits, n // 2)]
    sketches = [_projection(8, bits).sketch() for _ in halves]
    pool = ThreadPoolExecutor(2)

    def update(place: int) -> None:
        sketches[place].update(*halves[place])

    return compare(
        f"two threads, s=8, indices < 2^{bits}",
        {
            "two threads": Work(lambda: list(pool.map(update, (0, 1))), n),
            "one thread": Work(lambda: list(map(update, (0, 1))), n),
        },
        effort,
        target=_TO_ONE_THREAD,
    )


def _projection(sparsity: int, bits: int) -> ss.SJLT:
    return ss.SJLT(dim=1 << bits, sketch_dim=SKETCH_DIM, sparsity=sparsity, independence=INDEPENDENCE, seed=2024)


def _events(bits: int, n: int) -> tuple[Ints, Ints]:
    rng = np.random.default_rng(1)
    return rng.integers(0, 1 << bits, n), rng.integers(-9, 10, n)


def _slices(projection: ss.SJLT) -> BitSlices:
    return BitSlices(rows=projection.sparsity, width=(projection.sketch_dim // projection.sparsity).bit_length())


def _coefficients(projection: ss.SJLT) -> Words:
    return polynomials(projection.seed, projection.kind, _slices(projection).words, projection.independence)


def _textbook(sparsity: int, indices: Ints, values: Ints) -> Work:
    words = polynomials(2024, "textbook", 2 * sparsity, INDEPENDENCE)
    coefficients = np.ascontiguousarray(words.T % np.uint64((1 << 61) - 1))
    state = np.zeros(SKETCH_DIM, dtype=np.int64)
    keys = indices.view(np.uint64)
    return Work(lambda: textbook_update(keys, values, coefficients, state), indices.size)


def _count_min(sparsity: int, indices: Ints) -> Work:
    sketch, items = datasketches.count_min_sketch(sparsity, SKETCH_DIM), indices.tolist()

    def loop() -> None:
        for index in items:
            sketch.update(index, 1)  # it takes positive weights

    return Work(loop, indices.size)


def c_update(projection: ss.SJLT) -> CUpdate | None:
    """Return what adds (indices, values) to a state in C and returns (largest index, mass); None without a compiler."""
    library = compiled("update")
    if library is None:
        return None
    function, size = library.update, ctypes.c_size_t
    words, ints = (np.ctypeslib.ndpointer(dtype=dtype, flags="C_CONTIGUOUS") for dtype in (np.uint64, np.int64))
    function.argtypes = [ints, ints, size, words, size, size, size, ctypes.c_uint, size, ints, words]
    slices = _slices(projection)
    coefficients, bounds = _coefficients(projection), np.zeros(3, dtype=np.uint64)
    sizes = (*coefficients.shape, slices.rows, slices.width, slices.rows_per_word)

    def update(indices: Ints, values: Ints, state: Ints) -> tuple[int, int]:
        if function(indices, values, indices.size, coefficients, *sizes, state, bounds):
            raise MemoryError("the C update found no memory for its scratch")
        largest, upper, lower = bounds.tolist()
        return largest, (upper << 32) + lower

    return update
