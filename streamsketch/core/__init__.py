"""Exact numbers, text, limits on input, atomic files and compilation; knows nothing of sketches."""
