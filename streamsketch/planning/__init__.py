"""Before any data: which sketch to agree on, and how far off its estimates will be."""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
