from .additive_noise import AdditiveNoise, CalibratedNoise, relation_over_windows
from .agreed import exit_of, load_agreed, release_agreed, sketch_agreed
from .agreed_publisher import PUBLISHERS, publisher_of, register_publisher
from .checking.noise import NoiseCheck, Verdict, unread_matrix
from .checking.release import (
    QUICK_ENTRIES,
    Composition,
    StatedNoise,
    check_release,
    check_stated,
    composition_of,
    impossible_norm,
    mismatch,
    warn_of,
    warn_of_mismatches,
    with_norm,
)
from .history import HISTORY_ID_BYTES, HistoryPart, check_streams
from .in_windows import basis_of, publisher_in_windows, spent_in_window, window_guarantee
from .key_choice import KeyChoice
from .keys_to_release import sketches_to_release
from .pan_private import PanPrivateSketch
from .private_matrix import PrivateProjection
from .private_sketch import RELEASE_ID_BYTES, NoisePart, PrivateSketch, SketchClip, noisy_coordinates
from .private_table import PrivateTable
from .private_vector import release_vector
from .published import (
    Encoded,
    Published,
    check_disjoint,
    check_independent,
    check_same_place,
    sign_rows,
    with_agreement,
)
from .published_table import PublishedTable, stated_apart
from .publishers import Publisher
from .readable import check_readable, row_memory
from .ready import BitsOfKey, Calibrated, Ready, ReadyRows, ReadyTable, Stated, numbers_of
from .releaser import BitsOfRow, HistoryState, Releaser
from .terms_kept import check_terms, keys_for

__all__ = [
    "HISTORY_ID_BYTES",
    "PUBLISHERS",
    "QUICK_ENTRIES",
    "RELEASE_ID_BYTES",
    "AdditiveNoise",
    "BitsOfKey",
    "BitsOfRow",
    "Calibrated",
    "CalibratedNoise",
    "Composition",
    "Encoded",
    "HistoryPart",
    "HistoryState",
    "KeyChoice",
    "NoiseCheck",
    "NoisePart",
    "PanPrivateSketch",
    "PrivateProjection",
    "PrivateSketch",
    "PrivateTable",
    "Published",
    "PublishedTable",
    "Publisher",
    "Ready",
    "ReadyRows",
    "ReadyTable",
    "Releaser",
    "SketchClip",
    "Stated",
    "StatedNoise",
    "Verdict",
    "basis_of",
    "check_disjoint",
    "check_independent",
    "check_readable",
    "check_release",
    "check_same_place",
    "check_stated",
    "check_streams",
    "check_terms",
    "composition_of",
    "exit_of",
    "impossible_norm",
    "keys_for",
    "load_agreed",
    "mismatch",
    "noisy_coordinates",
    "numbers_of",
    "publisher_in_windows",
    "publisher_of",
    "register_publisher",
    "relation_over_windows",
    "release_agreed",
    "release_vector",
    "row_memory",
    "sign_rows",
    "sketch_agreed",
    "sketches_to_release",
    "spent_in_window",
    "stated_apart",
    "unread_matrix",
    "warn_of",
    "warn_of_mismatches",
    "window_guarantee",
    "with_agreement",
    "with_norm",
]
