from .contributions import Contribution, decode_contribution, encode_contribution
from .registry import decode, encode, kind_of, load

__all__ = [
    "Contribution",
    "decode",
    "decode_contribution",
    "encode",
    "encode_contribution",
    "kind_of",
    "load",
]
