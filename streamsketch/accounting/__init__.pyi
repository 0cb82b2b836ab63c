from .book import Accounting, Dataset, Entry, Left, check_dataset
from .charging import Account, charge, charge_for
from .ledger import Ledger, Receipt
from .sensitivity import (
    check_carried,
    check_neighbours,
    check_steps,
    check_whole_steps,
    grid_steps,
    guarantee_of,
    mechanisms,
    moved_before_map,
    moved_by_rotation,
    number_for,
    sensitivity_of,
)
from .spending import Spending, spending_of

__all__ = [
    "Account",
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
    "check_neighbours",
    "check_steps",
    "check_whole_steps",
    "grid_steps",
    "guarantee_of",
    "mechanisms",
    "moved_before_map",
    "moved_by_rotation",
    "number_for",
    "sensitivity_of",
    "spending_of",
]
