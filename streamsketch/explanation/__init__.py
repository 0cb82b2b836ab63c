"""What a release guarantees, to whom, and what it does not, in words a person can check."""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
