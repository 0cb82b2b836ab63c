from .agreement import Agreement
from .casts import Rows, cast, numbers
from .columns import TYPES, Column, is_type
from .grids import MOST_COARSE, check_fine, fine_enough
from .infer import agree, clip_of_features, counting_of, whole_unit_bounds
from .same import Agreed, check_agreed, check_alike, check_fingerprint, check_same, fingerprint_of
from .terms import Selected, Terms, keys_text
from .windows import MOST_WINDOWS, Windows

__all__ = [
    "MOST_COARSE",
    "MOST_WINDOWS",
    "TYPES",
    "Agreed",
    "Agreement",
    "Column",
    "Rows",
    "Selected",
    "Terms",
    "Windows",
    "agree",
    "cast",
    "check_agreed",
    "check_alike",
    "check_fine",
    "check_fingerprint",
    "check_same",
    "clip_of_features",
    "counting_of",
    "fine_enough",
    "fingerprint_of",
    "is_type",
    "keys_text",
    "numbers",
    "whole_unit_bounds",
]
