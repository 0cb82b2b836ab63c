from .batch import release
from .kinds import Factorisation, Schedule, Separate, Tree, schedule_from_json, schedule_of
from .rows import HistoryPart, HistoryState, Releaser

__all__ = [
    "Factorisation",
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
