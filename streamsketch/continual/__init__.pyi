from .kinds import Factorisation, Schedule, Separate, Tree, schedule_from_json, schedule_of

__all__ = ["Factorisation", "Schedule", "Separate", "Tree", "schedule_from_json", "schedule_of"]
