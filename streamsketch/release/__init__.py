"""Noise meets sketches: what is published of vectors, matrices, streams and tables, and how it is checked."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
