"""What operators run: Apache Beam jobs on files and streams, and what stands beside them."""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
