"""The public maps: integer matrices that anyone can rebuild from a seed, times a public scale."""

from streamsketch.projections.base import Projection
from streamsketch.projections.fjlt import FJLT
from streamsketch.projections.hadamard import hadamard_transform
from streamsketch.projections.identity import Identity
from streamsketch.projections.independent import Achlioptas, Gaussian, Uniform, VerySparse
from streamsketch.projections.oporp import OPORP
from streamsketch.projections.rotation import Rotation
from streamsketch.projections.sjlt import SJLT, CountSketch, Rademacher
from streamsketch.projections.srht import SRHT

__all__ = [
    "FJLT",
    "OPORP",
    "SJLT",
    "SRHT",
    "Achlioptas",
    "CountSketch",
    "Gaussian",
    "Identity",
    "Projection",
    "Rademacher",
    "Rotation",
    "Uniform",
    "VerySparse",
    "hadamard_transform",
]
