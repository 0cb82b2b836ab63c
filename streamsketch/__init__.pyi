from . import local, parties, signs
from ._version import __version__
from .accounting.ledger import Ledger
from .accounting.sensitivity import mechanisms
from .agreement.agreement import Agreement
from .agreement.infer import agree
from .core.limits import reading_limits
from .data.canonical import HASHED_DIM
from .errors import (
    DependentNoiseError,
    IncompatibleAgreementsError,
    IncompatibleProjectionsError,
    InvalidInputError,
    LedgerError,
    SignatureError,
    SketchOverflowError,
    StreamsketchError,
    WireFormatError,
)
from .estimation.distances import pairwise
from .estimation.estimate import Estimate
from .estimation.estimators import (
    cosine,
    inner_product,
    normalised_inner_product,
    profile_distance,
    squared_distance,
    squared_norm,
)
from .explanation.joint import explain
from .planning.bounds import plan_bounds
from .planning.facts import Goal, StreamFacts
from .planning.planner import plan
from .privacy.choosing import ChosenBound, choose_bound
from .privacy.guarantee import Guarantee, compose
from .privacy.neighbours import L1, L2, OneCoordinate
from .projections.base import Projection
from .projections.fjlt import FJLT
from .projections.identity import Identity
from .projections.independent import Achlioptas, GaussianProjection, UniformProjection, VerySparse
from .projections.oporp import OPORP
from .projections.rotation import Rotation
from .projections.sjlt import SJLT, CountSketch, Rademacher
from .projections.srht import SRHT
from .release.pan_private import PanPrivateSketch
from .release.private_matrix import PrivateProjection
from .release.private_sketch import PrivateSketch
from .release.private_table import PrivateTable
from .release.private_vector import release_vector
from .sketching.bounding.agreed import bound
from .sketching.bounding.summary import BoundingSummary
from .sketching.bounding.units import bound_units, unit_totals
from .sketching.rows import sketch
from .sketching.sketch import Sketch
from .sketching.table import SketchTable
from .storage.files import load_raw, save_raw
from .storage.releases import release_raw
from .wire.registry import load

__all__ = [
    "FJLT",
    "HASHED_DIM",
    "L1",
    "L2",
    "OPORP",
    "SJLT",
    "SRHT",
    "Achlioptas",
    "Agreement",
    "BoundingSummary",
    "ChosenBound",
    "CountSketch",
    "DependentNoiseError",
    "Estimate",
    "GaussianProjection",
    "Goal",
    "Guarantee",
    "Identity",
    "IncompatibleAgreementsError",
    "IncompatibleProjectionsError",
    "InvalidInputError",
    "Ledger",
    "LedgerError",
    "OneCoordinate",
    "PanPrivateSketch",
    "PrivateProjection",
    "PrivateSketch",
    "PrivateTable",
    "Projection",
    "Rademacher",
    "Rotation",
    "SignatureError",
    "Sketch",
    "SketchOverflowError",
    "SketchTable",
    "StreamFacts",
    "StreamsketchError",
    "UniformProjection",
    "VerySparse",
    "WireFormatError",
    "__version__",
    "agree",
    "bound",
    "bound_units",
    "choose_bound",
    "compose",
    "cosine",
    "explain",
    "inner_product",
    "load",
    "load_raw",
    "local",
    "mechanisms",
    "normalised_inner_product",
    "pairwise",
    "parties",
    "plan",
    "plan_bounds",
    "profile_distance",
    "reading_limits",
    "release_raw",
    "release_vector",
    "save_raw",
    "signs",
    "sketch",
    "squared_distance",
    "squared_norm",
    "unit_totals",
]
