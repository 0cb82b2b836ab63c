"""The exchange format: bytes and tables of what is published, as WIRE.md describes them."""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
