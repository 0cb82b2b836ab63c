"""The public maps, one file a family: integer matrices, rebuilt from a public seed, times a public scale."""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
