from .keys import Key, PublicKey
from .ledger import Ledger, Receipt
from .ledger_book import Accounting, Dataset, Entry, Left, check_dataset
from .rounds import Round
from .signing import sign, verify
from .statements import Statement

__all__ = [
    "Accounting",
    "Dataset",
    "Entry",
    "Key",
    "Ledger",
    "Left",
    "PublicKey",
    "Receipt",
    "Round",
    "Statement",
    "check_dataset",
    "sign",
    "verify",
]
