"""Raw sketches and states of streams at rest: secret files of one party, which remember their releases."""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
