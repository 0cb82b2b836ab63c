from .accuracy import Accuracy
from .bounds import BoundOption, BoundPlan, plan_bounds
from .facts import Goal, StreamFacts
from .planner import plan
from .plans import Plan
from .typical import TypicalUnit, UnitSample
from .unit_options import UnitOption
from .unit_plans import UnitPlan, plan_units

__all__ = [
    "Accuracy",
    "BoundOption",
    "BoundPlan",
    "Goal",
    "Plan",
    "StreamFacts",
    "TypicalUnit",
    "UnitOption",
    "UnitPlan",
    "UnitSample",
    "plan",
    "plan_bounds",
    "plan_units",
]
