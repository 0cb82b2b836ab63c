"""What operators run on a cluster, and beside it: jobs on files and streams, by an agreement and a policy."""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
