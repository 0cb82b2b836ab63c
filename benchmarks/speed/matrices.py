"""Whole matrices by an SJLT, ms.

Beside scikit-learn's sparse random projection of the same density, whose fit is not counted (ours has none) except in
the row that says so; SciPy's CountSketch, which has one nonzero a column where ours has eight, draws its map in every
call, and gets the matrix transposed beforehand, as it sketches columns; and the plain product with a dense matrix.
"""

from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import clarkson_woodruff_transform
from sklearn.random_projection import SparseRandomProjection

from benchmarks.rows import MILLISECONDS, Effort, Row, Target, compare
from benchmarks.timing import Work
from streamsketch import SJLT

SKETCH_DIM, SPARSITY = 1024, 8
_CSR, _DENSE = Target("ratio", 1 / 8), Target("ratio", 1 / 5)


def run(effort: Effort) -> list[Row]:
    """Measure sparse and dense rows."""
    random = np.random.default_rng(1)
    rows, nonzeros = effort.size(1000, least=4), 100
    dim = effort.size(100_000, least=2 * SKETCH_DIM)
    columns = random.integers(0, dim, rows * nonzeros)
    ends = np.arange(0, rows * nonzeros + 1, nonzeros)
    csr = sparse.csr_array((random.normal(size=columns.size), columns, ends), shape=(rows, dim))
    csr.sum_duplicates()
    dense = random.normal(size=(rows, effort.size(4096, least=2 * SKETCH_DIM)))
    return [
        _row("CSR, 100 nonzeros a row, float64", csr, effort, _CSR, {}),
        _first(csr, effort),
        _row("dense, float64", dense, effort, _DENSE, _product(dense)),
        _row("dense, float32", dense.astype(np.float32), effort, _DENSE, _product(dense.astype(np.float32))),
    ]


def _row(name: str, matrix: Any, effort: Effort, target: Target, others: dict[str, Work]) -> Row:
    projection, peer = _projection(matrix), _peer()
    peer.fit(matrix)
    turned = sparse.csc_array(matrix.T) if sparse.issparse(matrix) else np.ascontiguousarray(matrix.T)
    contenders = {
        "streamsketch": Work(lambda: projection.transform(matrix)),
        "scikit-learn": Work(lambda: peer.transform(matrix)),
        "SciPy, one nonzero a column": Work(lambda: clarkson_woodruff_transform(turned, SKETCH_DIM, 1)),
        **others,
    }
    return compare(f"{name}, n = {matrix.shape[0]}, d = {matrix.shape[1]}", contenders, effort, MILLISECONDS, target)


def _first(matrix: Any, effort: Effort) -> Row:
    """Measure what the first matrix costs, from nothing."""
    few = Effort(effort.name, min(effort.rounds, 5), 0.0, effort.shrink)
    contenders = {
        "streamsketch": Work(lambda: _projection(matrix).transform(matrix)),
        "scikit-learn": Work(lambda: _peer().fit_transform(matrix)),
    }
    return compare("CSR, the same, fit included", contenders, few, MILLISECONDS)


def _projection(matrix: Any) -> SJLT:
    return SJLT(dim=matrix.shape[1], sketch_dim=SKETCH_DIM, sparsity=SPARSITY, seed=1)


def _peer() -> SparseRandomProjection:
    return SparseRandomProjection(SKETCH_DIM, density=SPARSITY / SKETCH_DIM, dense_output=True, random_state=1)


def _product(matrix: Any) -> dict[str, Work]:
    dense = np.ones((matrix.shape[1], SKETCH_DIM), dtype=matrix.dtype)
    return {"dense product": Work(lambda: matrix @ dense)}
