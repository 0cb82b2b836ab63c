"""Which sums of windows are published over time, and how little noise any range of time then has."""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
