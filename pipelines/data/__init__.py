"""Data of the demonstrations."""
