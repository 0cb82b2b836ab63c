"""Noise meets sketches: what is published of vectors, matrices, streams and tables, and how it is checked."""
