from .keys import Key, PublicKey
from .ledger import Ledger, Receipt
from .ledger_book import Dataset, Entry, Left
from .rounds import Round
from .signing import sign, verify
from .statements import Statement

__all__ = [
    "Dataset",
    "Entry",
    "Key",
    "Ledger",
    "Left",
    "PublicKey",
    "Receipt",
    "Round",
    "Statement",
    "sign",
    "verify",
]
