from .append import append_raw, emptied
from .beside import released_before
from .files import SUFFIX, RawHead, is_raw, load_raw, read_head, remember, replace_raw, save_raw, united
from .format import PastRelease, RawSketch, State, check_size, decode, encode
from .releases import release_held, release_raw

__all__ = [
    "SUFFIX",
    "PastRelease",
    "RawHead",
    "RawSketch",
    "State",
    "append_raw",
    "check_size",
    "decode",
    "emptied",
    "encode",
    "is_raw",
    "load_raw",
    "read_head",
    "release_held",
    "release_raw",
    "released_before",
    "remember",
    "replace_raw",
    "save_raw",
    "united",
]
