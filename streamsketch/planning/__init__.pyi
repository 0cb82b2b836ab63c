from .bounds import BoundOption, BoundPlan, plan_bounds
from .facts import Goal, StreamFacts
from .planner import plan
from .plans import Plan

__all__ = [
    "BoundOption",
    "BoundPlan",
    "Goal",
    "Plan",
    "StreamFacts",
    "plan",
    "plan_bounds",
]
