"""Vectors that no Hadamard frame can serve, in the frames of SQKR.

Bits are fixed, so the tests are deterministic; fresh bits would fail a right mechanism with probability below 10^-6.
"""

import itertools
import math

import numpy as np
import pytest

from streamsketch.local import SQKR, MeanAggregator
from streamsketch.local.baselines.frames import HadamardFrame
from tests.local.directions import bits, repeated

pytestmark = pytest.mark.rejects(1e-6)


ERRORS = 6.0


def dependent_four(places: np.ndarray) -> list[int]:
    """Return four coordinates whose places have XOR 0."""
    found: dict[int, tuple[int, int]] = {}
    for pair in itertools.combinations(range(places.size), 2):
        other = found.setdefault(int(places[pair[0]] ^ places[pair[1]]), pair)
        if not set(other) & set(pair):
            return [*other, *pair]
    raise AssertionError


def test_sqkr_is_unbiased_even_along_what_no_hadamard_frame_can_serve() -> None:
    """(±½, ±½, ±½, ±½) on four dependent places of a frame shrinks by an eighth there, 17 standard errors.

    d = 64, ε = 16, n = 4,000. Which product of the four signs is hit depends on the seed, so both are asked.
    """
    people = 4000
    published = SQKR(dim=64, epsilon=16.0, seed=3, rotation="hadamard")
    assert isinstance(published.frame, HadamardFrame)
    four = dependent_four(published.frame.kashin.places)
    means = {}
    for rotation in ("gaussian", "hadamard"):
        mechanism = SQKR(dim=64, epsilon=16.0, seed=3, rotation=rotation)
        for last in (0.5, -0.5):
            vector = np.zeros(64)
            vector[four] = 0.5
            vector[four[3]] = last
            server, source = MeanAggregator(mechanism), bits((rotation, last))
            for _ in range(people // 2000):
                server.add(mechanism.randomize_many(repeated(vector, 2000), bits=source))
            error = math.sqrt(mechanism.squared_error / 64 / people)
            means[rotation, last] = (server.mean() @ vector - 1) / error
    assert max(abs(means["gaussian", last]) for last in (0.5, -0.5)) < ERRORS
    assert min(means["hadamard", last] for last in (0.5, -0.5)) < -2 * ERRORS
