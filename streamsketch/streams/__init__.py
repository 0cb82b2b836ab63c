"""Unbounded streams: windows that are released once on any engine, and logs that one machine follows by a job."""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
