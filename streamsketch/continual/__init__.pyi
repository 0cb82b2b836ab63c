from .batch import release
from .history import Curve, History, Range
from .kinds import Factorisation, Schedule, Separate, Tree, schedule_from_json, schedule_of
from .rows import HistoryPart, HistoryState, Releaser

__all__ = [
    "Curve",
    "Factorisation",
    "History",
    "HistoryPart",
    "HistoryState",
    "Range",
    "Releaser",
    "Schedule",
    "Separate",
    "Tree",
    "release",
    "schedule_from_json",
    "schedule_of",
]
