"""Warnings at the line of the user's code that caused them."""

import sys
import warnings
from pathlib import Path

_HERE = str(Path(__file__).parent.parent)


def warn_outside(message: str, category: type[Warning]) -> None:
    """Warn at the line outside this package that asked for what is warned of."""
    level, frame = 1, sys._getframe()  # noqa: SLF001 - what `warnings` itself counts
    # a dataclass's own code is of no file
    while frame.f_back is not None and frame.f_code.co_filename.startswith((_HERE, "<string>")):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
