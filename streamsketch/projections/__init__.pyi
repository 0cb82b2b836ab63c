from .base import MAX_MASS, MAX_SKETCH_DIM, MatrixNumber, Projection, check_entries, register
from .block_hashed import BlockHashed
from .explicit import MAX_ENUMERATED, RandomNorms
from .families import KINDS, projection_from_fields
from .fjlt import FJLT
from .hadamard import hadamard_transform, transform_cells
from .identity import Identity
from .independent import Achlioptas, GaussianProjection, UniformProjection, VerySparse
from .oporp import OPORP
from .rotation import Rotation
from .sjlt import SJLT, CountSketch, Rademacher
from .srht import SRHT
from .transform import transform_read
from .variance import MapVariance, Real

__all__ = [
    "FJLT",
    "KINDS",
    "MAX_ENUMERATED",
    "MAX_MASS",
    "MAX_SKETCH_DIM",
    "OPORP",
    "SJLT",
    "SRHT",
    "Achlioptas",
    "BlockHashed",
    "CountSketch",
    "GaussianProjection",
    "Identity",
    "MapVariance",
    "MatrixNumber",
    "Projection",
    "Rademacher",
    "RandomNorms",
    "Real",
    "Rotation",
    "UniformProjection",
    "VerySparse",
    "check_entries",
    "hadamard_transform",
    "projection_from_fields",
    "register",
    "transform_cells",
    "transform_read",
]
