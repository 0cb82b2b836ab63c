"""How rows of any source enter: the windows that their times fall into."""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
