"""Exact, mergeable, secret sketches of one stream or of one per key, and contribution bounding."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
