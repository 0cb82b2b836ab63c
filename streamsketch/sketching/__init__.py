"""Exact, mergeable, secret sketches of one stream or of many by key; ``bounding`` clips what a unit contributes."""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
