"""Which sums of windows are published over time, row by row, and how little noise any range of time then has."""
