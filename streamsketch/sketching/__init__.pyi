from .bounding.agreed import agreed_columns, bound, bound_batches
from .bounding.contributions import Contributions, Reader, concatenated
from .bounding.cut import MAX_LIMIT, Bounded, Clip, bounded, check_clip
from .bounding.digests import UnitDigests
from .bounding.objects import is_malformed
from .bounding.runs import Runs
from .bounding.summary import BoundingSummary
from .bounding.units import SECRET_BYTES, WHOLE, Batch, UnitBounds, bound_units, unit_totals
from .encoding import encode_batch
from .keyed import keyed_steps, public_names, warn_of_other_types
from .sketch import Sketch
from .table import SketchTable

__all__ = [
    "MAX_LIMIT",
    "SECRET_BYTES",
    "WHOLE",
    "Batch",
    "Bounded",
    "BoundingSummary",
    "Clip",
    "Contributions",
    "Reader",
    "Runs",
    "Sketch",
    "SketchTable",
    "UnitBounds",
    "UnitDigests",
    "agreed_columns",
    "bound",
    "bound_batches",
    "bound_units",
    "bounded",
    "check_clip",
    "concatenated",
    "encode_batch",
    "is_malformed",
    "keyed_steps",
    "public_names",
    "unit_totals",
    "warn_of_other_types",
]
