from . import (
    accounting,
    bounding,
    continual,
    errors,
    estimation,
    features,
    local,
    parties,
    planning,
    projections,
    release,
    signs,
    storage,
    streams,
)
from ._version import __version__
from .accounting.ledger import Ledger
from .agreement.agreement import Agreement
from .agreement.infer import agree
from .agreement.terms import Selected, Terms
from .agreement.windows import Windows
from .core.limits import reading_limits
from .data.canonical import HASHED_DIM
from .errors import InvalidInputError, StreamsketchError, WireFormatError
from .estimation.changes import changes
from .estimation.differences import top_differences
from .estimation.estimate import Estimate
from .estimation.estimators import cosine, inner_product, profile_distance, squared_distance, squared_norm
from .estimation.groups import linkage
from .estimation.histograms import distinct, entropy, l1_norm
from .estimation.largest import top
from .estimation.means import mean_distance, mean_norm, mean_product
from .estimation.measures import pairwise
from .estimation.points import frequency
from .estimation.populations import column_differences, describe, mmd
from .estimation.same import sameness
from .explanation.joint import explain
from .features.features import Features
from .planning.planner import plan
from .privacy.counting import Counting
from .privacy.guarantee import Guarantee, compose
from .privacy.l1 import L1
from .privacy.l2 import L2
from .privacy.one_coordinate import OneCoordinate
from .privacy.sketch_l2 import SketchL2
from .projections.base import Projection
from .projections.sjlt import SJLT, CountSketch
from .release.additive_noise import AdditiveNoise
from .release.private_sketch import PrivateSketch
from .release.private_table import PrivateTable
from .sketching.bounding.units import bound
from .sketching.sketch import Sketch
from .sketching.table import SketchTable, sketch
from .wire.registry import load

__all__ = [
    "HASHED_DIM",
    "L1",
    "L2",
    "SJLT",
    "AdditiveNoise",
    "Agreement",
    "CountSketch",
    "Counting",
    "Estimate",
    "Features",
    "Guarantee",
    "InvalidInputError",
    "Ledger",
    "OneCoordinate",
    "PrivateSketch",
    "PrivateTable",
    "Projection",
    "Selected",
    "Sketch",
    "SketchL2",
    "SketchTable",
    "StreamsketchError",
    "Terms",
    "Windows",
    "WireFormatError",
    "__version__",
    "accounting",
    "agree",
    "bound",
    "bounding",
    "changes",
    "column_differences",
    "compose",
    "continual",
    "cosine",
    "describe",
    "distinct",
    "entropy",
    "errors",
    "estimation",
    "explain",
    "features",
    "frequency",
    "inner_product",
    "l1_norm",
    "linkage",
    "load",
    "local",
    "mean_distance",
    "mean_norm",
    "mean_product",
    "mmd",
    "pairwise",
    "parties",
    "plan",
    "planning",
    "profile_distance",
    "projections",
    "reading_limits",
    "release",
    "sameness",
    "signs",
    "sketch",
    "squared_distance",
    "squared_norm",
    "storage",
    "streams",
    "top",
    "top_differences",
]
