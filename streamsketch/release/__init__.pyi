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
from .endless.policy import StreamPolicy
from .endless.state import STREAM_SUFFIX
from .endless.stream import Stream
from .independence import check_disjoint, check_independent, check_same_place
from .noise_effect import InputNoise, OutputNoise, effect_of, noise_unit
from .noise_parts import NoisePart
from .private_sketch import RELEASE_ID_BYTES, PrivateSketch
from .private_table import PrivateTable
from .publish import AdditiveNoise, Calibrated, CalibratedNoise, Publisher
from .published import Encoded, Published, under
from .published_table import PublishedTable, sketches_to_release
from .raw_append import append_raw, emptied
from .raw_beside import released_before
from .raw_bytes import PastRelease, RawSketch, State, check_size
from .raw_file import (
    SUFFIX,
    RawHead,
    is_raw,
    load_raw,
    read_head,
    remember,
    replace_raw,
    save_raw,
    united,
)
from .raw_release import release_held, release_raw
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
    "STREAM_SUFFIX",
    "SUFFIX",
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
    "PastRelease",
    "PrivateSketch",
    "PrivateTable",
    "Published",
    "PublishedTable",
    "Publisher",
    "RawHead",
    "RawSketch",
    "Spending",
    "State",
    "Stated",
    "Stream",
    "StreamPolicy",
    "Verdict",
    "append_raw",
    "charge",
    "check_carried",
    "check_disjoint",
    "check_independent",
    "check_neighbours",
    "check_release",
    "check_same_place",
    "check_size",
    "check_stated",
    "check_whole_steps",
    "composition_of",
    "effect_of",
    "emptied",
    "grid_steps",
    "guarantee_of",
    "impossible_norm",
    "is_raw",
    "load_raw",
    "mismatch",
    "moved_by_rotation",
    "noise_unit",
    "read_head",
    "release_held",
    "release_raw",
    "released_before",
    "remember",
    "replace_raw",
    "save_raw",
    "sensitivity_of",
    "sketches_to_release",
    "spending_of",
    "under",
    "united",
    "unread_matrix",
    "warn_of",
    "warn_of_mismatches",
    "with_norm",
]
