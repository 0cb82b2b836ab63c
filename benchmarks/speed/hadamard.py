"""Fast Walsh-Hadamard transform in place, µs.

Peers: a C transform with vector registers in the manner of the FFHT library, compiled here if a compiler is there, and
the textbook triple loop in Numba. Random input, transformed again and again, would grow past any float: it is zeros,
which cost the same.
"""

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from benchmarks.rows import MICROSECONDS, Effort, Row, Target, compare
from benchmarks.timing import Work
from streamsketch import hadamard_transform

SIZES = (12, 15, 20)
_TO_C, _TO_NAIVE = Target("ratio", 1.2), Target("ratio", 0.1)


def run(effort: Effort) -> list[Row]:
    """Measure the sizes against C, and every dtype against the naive loop."""
    rows = []
    compiled = compiled_c()
    for bits in SIZES:
        if compiled is None:
            break
        cells = np.zeros(effort.size(1 << bits, least=64) & -64, dtype=np.float64)
        cells = cells[: 1 << (cells.size.bit_length() - 1)]
        contenders = {"streamsketch": _work(hadamard_transform, cells), "C, vectors": _work(compiled, cells)}
        target = _TO_C if bits == SIZES[1] else None
        rows.append(compare(f"float64, 2^{bits}", contenders, effort, MICROSECONDS, target))
    for dtype in (np.float64, np.float32, np.int64):
        cells = np.zeros(1 << (effort.size(1 << SIZES[1], least=64).bit_length() - 1), dtype=dtype)
        contenders = {"streamsketch": _work(hadamard_transform, cells), "naive Numba": _work(_naive, cells)}
        target = _TO_NAIVE if dtype is np.float64 else None
        rows.append(compare(f"{np.dtype(dtype)}, 2^{SIZES[1]}, naive", contenders, effort, MICROSECONDS, target))
    return rows


def _work(transform: Callable[[NDArray[Any]], object], cells: NDArray[Any]) -> Work:
    return Work(lambda: transform(cells))


def compiled_c() -> Callable[[NDArray[Any]], object] | None:
    """Return the C transform, or None without a compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    source = Path(__file__).with_suffix(".c")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "hadamard.so"
        command = [compiler, "-O3", "-march=native", "-Wno-psabi", "-shared", "-fPIC", "-o", str(library), str(source)]
        if subprocess.run(command, check=False, capture_output=True).returncode:  # noqa: S603 - our own source
            return None
        function = ctypes.CDLL(str(library)).hadamard
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return lambda cells: function(cells.ctypes.data, cells.size)


@njit  # type: ignore[untyped-decorator]
def _naive(cells: NDArray[Any]) -> None:
    half = 1
    while half < cells.size:
        for first in range(0, cells.size, 2 * half):
            for i in range(first, first + half):
                x, y = cells[i], cells[i + half]
                cells[i] = x + y
                cells[i + half] = x - y
        half *= 2
