from . import local, signs
from ._version import __version__
from .core.limits import Limits, reading_limits
from .data.grid import quantise
from .data.keys import HASHED_DIM
from .errors import (
    DependentNoiseError,
    IncompatibleProjectionsError,
    InvalidInputError,
    NoiseMismatchWarning,
    SketchOverflowError,
    StreamsketchError,
    WireFormatError,
)
from .estimation.distances import pairwise
from .estimation.estimate import Estimate, Estimates, Interval
from .estimation.estimators import cosine, inner_product, normalised_inner_product, squared_distance, squared_norm
from .explanation.joint import JointExplanation, explain_together
from .explanation.release import Explanation
from .explanation.signs import IndividualSignExplanation, SignExplanation
from .planning.facts import Goal, Streams
from .planning.planner import Plan, plan
from .privacy.calibration import Candidate
from .privacy.guarantee import L1, Guarantee, Neighbours, OneCoordinate, compose
from .privacy.mechanism import Mechanism
from .privacy.noise import Cumulants
from .projections.base import Projection
from .projections.fjlt import FJLT
from .projections.hadamard import hadamard_transform
from .projections.identity import Identity
from .projections.independent import Achlioptas, Gaussian, Uniform, VerySparse
from .projections.oporp import OPORP
from .projections.rotation import Rotation
from .projections.sjlt import SJLT, CountSketch, Rademacher
from .projections.srht import SRHT
from .release.pan_private import PanPrivateSketch
from .release.private_matrix import PrivateProjection
from .release.private_sketch import PrivateSketch, load
from .release.private_vector import release_vector
from .release.sensitivity import mechanisms
from .sketching.sketch import Sketch
from .sketching.table import SketchTable
from .wire.tables import load_table, save_table

__all__ = [
    "FJLT",
    "HASHED_DIM",
    "L1",
    "OPORP",
    "SJLT",
    "SRHT",
    "Achlioptas",
    "Candidate",
    "CountSketch",
    "Cumulants",
    "DependentNoiseError",
    "Estimate",
    "Estimates",
    "Explanation",
    "Gaussian",
    "Goal",
    "Guarantee",
    "Identity",
    "IncompatibleProjectionsError",
    "IndividualSignExplanation",
    "Interval",
    "InvalidInputError",
    "JointExplanation",
    "Limits",
    "Mechanism",
    "Neighbours",
    "NoiseMismatchWarning",
    "OneCoordinate",
    "PanPrivateSketch",
    "Plan",
    "PrivateProjection",
    "PrivateSketch",
    "Projection",
    "Rademacher",
    "Rotation",
    "SignExplanation",
    "Sketch",
    "SketchOverflowError",
    "SketchTable",
    "Streams",
    "StreamsketchError",
    "Uniform",
    "VerySparse",
    "WireFormatError",
    "__version__",
    "compose",
    "cosine",
    "explain_together",
    "hadamard_transform",
    "inner_product",
    "load",
    "load_table",
    "local",
    "mechanisms",
    "normalised_inner_product",
    "pairwise",
    "plan",
    "quantise",
    "reading_limits",
    "release_vector",
    "save_table",
    "signs",
    "squared_distance",
    "squared_norm",
]
