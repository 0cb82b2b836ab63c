"""What a release guarantees, to whom, and what it does not, in plain text."""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
