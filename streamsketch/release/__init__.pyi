from .charging import Account, charge
from .checking.noise import NoiseCheck, Verdict, unread_matrix
from .checking.release import (
    Composition,
    Stated,
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
from .private_sketch import RELEASE_ID_BYTES, PrivateSketch
from .private_table import PrivateTable
from .publish import AdditiveNoise, Calibrated, CalibratedNoise, Publisher
from .published import Encoded, Published, under
from .published_table import PublishedTable, sketches_to_release
from .sensitivity import (
    check_carried,
    check_neighbours,
    check_whole_steps,
    grid_steps,
    guarantee_of,
    moved_by_rotation,
    sensitivity_of,
)
from .spending import Spending, spending_of

__all__ = [
    "QUICK_ENTRIES",
    "RELEASE_ID_BYTES",
    "Account",
    "AdditiveNoise",
    "Calibrated",
    "CalibratedNoise",
    "Composition",
    "Encoded",
    "InputNoise",
    "NoiseCheck",
    "NoisePart",
    "OutputNoise",
    "PrivateSketch",
    "PrivateTable",
    "Published",
    "PublishedTable",
    "Publisher",
    "Spending",
    "Stated",
    "Verdict",
    "charge",
    "check_carried",
    "check_disjoint",
    "check_independent",
    "check_neighbours",
    "check_release",
    "check_same_place",
    "check_stated",
    "check_whole_steps",
    "composition_of",
    "effect_of",
    "grid_steps",
    "guarantee_of",
    "impossible_norm",
    "mismatch",
    "moved_by_rotation",
    "noise_unit",
    "sensitivity_of",
    "sketches_to_release",
    "spending_of",
    "under",
    "unread_matrix",
    "warn_of",
    "warn_of_exceeded",
    "warn_of_mismatches",
    "with_norm",
]
