"""All pairs of n published sign sketches, ns per pair.

`hamming_distances` counts differing bits of packed signs; the others are squared distances of float32 rows of as many
cells by one matrix product: in place, as fast as NumPy writes them, and the bare product without the distances.
Both use all cores. OpenBLAS picks its kernels by the processor's name, and for new ones not always the widest: where
the processor has AVX-512, both kinds are measured, each in a process of its own.

The nearest members of a collection are also searched by FAISS's `IndexBinaryFlat`, if it is installed (`pip install
faiss-cpu`, or the dependency group ``peers``), which must find the same distances. Both use all cores, FAISS by OpenMP,
whose threads spin while they wait; so it is measured with one thread, too.
"""

import dataclasses
import importlib.util
import json
import os
import subprocess
import sys
from fractions import Fraction
from typing import Any

import numpy as np
from llvmlite import binding
from numpy.typing import NDArray

import streamsketch as ss
from benchmarks.rows import MILLISECONDS, NANOSECONDS, Effort, Row, Target, compare, compare_each
from benchmarks.timing import Work
from streamsketch.kernels.popcount import in_blocks
from streamsketch.privacy.flip_sampler import flips
from streamsketch.privacy.samplers import SystemBits, discrete_laplace
from streamsketch.signs.hamming import distances_between, nearest_in

_CELLS = 1024


def run(effort: Effort) -> list[Row]:
    """Measure 10,000 sketches of 1024 cells, and what it costs to publish them."""
    pairs = (row for kernels in blas_kernels() for row in _with_kernels(kernels, effort))
    return [
        *pairs,
        _nearest(100_000, effort, Target("ours", 30)),
        _nearest(1_000_000, effort),
        _publishing(effort),
        _flips(effort),
    ]


def all_pairs(kernels: str, effort: Effort) -> list[Row]:
    """Return the rows of all pairs, with the kernels this process has."""
    n = effort.size(10_000, least=2)
    words = np.random.default_rng(1).integers(0, 1 << 63, (n, _CELLS // 64), dtype=np.int64).view(np.uint64)
    rows = np.random.default_rng(2).standard_normal((n, _CELLS), dtype=np.float32)
    few = Effort(effort.name, min(effort.rounds, 7), effort.sample, effort.shrink)
    return compare_each(
        f"{n:,} sketches, k={_CELLS}, {kernels}",
        {
            "hamming_distances": Work(lambda: distances_between(words, words), n * n),
            "float32 BLAS distances": Work(lambda: _squared_distances(rows), n * n),
            "float32 BLAS product alone": Work(lambda: rows @ rows.T, n * n),
        },
        few,
        {"float32 BLAS distances": Target("ours", 0.6), "float32 BLAS product alone": Target("ratio", 0.2)},
    )


def blas_kernels() -> list[str]:
    """Return the kinds of kernels to measure, by OpenBLAS's names."""
    return ["Haswell", "SkylakeX"] if binding.get_host_cpu_features().get("avx512bw") else ["the default kernels"]


def _with_kernels(kernels: str, effort: Effort) -> list[Row]:
    """Return the rows of a process with those kernels."""
    environment = dict(os.environ) if " " in kernels else os.environ | {"OPENBLAS_CORETYPE": kernels}
    command = [sys.executable, "-m", "benchmarks.speed.signs", kernels, json.dumps(dataclasses.astuple(effort))]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)  # noqa: S603 - ourselves
    return [_read(row) for row in json.loads(done.stdout)]


def _read(row: dict[str, Any]) -> Row:
    target = None if row["target"] is None else Target(**row["target"])
    return Row(**row | {"target": target})


def _squared_distances(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    squares = np.einsum("ij,ij->i", rows, rows)
    gaps: NDArray[np.float32] = rows @ rows.T
    gaps *= -2
    gaps += squares
    gaps += squares[:, None]
    return gaps


def _publishing(effort: Effort) -> Row:
    n = effort.size(1000)
    projection = ss.projections.Rademacher(dim=784, sketch_dim=_CELLS, seed=1)
    matrix = np.random.default_rng(3).integers(0, 10, (n, 784))
    signs = ss.signs.DPSignRPRRSmooth(epsilon=1.0, neighbours=ss.OneCoordinate(1))
    cells = ss.release.PrivateProjection(projection=projection, epsilon=1.0, delta=1e-6, neighbours=ss.OneCoordinate(1))
    return compare(
        f"publish {n:,} rows of 784, per cell",
        {
            "DPSignRPRRSmooth": Work(lambda: signs.release_rows(projection, matrix), n * _CELLS),
            "PrivateProjection": Work(lambda: cells.release(matrix), n * _CELLS),
        },
        effort,
        NANOSECONDS,
    )


def _nearest(count: int, effort: Effort, target: Target | None = None) -> Row:
    """Measure the ten nearest of a collection for 100 queries, beside FAISS and sorting all their distances."""
    n, m = 100, effort.size(count, least=10)
    words = np.random.default_rng(5).integers(0, 1 << 63, (n + m, _CELLS // 64), dtype=np.int64).view(np.uint64)
    queries, members = words[:n].copy(), words[n:].copy()
    blocks = in_blocks(members)
    contenders = {"nearest": Work(lambda: nearest_in(queries, blocks, m, 10))}
    if importlib.util.find_spec("faiss"):
        faiss = importlib.import_module("faiss")
        index, threads, asked = faiss.IndexBinaryFlat(_CELLS), faiss.omp_get_max_threads(), queries.view(np.uint8)
        index.add(members.view(np.uint8))

        def search(threads: int) -> Any:
            faiss.omp_set_num_threads(threads)
            return index.search(asked, 10)

        if not np.array_equal(search(threads)[0], nearest_in(queries, blocks, m, 10).distances):
            raise RuntimeError("FAISS finds other distances")
        contenders["FAISS IndexBinaryFlat"] = Work(lambda: search(threads))
        contenders["FAISS, one thread"] = Work(lambda: search(1))
    contenders["sorted distances"] = Work(lambda: np.argsort(distances_between(queries, members), axis=1))
    few = effort if count <= 100_000 else Effort(effort.name, min(effort.rounds, 5), effort.sample, effort.shrink)
    return compare(f"the 10 nearest of {m:,} codes for {n} queries, k={_CELLS}", contenders, few, MILLISECONDS, target)


def _flips(effort: Effort) -> Row:
    """Measure the flips of one vector alone, bits of the operating system included, beside the noise of its cells."""
    levels = np.random.default_rng(4).integers(0, 1000, _CELLS)
    rate, scale, bits = Fraction(1, 256), Fraction(8), SystemBits()
    return compare(
        f"flips of {_CELLS} signs, SystemBits, per sign",
        {
            "flips": Work(lambda: flips(levels, rate, bits), _CELLS),
            "discrete Laplace noise": Work(lambda: discrete_laplace(scale, _CELLS, bits), _CELLS),
        },
        effort,
        NANOSECONDS,
        target=Target("ours", 15),
    )


if __name__ == "__main__":
    rows = all_pairs(sys.argv[1], Effort(*json.loads(sys.argv[2])))
    print(json.dumps([dataclasses.asdict(row) for row in rows]))  # noqa: T201
