from .keys import Key, PublicKey
from .rounds import Round
from .signing import sign, verify
from .statements import Statement

__all__ = ["Key", "PublicKey", "Round", "Statement", "sign", "verify"]
