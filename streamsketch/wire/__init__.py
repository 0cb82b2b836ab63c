"""The exchange format: bytes and tables of what is published, as WIRE.md describes them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
