from . import (
    accounting,
    bounding,
    continual,
    errors,
    estimation,
    features,
    limits,
    local,
    parties,
    planning,
    privacy,
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
from .errors import InvalidInputError, StreamsketchError
from .estimation.changes import changes
from .estimation.differences import top_differences
from .estimation.estimators import cosine, inner_product, profile_distance, squared_distance, squared_norm
from .estimation.groups import linkage
from .estimation.largest import top
from .estimation.measures import pairwise
from .estimation.points import frequency
from .estimation.same import sameness
from .estimation.spelling import spelling
from .explanation.joint import explain
from .features.features import Features
from .planning.planner import plan
from .privacy.guarantee import Guarantee
from .privacy.l1 import L1
from .privacy.l2 import L2
from .privacy.one_coordinate import OneCoordinate
from .privacy.sketch_l2 import SketchL2
from .projections.sjlt import SJLT, CountSketch
from .release.additive_noise import AdditiveNoise
from .release.composition import compose
from .release.private_sketch import PrivateSketch
from .release.private_table import PrivateTable
from .sketching.bounding.units import bound
from .sketching.sketch import Sketch
from .sketching.table import SketchTable, sketch
from .wire.registry import load

__all__ = [
    "L1",
    "L2",
    "SJLT",
    "AdditiveNoise",
    "Agreement",
    "CountSketch",
    "Features",
    "Guarantee",
    "InvalidInputError",
    "Ledger",
    "OneCoordinate",
    "PrivateSketch",
    "PrivateTable",
    "Selected",
    "Sketch",
    "SketchL2",
    "SketchTable",
    "StreamsketchError",
    "Terms",
    "Windows",
    "__version__",
    "accounting",
    "agree",
    "bound",
    "bounding",
    "changes",
    "compose",
    "continual",
    "cosine",
    "errors",
    "estimation",
    "explain",
    "features",
    "frequency",
    "inner_product",
    "limits",
    "linkage",
    "load",
    "local",
    "pairwise",
    "parties",
    "plan",
    "planning",
    "privacy",
    "profile_distance",
    "projections",
    "release",
    "sameness",
    "signs",
    "sketch",
    "spelling",
    "squared_distance",
    "squared_norm",
    "storage",
    "streams",
    "top",
    "top_differences",
]
