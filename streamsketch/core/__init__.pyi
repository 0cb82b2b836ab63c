from . import carryless
from .carryless import AVX512, TILE, WORD, Emitter, arrays, check_contiguous, emitter, hash_tile, multiply_add
from .files import append, appending, held, locked, remove_partial, write_new, write_whole
from .hashing import MAX_KEY, WORD_BITS, BitSlices, Words, add_product, evaluate, field_elements, polynomials
from .jit import compiles_for, kernel, part
from .limits import Limits, check_length, current_limits, json_fields, read_bounded, read_open
from .numbers import INT64_MAX, MAX_EXPONENT, Exact, Ints, as_int64, check_int, check_resolution, exact_fraction, short
from .text import MAX_TEXT, NO_BREAK, aligned, check_text, filled, is_printable, names_given, printable
from .warn import warn_outside
from .words import bytes_at, put_word

__all__ = [
    "AVX512",
    "INT64_MAX",
    "MAX_EXPONENT",
    "MAX_KEY",
    "MAX_TEXT",
    "NO_BREAK",
    "TILE",
    "WORD",
    "WORD_BITS",
    "BitSlices",
    "Emitter",
    "Exact",
    "Ints",
    "Limits",
    "Words",
    "add_product",
    "aligned",
    "append",
    "appending",
    "arrays",
    "as_int64",
    "bytes_at",
    "carryless",
    "check_contiguous",
    "check_int",
    "check_length",
    "check_resolution",
    "check_text",
    "compiles_for",
    "current_limits",
    "emitter",
    "evaluate",
    "exact_fraction",
    "field_elements",
    "filled",
    "hash_tile",
    "held",
    "is_printable",
    "json_fields",
    "kernel",
    "locked",
    "multiply_add",
    "names_given",
    "part",
    "polynomials",
    "printable",
    "put_word",
    "read_bounded",
    "read_open",
    "remove_partial",
    "short",
    "warn_outside",
    "write_new",
    "write_whole",
]
