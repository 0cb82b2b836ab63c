from .registry import decode, decode_any, encode, kind_of, load, sign_rows

__all__ = [
    "decode",
    "decode_any",
    "encode",
    "kind_of",
    "load",
    "sign_rows",
]
