from .accuracy import Accuracy
from .bounds import BoundOption, BoundPlan, plan_bounds
from .facts import Goal, StreamFacts
from .noise_floor import NoiseFloor
from .planner import plan
from .plans import Plan
from .schedules import ScheduleOption, SchedulePlan, plan_schedule
from .sign_plans import SignOption, SignPlan, plan_signs
from .typical import TypicalUnit, UnitSample
from .unit_keys import PlannedKey, Remedy
from .unit_options import UnitOption
from .unit_plans import UnitPlan, plan_units

__all__ = [
    "Accuracy",
    "BoundOption",
    "BoundPlan",
    "Goal",
    "NoiseFloor",
    "Plan",
    "PlannedKey",
    "Remedy",
    "ScheduleOption",
    "SchedulePlan",
    "SignOption",
    "SignPlan",
    "StreamFacts",
    "TypicalUnit",
    "UnitOption",
    "UnitPlan",
    "UnitSample",
    "plan",
    "plan_bounds",
    "plan_schedule",
    "plan_signs",
    "plan_units",
]
