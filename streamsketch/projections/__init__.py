"""The public maps: integer matrices that anyone can rebuild from a seed, times a public scale."""

from streamsketch.projections.base import Projection
from streamsketch.projections.identity import Identity
from streamsketch.projections.independent import Achlioptas, Gaussian, Uniform, VerySparse
from streamsketch.projections.oporp import OPORP
from streamsketch.projections.sjlt import SJLT, CountSketch, Rademacher

__all__ = [
    "OPORP",
    "SJLT",
    "Achlioptas",
    "CountSketch",
    "Gaussian",
    "Identity",
    "Projection",
    "Rademacher",
    "Uniform",
    "VerySparse",
]
