from .facts import Goal, Streams
from .planner import Plan, plan

__all__ = [
    "Goal",
    "Plan",
    "Streams",
    "plan",
]
