"""Schedules, as users find them."""

from streamsketch.schedules.factorisation import Factorisation
from streamsketch.schedules.kinds import schedule_from_json, schedule_of
from streamsketch.schedules.schedule import Schedule
from streamsketch.schedules.separate import Separate
from streamsketch.schedules.tree import Tree

__all__ = ["Factorisation", "Schedule", "Separate", "Tree", "schedule_from_json", "schedule_of"]
