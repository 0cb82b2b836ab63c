"""Imports every family of maps, so that each registers its kinds for JSON and the wire."""

from streamsketch.projections import fjlt, identity, independent, oporp, rotation, sjlt, srht

__all__ = ["fjlt", "identity", "independent", "oporp", "rotation", "sjlt", "srht"]
