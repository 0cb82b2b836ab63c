from .agreement import Agreement
from .columns import Column
from .grids import fine_enough
from .infer import agree
from .rows_of_unit import RowsOfUnit
from .terms import Selected, Terms
from .text import TextRule
from .windows import Windows

__all__ = ["Agreement", "Column", "RowsOfUnit", "Selected", "Terms", "TextRule", "Windows", "agree", "fine_enough"]
