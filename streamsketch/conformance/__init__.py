"""Test cases for other implementations of the exchange format."""
