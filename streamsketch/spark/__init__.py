"""The same on Apache Spark: exact sketches of a data frame on the cluster, released once on the driver."""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
