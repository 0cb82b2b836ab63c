"""What several parties do together: rounds with one noise for all, keys, and signed statements."""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
