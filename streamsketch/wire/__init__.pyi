from .registry import decode, decode_any, encode, kind_of, load

__all__ = [
    "decode",
    "decode_any",
    "encode",
    "kind_of",
    "load",
]
