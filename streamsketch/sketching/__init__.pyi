from .bounding.contributions import Contributions, Reader, concatenated, is_malformed
from .bounding.cut import Bounded, bounded
from .encoding import encode_batch
from .keyed import keyed_steps
from .sketch import Sketch
from .table import SketchTable

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
