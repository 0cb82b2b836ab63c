"""The command ``streamsketch``: one file a command; files that begin with an underscore serve several."""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
