"""What releases a window once, on any engine: names of draws, keys, ids, charges, versions, slots, sinks and alarms."""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
