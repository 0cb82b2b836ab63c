from .registry import decode, encode, kind_of, load

__all__ = [
    "decode",
    "encode",
    "kind_of",
    "load",
]
