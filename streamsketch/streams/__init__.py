"""Unbounded streams that one machine follows by a job: logs, windows of event time, and a state to continue from."""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
