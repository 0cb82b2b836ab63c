from .bounds import BoundOption, BoundPlan, plan_bounds
from .facts import Goal, Streams
from .planner import plan
from .plans import Plan

__all__ = [
    "BoundOption",
    "BoundPlan",
    "Goal",
    "Plan",
    "Streams",
    "plan",
    "plan_bounds",
]
