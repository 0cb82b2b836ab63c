"""Rows of numbers, categories and embeddings as vectors of length 1, for comparing populations."""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
