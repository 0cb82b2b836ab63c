"""Magnitudes at which some rule of clipping could wrap, round or saturate: one list for all rules and their twins."""

import itertools

SIZES = [
    0, 1, 2, (1 << 24) - 1, 1 << 24, 46341, (1 << 31) - 1, 1 << 31, (1 << 31) + 1, (1 << 32) - 1, 1 << 32,
    (1 << 32) + 1, (1 << 61) + 1, (1 << 62) - 1, 1 << 62, (1 << 63) - 1,
]  # fmt: skip
EDGES = sorted({sign * size for size in SIZES for sign in (1, -1)} | {-(1 << 63)})
"""As int64: squares of some wrap at 2^64, sums of two or three pass 2^63 and 2^64, and |-2^63| is no int64."""

LIMITS = [1, 2, 9, (1 << 31) - 1, 1 << 31, (1 << 32) + 7, (1 << 61) + 3, (1 << 62) - 1]
"""Of rules with limits below 2^62; those on cells are below 2^31."""

UNITS = [
    *([one] for one in EDGES),
    *map(list, itertools.combinations_with_replacement([*SIZES, -(1 << 63)], 2)),
    *([one] * count for one in EDGES for count in (3, 5)),  # four and more pass 2^64
    *([one, 3, ~one] for one in EDGES),
]
"""What one unit may hold, index by index."""
