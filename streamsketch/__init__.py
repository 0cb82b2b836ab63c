"""Mergeable sketches of data streams that can leave the building.

Parties turn streams of (key, index, value) events into small integer vectors by a public random projection; the
vectors add up exactly; each is published once with just enough noise for differential privacy; anyone can then
estimate distances, inner products and angles, with error bars.

Names are loaded on first use, so that ``import streamsketch`` itself is quick.
"""

import importlib
from typing import TYPE_CHECKING

from streamsketch._version import __version__

if TYPE_CHECKING:
    from streamsketch import local, signs
    from streamsketch.core.limits import Limits, reading_limits
    from streamsketch.data.grid import quantise
    from streamsketch.data.keys import HASHED_DIM
    from streamsketch.errors import (
        DependentNoiseError,
        IncompatibleProjectionsError,
        InvalidInputError,
        NoiseMismatchWarning,
        SketchOverflowError,
        StreamsketchError,
        WireFormatError,
    )
    from streamsketch.estimation.distances import pairwise
    from streamsketch.estimation.estimate import Estimate, Estimates, Interval
    from streamsketch.estimation.estimators import (
        cosine,
        inner_product,
        normalised_inner_product,
        squared_distance,
        squared_norm,
    )
    from streamsketch.explanation.joint import JointExplanation, explain_together
    from streamsketch.explanation.release import Explanation
    from streamsketch.explanation.signs import IndividualSignExplanation, SignExplanation
    from streamsketch.planning.facts import Goal, Streams
    from streamsketch.planning.planner import Plan, plan
    from streamsketch.privacy.calibration import Candidate
    from streamsketch.privacy.guarantee import L1, Guarantee, Neighbours, OneCoordinate, compose
    from streamsketch.privacy.noise import Cumulants
    from streamsketch.projections import (
        FJLT,
        OPORP,
        SJLT,
        SRHT,
        Achlioptas,
        CountSketch,
        Gaussian,
        Identity,
        Projection,
        Rademacher,
        Rotation,
        Uniform,
        VerySparse,
        hadamard_transform,
    )
    from streamsketch.release.pan_private import PanPrivateSketch
    from streamsketch.release.private_matrix import PrivateProjection
    from streamsketch.release.private_sketch import PrivateSketch, load
    from streamsketch.release.private_vector import release_vector
    from streamsketch.release.sensitivity import mechanisms
    from streamsketch.sketching.sketch import Sketch
    from streamsketch.sketching.table import SketchTable
    from streamsketch.wire.tables import load_table, save_table

_HOMES = {
    "streamsketch.data.grid": ("quantise",),
    "streamsketch.data.keys": ("HASHED_DIM",),
    "streamsketch.errors": (
        "DependentNoiseError",
        "IncompatibleProjectionsError",
        "InvalidInputError",
        "NoiseMismatchWarning",
        "SketchOverflowError",
        "StreamsketchError",
        "WireFormatError",
    ),
    "streamsketch.estimation.estimate": ("Estimate", "Estimates", "Interval"),
    "streamsketch.estimation.estimators": (
        "cosine",
        "inner_product",
        "normalised_inner_product",
        "squared_distance",
        "squared_norm",
    ),
    "streamsketch.estimation.distances": ("pairwise",),
    "streamsketch.explanation.signs": ("IndividualSignExplanation", "SignExplanation"),
    "streamsketch.explanation.release": ("Explanation",),
    "streamsketch.explanation.joint": ("JointExplanation", "explain_together"),
    "streamsketch.core.limits": ("Limits", "reading_limits"),
    "streamsketch.release.pan_private": ("PanPrivateSketch",),
    "streamsketch.wire.tables": ("load_table", "save_table"),
    "streamsketch.planning.facts": ("Goal", "Streams"),
    "streamsketch.planning.planner": ("Plan", "plan"),
    "streamsketch.privacy.calibration": ("Candidate",),
    "streamsketch.privacy.guarantee": ("L1", "Guarantee", "Neighbours", "OneCoordinate", "compose"),
    "streamsketch.privacy.noise": ("Cumulants",),
    "streamsketch.release.private_matrix": ("PrivateProjection",),
    "streamsketch.release.private_vector": ("release_vector",),
    "streamsketch.projections": (
        "FJLT",
        "OPORP",
        "SJLT",
        "SRHT",
        "Achlioptas",
        "CountSketch",
        "Gaussian",
        "Identity",
        "Projection",
        "Rademacher",
        "Rotation",
        "Uniform",
        "VerySparse",
        "hadamard_transform",
    ),
    "streamsketch.release.private_sketch": ("PrivateSketch", "load"),
    "streamsketch.release.sensitivity": ("mechanisms",),
    "streamsketch.sketching.sketch": ("Sketch",),
    "streamsketch.sketching.table": ("SketchTable",),
}
_ROOMS = ("local", "signs")  # whole modules
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

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


if not TYPE_CHECKING:  # a type checker reads the imports above, and finds misspelt names

    def __getattr__(name: str) -> object:
        if name in _ROOMS:
            return importlib.import_module(f"streamsketch.{name}")
        home = _HOME_OF.get(name)
        if home is None:
            raise AttributeError(f"module 'streamsketch' has no attribute {name!r}")
        value = getattr(importlib.import_module(home), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return __all__
