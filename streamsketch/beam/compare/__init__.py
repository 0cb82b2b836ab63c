"""Distances and nearest neighbours of releases, by blocks, and tables of both as files."""
