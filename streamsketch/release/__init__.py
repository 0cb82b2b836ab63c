"""Noise meets sketches: what is published of vectors, matrices, streams and tables, and checks of what others publish."""
