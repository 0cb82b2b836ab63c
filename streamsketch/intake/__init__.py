"""Rows of any source as events: tables, files, pipes and logs; what is missing or malformed; windows of time."""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
