"""Streams that never end: secrets that outlive a job, windows that open by themselves, results written once."""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
