from .batch import release
from .history import History
from .kinds import Factorisation, Schedule, Separate, Tree, schedule_from_json, schedule_of
from .rows import HistoryPart, HistoryState, Releaser

__all__ = [
    "Factorisation",
    "History",
    "HistoryPart",
    "HistoryState",
    "Releaser",
    "Schedule",
    "Separate",
    "Tree",
    "release",
    "schedule_from_json",
    "schedule_of",
]
