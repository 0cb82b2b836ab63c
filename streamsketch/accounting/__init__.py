"""How far one unit moves a sketch, what a release spends, and ledgers of budgets."""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
