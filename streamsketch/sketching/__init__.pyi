from .bounding.agreed import bound, bound_batches
from .bounding.contributions import Contributions, Reader, concatenated, is_malformed
from .bounding.cut import MAX_LIMIT, Bounded, Clip, bounded, check_clip
from .bounding.digests import UnitDigests
from .bounding.summary import BoundingSummary
from .bounding.units import Batch, bound_units, unit_totals
from .encoding import encode_batch
from .keyed import keyed_steps
from .sketch import Sketch
from .table import SketchTable

__all__ = [
    "MAX_LIMIT",
    "Batch",
    "Bounded",
    "BoundingSummary",
    "Clip",
    "Contributions",
    "Reader",
    "Sketch",
    "SketchTable",
    "UnitDigests",
    "bound",
    "bound_batches",
    "bound_units",
    "bounded",
    "check_clip",
    "concatenated",
    "encode_batch",
    "is_malformed",
    "keyed_steps",
    "unit_totals",
]
