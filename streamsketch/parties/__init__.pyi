from .keys import Key, PublicKey
from .rounds import Round

__all__ = [
    "Key",
    "PublicKey",
    "Round",
]
