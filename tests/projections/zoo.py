"""Small projections of every kind and shape, for tests of what all of them share."""

from collections.abc import Callable

import pytest

import streamsketch as ss
from streamsketch.data.canonical import HASHED_DIM

LARGE = HASHED_DIM

SMALL = [
    ss.SJLT(dim=50, sketch_dim=64, sparsity=4, seed=1),
    ss.SJLT(dim=50, sketch_dim=13, sparsity=5, seed=2, construction="graph"),
    ss.SJLT(dim=7, sketch_dim=6, sparsity=6, seed=3, construction="graph"),
    ss.CountSketch(dim=50, sketch_dim=8, seed=4),
    ss.projections.Rademacher(dim=50, sketch_dim=70, seed=5),
    ss.projections.Rademacher(dim=1, sketch_dim=1, seed=6, independence=4),
    ss.projections.OPORP(dim=50, sketch_dim=10, seed=7),
    ss.projections.OPORP(dim=50, sketch_dim=7, seed=8),
    ss.projections.OPORP(dim=5, sketch_dim=5, seed=9),
    ss.projections.OPORP(dim=1, sketch_dim=1, seed=9),
    ss.projections.VerySparse(dim=50, sketch_dim=30, sparsity=1, seed=10),
    ss.projections.VerySparse(dim=50, sketch_dim=30, sparsity=40, seed=11),
    ss.projections.Achlioptas(dim=50, sketch_dim=9, seed=12),
    ss.projections.UniformProjection(dim=50, sketch_dim=9, seed=13, fraction_bits=2),
    ss.projections.UniformProjection(dim=50, sketch_dim=9, seed=13, fraction_bits=12),
    ss.projections.GaussianProjection(dim=50, sketch_dim=9, seed=14, fraction_bits=2),
    ss.projections.GaussianProjection(dim=50, sketch_dim=9, seed=14, fraction_bits=11, independence=5),
    ss.projections.SRHT(dim=50, sketch_dim=20, seed=15),
    ss.projections.SRHT(dim=64, sketch_dim=64, seed=16),
    ss.projections.SRHT(dim=1, sketch_dim=1, seed=17),
    ss.projections.FJLT(dim=50, sketch_dim=9, seed=18, density="1/8"),
    ss.projections.FJLT(dim=16, sketch_dim=4, seed=19, density=1, fraction_bits=4),
    ss.projections.Rotation(dim=50, sketch_dim=9, seed=20),
    ss.projections.Rotation(dim=6, sketch_dim=6, seed=21, fraction_bits=12),
    ss.projections.Identity(dim=50),
]
WIDE = [
    ss.SJLT(dim=LARGE, sketch_dim=20, sparsity=3, seed=1, construction="graph"),
    ss.projections.Rademacher(dim=LARGE, sketch_dim=64, seed=2),
    ss.projections.OPORP(dim=LARGE, sketch_dim=1000, seed=3),
    ss.projections.OPORP(dim=LARGE - 1, sketch_dim=1 << 20, seed=3),
    ss.projections.VerySparse(dim=LARGE, sketch_dim=30, sparsity=7, seed=4),
    ss.projections.UniformProjection(dim=LARGE, sketch_dim=9, seed=5),
    ss.projections.GaussianProjection(dim=LARGE, sketch_dim=9, seed=6),
    ss.projections.SRHT(dim=LARGE, sketch_dim=20, seed=7),
]

DIM = 12
FAMILIES: dict[str, Callable[[int], ss.projections.Projection]] = {
    "sjlt": lambda seed: ss.SJLT(dim=DIM, sketch_dim=8, sparsity=2, seed=seed, independence=4),
    "graph": lambda seed: ss.SJLT(dim=DIM, sketch_dim=7, sparsity=3, seed=seed, independence=4, construction="graph"),
    "count-sketch": lambda seed: ss.CountSketch(dim=DIM, sketch_dim=4, seed=seed, independence=4),
    "rademacher": lambda seed: ss.projections.Rademacher(dim=DIM, sketch_dim=5, seed=seed, independence=4),
    "oporp": lambda seed: ss.projections.OPORP(dim=DIM, sketch_dim=4, seed=seed, independence=4),
    "oporp, uneven bins": lambda seed: ss.projections.OPORP(dim=DIM, sketch_dim=5, seed=seed, independence=4),
    "very sparse": lambda seed: ss.projections.VerySparse(
        dim=DIM, sketch_dim=16, sparsity=8, seed=seed, independence=4
    ),
    "achlioptas": lambda seed: ss.projections.Achlioptas(dim=DIM, sketch_dim=5, seed=seed, independence=4),
    "uniform": lambda seed: ss.projections.UniformProjection(dim=DIM, sketch_dim=5, seed=seed, independence=4),
    "gaussian": lambda seed: ss.projections.GaussianProjection(dim=DIM, sketch_dim=5, seed=seed, independence=4),
    "srht": lambda seed: ss.projections.SRHT(dim=DIM, sketch_dim=5, seed=seed, independence=4),
    "fjlt": lambda seed: ss.projections.FJLT(dim=DIM, sketch_dim=8, seed=seed, density="1/4", independence=4),
    "rotation": lambda seed: ss.projections.Rotation(dim=DIM, sketch_dim=5, seed=seed),
    "rotation, rounded alone": lambda seed: ss.projections.Rotation(
        dim=DIM, sketch_dim=DIM, seed=seed, fraction_bits=2
    ),
    "rotation, coarse": lambda seed: ss.projections.Rotation(dim=DIM, sketch_dim=5, seed=seed, fraction_bits=2),
    "identity": lambda _: ss.projections.Identity(dim=DIM),
}
"""By seed, small enough that every law of their errors is tested over many seeds (`tests/statistical/test_maps.py`)."""


def name(projection: ss.projections.Projection) -> str:
    return f"{projection.kind}-{projection.dim}-{projection.sketch_dim}-{projection.seed}"


each_small = pytest.mark.parametrize("projection", SMALL, ids=name)
each_wide = pytest.mark.parametrize("projection", WIDE, ids=name)
each = pytest.mark.parametrize("projection", SMALL + WIDE, ids=name)
