"""Noise meets sketches: what is published of vectors, matrices, streams and tables, and how it is checked."""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
