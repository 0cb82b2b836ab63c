"""Neighbours, budgets, guarantees, noises, exact samplers and composition; knows nothing of projections."""

import streamsketch.privacy.noises
import streamsketch.privacy.relations  # noqa: F401 - from here on noises and relations are known by their names
from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
