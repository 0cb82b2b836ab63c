"""What parties agree on besides the projection: columns, their types and order, the bound, and what missing means."""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
