"""Exact numbers, text, limits on input, atomic files and compilation; knows nothing of sketches."""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
