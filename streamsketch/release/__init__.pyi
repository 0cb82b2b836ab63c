from .additive_noise import AdditiveNoise
from .composition import compose
from .pan_private import PanPrivateSketch
from .private_matrix import PrivateProjection
from .private_sketch import PrivateSketch
from .private_table import PrivateTable
from .private_vector import release_vector

__all__ = [
    "AdditiveNoise",
    "PanPrivateSketch",
    "PrivateProjection",
    "PrivateSketch",
    "PrivateTable",
    "compose",
    "release_vector",
]
