"""Public hashing, compiled kernels, exact numbers, input limits and files; independent of sketches."""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
