"""Estimates from releases: distances, inner products, cosines and norms, with standard errors."""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
