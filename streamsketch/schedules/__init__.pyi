from .factorisation import Factorisation
from .kinds import KINDS, schedule_from_json, schedule_of
from .progress import Progress, decoded
from .schedule import Layout, Norms, Schedule
from .separate import Separate
from .tree import Tree

__all__ = [
    "KINDS",
    "Factorisation",
    "Layout",
    "Norms",
    "Progress",
    "Schedule",
    "Separate",
    "Tree",
    "decoded",
    "schedule_from_json",
    "schedule_of",
]
