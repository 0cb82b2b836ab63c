"""Schedules, as users find them."""

from streamsketch.privacy.schedule import Schedule
from streamsketch.privacy.schedule_kinds import schedule_from_json, schedule_of
from streamsketch.schedules.factorisation import Factorisation
from streamsketch.schedules.separate import Separate
from streamsketch.schedules.tree import Tree

__all__ = ["Factorisation", "Schedule", "Separate", "Tree", "schedule_from_json", "schedule_of"]
