"""Endless streams on one machine: sums by window of event time, each released once, and a file to go on from."""
