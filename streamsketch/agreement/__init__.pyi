from .agreement import Agreement
from .columns import Column
from .grids import fine_enough
from .infer import agree
from .terms import Selected, Terms
from .windows import Windows

__all__ = ["Agreement", "Column", "Selected", "Terms", "Windows", "agree", "fine_enough"]
