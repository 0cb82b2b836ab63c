"""What releases spend: how far one unit moves a sketch, what noise costs, and ledgers of budgets."""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
