"""Every kind of map. Importing this imports all families, each of which registers its own kinds."""

from streamsketch.projections import fjlt, identity, independent, oporp, rotation, sjlt, srht
from streamsketch.projections.base import KINDS

__all__ = ["KINDS", "fjlt", "identity", "independent", "oporp", "rotation", "sjlt", "srht"]
