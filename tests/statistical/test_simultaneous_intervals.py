"""Intervals with level="all" hold for all pairs at once; tests/estimation has what follows for extremes and ranks.

Cells are those of real maps, and noise is drawn as releases draw it. Draws are of fixed seeds; were they drawn anew, an
assertion would fail with probability below 10^-4 if the coverage were what it states.
"""

import numpy as np
import pytest
from scipy.stats import binom

import streamsketch as ss
from streamsketch.core.numbers import Ints
from streamsketch.estimation.blocks import Block
from streamsketch.estimation.distances import distances_between
from streamsketch.estimation.noise_effect import effect_of
from tests.noise import salted_rng

pytestmark = pytest.mark.rejects(1e-4)


DRAWS, STREAMS, DIM = 250, 20, 256
FALSE_REJECTS = 1e-4


def streams(kind: str) -> Ints:
    rng = salted_rng(5)
    each = rng.choice([-8, 8], size=(STREAMS, DIM))
    kinds: dict[str, Ints] = {
        "unlike": each,
        "alike": each + 10 * rng.choice([-8, 8], size=DIM),
        "sizes": each * 2 ** np.arange(0, 10, 0.5)[:, None].astype(int),
    }
    return kinds[kind]


def noise_of(law: str, size: float, shape: tuple[int, ...], rng: np.random.Generator) -> tuple[Ints, float, float]:
    """Return noise in grid steps, and its second and fourth cumulant."""
    if law == "normal":
        return np.rint(rng.normal(0, size, shape)).astype(np.int64), size**2, 0.0
    scale = size / 2**0.5
    return np.rint(rng.laplace(0, scale, shape)).astype(np.int64), size**2, 12 * scale**4


@pytest.mark.parametrize(
    ("kind", "cells", "law", "least"),
    [
        ("unlike", 32, "none", 0.95),
        pytest.param("unlike", 256, "normal", 0.95, marks=pytest.mark.long),
        ("alike", 256, "normal", 0.95),
        pytest.param("sizes", 256, "none", 0.95, marks=pytest.mark.long),
        ("alike", 64, "laplace", 0.92),
    ],
)
def test_intervals_of_all_pairs_hold_together(kind: str, cells: int, law: str, least: float) -> None:
    rng = salted_rng(cells)
    values = streams(kind)
    truth = ((values[:, None] - values) ** 2).sum(axis=2).astype(float)
    first, second = np.triu_indices(STREAMS, 1)
    apart = truth[first, second]
    held = np.zeros(2)
    for seed in range(DRAWS):
        projection = ss.SJLT(dim=DIM, sketch_dim=cells, sparsity=8, seed=seed)
        state = projection.transform(values, exact=True)
        noise, k2, k4 = (np.zeros_like(state), 0.0, 0.0) if law == "none" else noise_of(law, 30.0, state.shape, rng)
        unit = np.full(STREAMS, projection.cell_unit)
        second_moments, fourth = k2 * unit**2, k4 * unit**4
        block = Block(state + noise, unit, second_moments, fourth, projection.variance, effect_of(projection, "output"))
        found = distances_between(block, block, same=True)
        for place, ends in enumerate((found.interval(0.95, level="all"), found.interval(1 - 0.05 / len(first)))):
            held[place] += ((ends.low[first, second] <= apart) & (apart <= ends.high[first, second])).all()
    lost = binom.ppf(1 - FALSE_REJECTS, DRAWS, 1 - least)
    assert DRAWS - held[0] <= lost
    if cells == 32:
        assert held[1] < 0.92 * DRAWS, "the test can tell: normal quantiles cover too little of 190 pairs"
