"""Fast Walsh-Hadamard transform in place, µs.

Peers: a C transform with vector registers, as wide as the processor has them, compiled here if a compiler is there;
the textbook triple loop in Numba; and what SciPy offers, a dense matrix to multiply with. The input is zeros,
which cost the same as numbers: those, transformed in place again and again, would overflow.
"""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.linalg import hadamard

from benchmarks.rows import MICROSECONDS, Effort, Row, Target, compare
from benchmarks.speed.compiler import compiled
from benchmarks.timing import Work
from streamsketch.projections.hadamard import hadamard_transform

C_TYPES = {"float64": ("double", "long long"), "float32": ("float", "int"), "int64": ("long long", "long long")}
"""dtype → the C names of a cell and of an integer as wide."""

_TO_C, _TO_NAIVE = Target("ratio", 0.8), Target("ratio", 0.1)


def run(effort: Effort) -> list[Row]:
    """Measure sizes and dtypes against C, and every dtype against the naive loop."""
    rows = []
    for name, bits in ((np.float64, 12), (np.float64, 15), (np.float64, 20), (np.float32, 15), (np.int64, 15)):
        dtype = np.dtype(name)
        in_c = compiled_c(dtype)
        if in_c is None:
            break
        cells = _zeros(bits, dtype, effort)
        contenders = {"streamsketch": _work(hadamard_transform, cells), "C, vectors": _work(in_c, cells)}
        target = _TO_C if dtype == np.float64 and bits == 15 else None
        rows.append(compare(f"{dtype}, {_size(cells)}", contenders, effort, MICROSECONDS, target))
    for dtype in map(np.dtype, C_TYPES):
        cells = _zeros(15, dtype, effort)
        contenders = {"streamsketch": _work(hadamard_transform, cells), "naive Numba": _work(_naive, cells)}
        target = _TO_NAIVE if dtype == np.float64 else None
        rows.append(compare(f"{dtype}, {_size(cells)}, naive", contenders, effort, MICROSECONDS, target))
    cells = _zeros(12, np.dtype(np.float64), effort)
    matrix = hadamard(cells.size, dtype=np.float64)
    contenders = {
        "streamsketch": _work(hadamard_transform, cells),
        "scipy.linalg.hadamard": Work(lambda: matrix @ cells),
    }
    return [*rows, compare(f"float64, {_size(cells)}, by a matrix", contenders, effort, MICROSECONDS)]


def _zeros(bits: int, dtype: np.dtype[Any], effort: Effort) -> NDArray[Any]:
    size = effort.size(1 << bits, least=128)  # 128: what the C transform needs for float32
    return np.zeros(1 << (size.bit_length() - 1), dtype=dtype)


def _size(cells: NDArray[Any]) -> str:
    return f"2^{cells.size.bit_length() - 1}"


def _work(transform: Callable[[NDArray[Any]], object], cells: NDArray[Any]) -> Work:
    return Work(lambda: transform(cells))


def compiled_c(dtype: np.dtype[Any]) -> Callable[[NDArray[Any]], object] | None:
    """Return the C transform for a dtype, or None without a compiler."""
    cell, index = C_TYPES[dtype.name]
    library = compiled("hadamard", f"CELL={cell}", f"INDEX={index}", f"SIZE={dtype.itemsize}")
    if library is None:
        return None
    function = library.hadamard
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return lambda cells: function(cells.ctypes.data, cells.size)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _naive(cells: NDArray[Any]) -> None:
    half = 1
    while half < cells.size:
        for first in range(0, cells.size, 2 * half):
            for i in range(first, first + half):
                x, y = cells[i], cells[i + half]
                cells[i] = x + y
                cells[i + half] = x - y
        half *= 2
