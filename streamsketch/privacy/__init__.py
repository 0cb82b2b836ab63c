"""Neighbours, budgets, guarantees, noises, exact samplers and composition; knows nothing of projections."""

import streamsketch.privacy.noises  # noqa: F401 - from here on every noise is known by its name
from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
