"""Bounds on what one unit contributes: choose them, enforce them, and see what they cost.

Everything about bounds in one place, for users: inside the package, each name is imported from its own folder.
"""

from streamsketch.planning.accuracy import Accuracy
from streamsketch.planning.bounds import BoundOption, BoundPlan, plan_bounds
from streamsketch.privacy.bound_choice import ChosenBound, choose_bound
from streamsketch.privacy.bounds import Bounds
from streamsketch.sketching.bounding.summary import BoundingSummary
from streamsketch.sketching.bounding.units import bound, bound_units, unit_totals

__all__ = [
    "Accuracy",
    "BoundOption",
    "BoundPlan",
    "BoundingSummary",
    "Bounds",
    "ChosenBound",
    "bound",
    "bound_units",
    "choose_bound",
    "plan_bounds",
    "unit_totals",
]
