from .registry import decode, decode_any, encode, kind_of, load
from .sign_tables import sign_rows

__all__ = [
    "decode",
    "decode_any",
    "encode",
    "kind_of",
    "load",
    "sign_rows",
]
