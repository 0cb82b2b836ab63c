"""Exact discrete noise, ns per cell.

A release draws one sample for each of its cells; here it has 1024. The bits are part of the price: from
the operating system for each release, or from SHAKE-256 where a pipeline may retry. The table of a distribution is
made once, in about a millisecond, which is no part of it. OpenDP's samplers are exact too; they are timed through its
measurements on a list of zeros, whose conversion is a small part of their figure.
"""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import opendp.prelude as dp

from benchmarks.rows import Effort, Row, Target, compare
from benchmarks.timing import Work
from streamsketch.core.numbers import Ints
from streamsketch.privacy.samplers import BitSource, KeyedBits, SystemBits, discrete_gaussian, discrete_laplace

CELLS = 1024
SCALE = 8  # of the Laplace noise for s = 8, ε = 1
SIGMA = 16  # about that of the Gaussian noise for s = 8, ε = 1, δ = 1e-6

_TO_OPENDP = Target("ratio", 1 / 20)
_FROM_SYSTEM = {"Laplace": Target("ours", 20), "Gaussian": Target("ours", 20)}

Sampler = Callable[[BitSource], Ints]


def run(effort: Effort) -> list[Row]:
    """Measure both mechanisms with both sources of bits."""
    dp.enable_features("contrib")
    ints = dp.vector_domain(dp.atom_domain(T=int))
    laplace = dp.m.make_laplace(ints, dp.l1_distance(T=int), scale=float(SCALE))
    gaussian = dp.m.make_gaussian(ints, dp.l2_distance(T=float), scale=float(SIGMA))
    return [
        *_rows("Laplace", lambda bits: discrete_laplace(Fraction(SCALE), CELLS, bits), laplace, effort),
        *_rows("Gaussian", lambda bits: discrete_gaussian(Fraction(SIGMA**2), CELLS, bits), gaussian, effort),
    ]


def _rows(name: str, sampler: Sampler, peer: Callable[[list[int]], object], effort: Effort) -> list[Row]:
    zeros = np.zeros(CELLS, dtype=np.int64).tolist()

    def keyed() -> BitSource:
        return KeyedBits(bytes(32), b"benchmark")  # no secret: this noise protects nothing

    sources: dict[str, Callable[[], BitSource]] = {"SystemBits": SystemBits, "KeyedBits": keyed}
    return [
        compare(
            f"discrete {name}, {source}",
            {
                "streamsketch": Work(lambda make=make: sampler(make()), CELLS),  # type: ignore[misc]
                "OpenDP": Work(lambda: peer(zeros), CELLS),
            },
            effort,
            target=_FROM_SYSTEM[name] if source == "SystemBits" else _TO_OPENDP,
        )
        for source, make in sources.items()
    ]
