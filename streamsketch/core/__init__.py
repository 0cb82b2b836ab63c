"""Public hashing, compiled kernels, exact numbers, input limits and files; independent of sketches."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
