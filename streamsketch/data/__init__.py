"""What users pass in as integers: columns and tables, keys, values on a grid, and readers of files."""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
