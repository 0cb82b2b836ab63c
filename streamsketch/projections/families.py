"""Every family of maps, imported: each registers its kinds, by which JSON and the wire name them."""

from streamsketch.projections import fjlt, identity, independent, oporp, rotation, sjlt, srht

__all__ = ["fjlt", "identity", "independent", "oporp", "rotation", "sjlt", "srht"]
