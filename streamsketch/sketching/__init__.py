"""Exact, mergeable, secret sketches of one stream or of one per key, and contribution bounding."""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
