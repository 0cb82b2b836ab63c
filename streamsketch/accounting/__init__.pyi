from .book import Accounting, Dataset, Entry, Left, Spending, check_dataset, spending_of
from .ledger import Ledger, Receipt, charge, charge_for
from .sensitivity import (
    check_carried,
    check_mechanism,
    check_steps,
    check_whole_steps,
    grid_steps,
    guarantee_of,
    mechanisms,
    sensitivity_of,
)

__all__ = [
    "Accounting",
    "Dataset",
    "Entry",
    "Ledger",
    "Left",
    "Receipt",
    "Spending",
    "charge",
    "charge_for",
    "check_carried",
    "check_dataset",
    "check_mechanism",
    "check_steps",
    "check_whole_steps",
    "grid_steps",
    "guarantee_of",
    "mechanisms",
    "sensitivity_of",
    "spending_of",
]
