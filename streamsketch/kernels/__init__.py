"""All code for LLVM, and the Numba kernels of hashing and projections; the tests have a readable twin of each."""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
