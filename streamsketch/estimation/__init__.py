"""What anyone computes from releases: distances, products, cosines and norms, with error bars."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
