from .facts import Goal, StreamFacts
from .noise_floor import NoiseFloor
from .planner import plan
from .plans import Plan
from .schedules import ScheduleOption, SchedulePlan, plan_schedule
from .sign_plans import SignOption, SignPlan, plan_signs
from .site_facts import ClassShift, MeanShift, ShareShift, SiteShift
from .site_plans import SiteOption, SitePlan, plan_sites
from .site_power import SitePrediction
from .typical import TypicalUnit
from .unit_keys import PlannedKey, Remedy
from .unit_options import UnitOption
from .unit_planner import plan_sizes, plan_units
from .unit_plans import Outlook, UnitPlan
from .unit_sample import UnitSample

__all__ = [
    "ClassShift",
    "Goal",
    "MeanShift",
    "NoiseFloor",
    "Outlook",
    "Plan",
    "PlannedKey",
    "Remedy",
    "ScheduleOption",
    "SchedulePlan",
    "ShareShift",
    "SignOption",
    "SignPlan",
    "SiteOption",
    "SitePlan",
    "SitePrediction",
    "SiteShift",
    "StreamFacts",
    "TypicalUnit",
    "UnitOption",
    "UnitPlan",
    "UnitSample",
    "plan",
    "plan_schedule",
    "plan_signs",
    "plan_sites",
    "plan_sizes",
    "plan_units",
]
