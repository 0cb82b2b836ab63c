"""Batch Sketch.update, ns per item, beside its limit and the textbook.

The *scatter limit* does the same read-modify-writes into the same signed scratch, four rows a pass as the real
kernel, with the hash words computed beforehand: what an update would cost if hashing, checking and
bounding were free. It reads as many bytes of words as the sketch reads of indices (twice as many when a
column takes two words). The *textbook* evaluates 2s polynomials an item, one for
each bucket and one for each sign; it does no checking either.
"""

import numpy as np

import streamsketch as ss
from benchmarks.rows import Effort, Row, Target, compare
from benchmarks.speed.limits import hash_words, scatter_only
from benchmarks.speed.textbook import textbook_update
from benchmarks.timing import Work
from streamsketch.encoding import Ints
from streamsketch.hashing import polynomials

SKETCH_DIM = 1024
INDEPENDENCE = 8
_TARGET = Target("ratio", 2.2)  # for s = 8


def run(effort: Effort) -> list[Row]:
    """Measure sparsities 4, 8 and 16 with narrow (< 2^32) and wide (< 2^60) indices."""
    return [_row(sparsity, bits, effort) for sparsity in (8, 4, 16) for bits in (32, 60)]


def _row(sparsity: int, bits: int, effort: Effort) -> Row:
    rng = np.random.default_rng(1)
    n = effort.size(1_000_000)
    indices, values = rng.integers(0, 1 << bits, n), rng.integers(-9, 10, n)
    projection = ss.SJLT(dim=1 << bits, sketch_dim=SKETCH_DIM, sparsity=sparsity, independence=INDEPENDENCE, seed=2024)
    sketch = projection.sketch()
    words, slices = hash_words(projection, indices)

    few = effort.size(n, least=10) // 10  # the textbook is slow enough to be timed on a tenth
    return compare(
        f"s={sparsity}, k={SKETCH_DIM}, t={INDEPENDENCE}, indices < 2^{bits}",
        {
            "Sketch.update": Work(lambda: sketch.update(indices, values), n),
            "scatter limit": Work(lambda: scatter_only(words, values, slices.rows, slices.width), n),
            "textbook": _textbook(sparsity, indices[:few], values[:few]),
        },
        effort,
        target=_TARGET if sparsity == 8 else None,
    )


def _textbook(sparsity: int, indices: Ints, values: Ints) -> Work:
    coefficients = np.ascontiguousarray(polynomials(2024, "textbook", 2 * sparsity, INDEPENDENCE).T)
    state = np.zeros(SKETCH_DIM, dtype=np.int64)
    keys = indices.view(np.uint64)
    return Work(lambda: textbook_update(keys, values, coefficients, state), indices.size)
