"""Schedules, as users find them."""

from streamsketch.schedules import Factorisation, Schedule, Separate, Tree, schedule_from_json, schedule_of

__all__ = ["Factorisation", "Schedule", "Separate", "Tree", "schedule_from_json", "schedule_of"]
