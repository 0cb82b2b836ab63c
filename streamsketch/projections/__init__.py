"""The public maps: integer matrices that anyone can rebuild from a seed, times a public scale."""

from streamsketch.projections.base import Projection
from streamsketch.projections.sjlt import SJLT, CountSketch

__all__ = ["SJLT", "CountSketch", "Projection"]
