"""Cases of several parameters: each two values meet in `make test`, and all of them in `make test-long`.

A fault that depends on one value, or on two together, fails a case of both. One that depends on three is for the night.
"""

import itertools
from collections.abc import Iterable
from typing import Any

import pytest


def crossed(**values: Iterable[Any]) -> pytest.MarkDecorator:
    """Parametrise a test by all combinations, of which those are marked `long` that are not needed for any two values.

    Parameters
    ----------
    values
        The values of each parameter, in an order that does not depend on imports.
    """
    lists = [list(some) for some in values.values()]
    sizes = [len(some) for some in lists]
    needed = set(covering(sizes))
    cases = [
        pytest.param(*(some[place] for some, place in zip(lists, places, strict=True)), marks=marks)
        for places in itertools.product(*map(range, sizes))
        for marks in [[] if places in needed else [pytest.mark.long]]
    ]
    return pytest.mark.parametrize(tuple(values), cases)


def covering(sizes: list[int]) -> list[tuple[int, ...]]:
    """Return few combinations in which each two values of different parameters meet: greedily, the first of the best.

    Parameters
    ----------
    sizes
        How many values each parameter has.
    """
    every = {places: set(pairs_of(places)) for places in itertools.product(*map(range, sizes))}
    left, chosen = set().union(*every.values()), list[tuple[int, ...]]()
    while left:
        best = max(every, key=lambda places: len(every[places] & left))
        chosen.append(best)
        left -= every[best]
    return chosen


def pairs_of(places: tuple[int, ...]) -> Iterable[tuple[tuple[int, int], ...]]:
    """Return each two parameters of a case, with their values; the one of a case of one parameter."""
    return itertools.combinations(enumerate(places), min(2, len(places)))
