"""Measurements of streamsketch beside its peers and its limits; see README.md."""
