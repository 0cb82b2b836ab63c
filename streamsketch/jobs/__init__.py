"""Jobs on files and streams, which operators run on a cluster or beside it, by an agreement and a job."""

from streamsketch._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
