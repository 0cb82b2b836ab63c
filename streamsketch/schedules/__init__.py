"""Which sums of windows are published over time, and how little noise any range of time then has."""
