"""Schedules and ranges of windows, as WIRE.md has them, in fractions: nothing here knows the library."""

import math
from fractions import Fraction
from typing import Any

Message = dict[str, Any]


def matrix(fields: Message) -> list[list[int]]:
    """Return C of a schedule."""
    horizon = fields["horizon"]
    if fields["kind"] == "separate":
        return [[int(j == t) for j in range(horizon)] for t in range(horizon)]
    if fields["kind"] == "tree":
        first = firsts(horizon, fields["depth"])
        return [[int(first[t] <= j <= t) for j in range(horizon)] for t in range(horizon)]
    return [_weights(fields, blocks) for blocks in _blocks_of_rows(fields)]


def firsts(horizon: int, depth: int) -> list[int]:
    """Return a_t of a tree: the first window in row t."""
    found = {}

    def windows(d: int, n: int) -> int:
        return math.comb(d + n, n) - 1

    def fill(start: int, d: int, n: int) -> None:
        if n == 0:
            return
        if d > 1:
            fill(start, d - 1, n)
        closing = start + windows(d - 1, n)
        found[closing] = start
        fill(closing + 1, d, n - 1)

    fill(0, depth, next(n for n in range(1, horizon + 1) if windows(depth, n) >= horizon))
    return [found[t] for t in range(horizon)]


def _blocks_of_rows(fields: Message) -> list[list[range]]:
    """Return the blocks of windows of each row of a factorisation, oldest first."""
    rows, held = [], list[range]()
    for t in range(fields["horizon"]):
        held = [*held, range(t, t + 1)]
        if "band" in fields:
            held = held[-fields["band"] :]
        else:
            size = 1
            while len(alike := [one for one in held if len(one) == size]) > fields["blocks"]:
                at = held.index(alike[0])
                held[at : at + 2] = [range(held[at].start, held[at + 1].stop)]
                size *= 2
        rows.append(held)
        held = list(held)
    return rows


def _weights(fields: Message, blocks: list[range]) -> list[int]:
    t, row = blocks[-1].start, [0] * fields["horizon"]
    for block in blocks:
        roots = [Fraction(math.comb(2 * (t - i), t - i), 4 ** (t - i)) for i in block]
        for j in block:
            row[j] = round(2 ** fields["bits"] * sum(roots) / len(block))  # ties to even
    return row


def weights(fields: Message, history: Message) -> list[Fraction]:
    """Return w of a range: from the last row up."""
    c, horizon = matrix(fields), fields["horizon"]
    wanted = [int(history["start"] <= j < history["stop"]) for j in range(horizon)]
    wanted = [one - int(history["minus_start"] <= j < history["minus_stop"]) for j, one in enumerate(wanted)]
    found = [Fraction(0)] * horizon
    for j in reversed(range(horizon)):
        rest = sum((c[t][j] * found[t] for t in range(j + 1, horizon)), start=Fraction(0))
        found[j] = (wanted[j] - rest) / c[j][j]
    return found
