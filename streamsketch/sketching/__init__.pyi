from .bounding.contributions import Contributions, Reader, concatenated, is_malformed
from .bounding.cut import Bounded, bounded
from .sketch import Sketch, encode_batch
from .table import SketchTable, keyed_steps

__all__ = [
    "Bounded",
    "Contributions",
    "Reader",
    "Sketch",
    "SketchTable",
    "bounded",
    "concatenated",
    "encode_batch",
    "is_malformed",
    "keyed_steps",
]
