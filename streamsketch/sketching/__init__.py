"""Exact, mergeable, secret: sketches of one stream or of one a key, and bounds on what a unit contributes."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
