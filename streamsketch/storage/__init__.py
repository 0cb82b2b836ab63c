"""Raw sketches at rest: secret files of one party, which remember what was released from them."""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
