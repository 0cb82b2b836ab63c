from .bounding.admission import Admission
from .bounding.clip import MAX_LIMIT, Bounded, bounded, check_clip
from .bounding.contributions import NO_KEY, WHOLE, Contributions, concatenated
from .bounding.digests import UnitDigests
from .bounding.runs import Runs
from .bounding.shards import by_shard, decoded
from .bounding.summary import BoundingSummary
from .bounding.units import SECRET_BYTES, Batch, UnitBounds, bound, bound_batches, bound_units, totals_of, unit_totals
from .encoding import counting_of, encode_batch
from .in_windows import sketch_by_windows, sketch_windows, windows_of
from .keyed import codes_of, keyed_steps, public_names, table_keys, warn_of_other_types
from .partials import PartialSketches, decode_partial, encode_partial
from .sketch import Sketch
from .table import SketchTable

__all__ = [
    "MAX_LIMIT",
    "NO_KEY",
    "SECRET_BYTES",
    "WHOLE",
    "Admission",
    "Batch",
    "Bounded",
    "BoundingSummary",
    "Contributions",
    "PartialSketches",
    "Runs",
    "Sketch",
    "SketchTable",
    "UnitBounds",
    "UnitDigests",
    "bound",
    "bound_batches",
    "bound_units",
    "bounded",
    "by_shard",
    "check_clip",
    "codes_of",
    "concatenated",
    "counting_of",
    "decode_partial",
    "decoded",
    "encode_batch",
    "encode_partial",
    "keyed_steps",
    "public_names",
    "sketch_by_windows",
    "sketch_windows",
    "table_keys",
    "totals_of",
    "unit_totals",
    "warn_of_other_types",
    "windows_of",
]
