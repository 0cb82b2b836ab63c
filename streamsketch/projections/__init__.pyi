from .base import Projection
from .fjlt import FJLT
from .identity import Identity
from .independent import Achlioptas, GaussianProjection, UniformProjection, VerySparse
from .oporp import OPORP
from .rotation import Rotation
from .sjlt import SJLT, CountSketch, Rademacher
from .srht import SRHT
from .variance import MapVariance

__all__ = [
    "FJLT",
    "OPORP",
    "SJLT",
    "SRHT",
    "Achlioptas",
    "CountSketch",
    "GaussianProjection",
    "Identity",
    "MapVariance",
    "Projection",
    "Rademacher",
    "Rotation",
    "UniformProjection",
    "VerySparse",
]
