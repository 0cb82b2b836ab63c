"""Sketches of Spark data frames: computed exactly on the cluster, and released once on the driver."""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
