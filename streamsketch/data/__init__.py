"""Input as integers: columns and tables, keys, values on a grid, and files of events."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
