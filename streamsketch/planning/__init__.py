"""Before any data: which sketch to agree on, and how far off its estimates will be."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
