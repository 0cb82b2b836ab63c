from .files import append, appending, exclusive, locked, remove_partial, replacing, write_new, write_whole
from .jit import compiles_for, kernel, part
from .limits import Limits, check_length, current_limits, json_fields, read_bounded, read_open
from .numbers import INT64_MAX, MAX_EXPONENT, Exact, Ints, as_int64, check_int, check_resolution, exact_fraction, short
from .text import MAX_TEXT, NO_BREAK, aligned, check_text, filled, is_printable, names_given, printable, warn_outside

__all__ = [
    "INT64_MAX",
    "MAX_EXPONENT",
    "MAX_TEXT",
    "NO_BREAK",
    "Exact",
    "Ints",
    "Limits",
    "aligned",
    "append",
    "appending",
    "as_int64",
    "check_int",
    "check_length",
    "check_resolution",
    "check_text",
    "compiles_for",
    "current_limits",
    "exact_fraction",
    "exclusive",
    "filled",
    "is_printable",
    "json_fields",
    "kernel",
    "locked",
    "names_given",
    "part",
    "printable",
    "read_bounded",
    "read_open",
    "remove_partial",
    "replacing",
    "short",
    "warn_outside",
    "write_new",
    "write_whole",
]
