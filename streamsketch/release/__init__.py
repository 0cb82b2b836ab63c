"""Noise meets sketches: what is published, and checks of what others published."""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
