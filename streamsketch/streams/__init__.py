"""Unbounded streams on one machine: windows of a log, each released once, by a policy."""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
