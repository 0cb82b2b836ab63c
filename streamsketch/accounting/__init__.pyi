from .book import Accounting, Dataset, Entry, Left
from .ledger import Ledger, Receipt
from .sensitivity import mechanisms

__all__ = ["Accounting", "Dataset", "Entry", "Ledger", "Left", "Receipt", "mechanisms"]
