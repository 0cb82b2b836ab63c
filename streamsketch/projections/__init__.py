"""The public maps: integer matrices, rebuilt from a public seed, times a public scale."""

import streamsketch.projections.families  # noqa: F401 - from here on every kind is known to `Projection.from_json`
from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
