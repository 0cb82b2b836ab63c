from .checking.noise import NoiseCheck, Verdict, unread_matrix
from .checking.release import (
    Composition,
    StatedNoise,
    check_release,
    check_stated,
    composition_of,
    impossible_norm,
    with_norm,
)
from .checking.warn import QUICK_ENTRIES, mismatch, warn_of, warn_of_mismatches
from .exceeded import warn_of_exceeded
from .independence import check_disjoint, check_independent, check_same_place
from .noise_effect import InputNoise, OutputNoise, effect_of, noise_unit
from .noise_parts import NoisePart
from .pan_private import PanPrivateSketch
from .private_matrix import PrivateProjection
from .private_sketch import RELEASE_ID_BYTES, PrivateSketch
from .private_table import PrivateTable
from .private_vector import release_vector
from .publish import AdditiveNoise, Calibrated, CalibratedNoise, Publisher
from .published import Encoded, Published, with_agreement
from .published_table import PublishedTable, sketches_to_release

__all__ = [
    "QUICK_ENTRIES",
    "RELEASE_ID_BYTES",
    "AdditiveNoise",
    "Calibrated",
    "CalibratedNoise",
    "Composition",
    "Encoded",
    "InputNoise",
    "NoiseCheck",
    "NoisePart",
    "OutputNoise",
    "PanPrivateSketch",
    "PrivateProjection",
    "PrivateSketch",
    "PrivateTable",
    "Published",
    "PublishedTable",
    "Publisher",
    "StatedNoise",
    "Verdict",
    "check_disjoint",
    "check_independent",
    "check_release",
    "check_same_place",
    "check_stated",
    "composition_of",
    "effect_of",
    "impossible_norm",
    "mismatch",
    "noise_unit",
    "release_vector",
    "sketches_to_release",
    "unread_matrix",
    "warn_of",
    "warn_of_exceeded",
    "warn_of_mismatches",
    "with_agreement",
    "with_norm",
]
