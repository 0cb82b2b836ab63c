"""How published signs agree with a query's: mean, and what all members have in common, by simulation."""

import math
from typing import Any

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.projections import OPORP, Rademacher
from streamsketch.signs import DPSignLogistic, DPSignOPORPRR, DPSignOPORPRRSmooth
from streamsketch.signs.sign_gains import cells_of, gain_of
from streamsketch.signs.sign_products import plain_products, shared_covariance, sign_products
from tests.noise import salted_rng

pytestmark = pytest.mark.rejects(1e-4)


NORM = 300.0
CASES = [
    (DPSignOPORPRR(epsilon=1.5, neighbours=ss.OneCoordinate(1)), OPORP(dim=900, sketch_dim=64, seed=1)),
    (DPSignOPORPRRSmooth(epsilon=0.02, neighbours=ss.OneCoordinate(1)), OPORP(dim=900, sketch_dim=64, seed=1)),
    (DPSignLogistic(epsilon=9.0, neighbours=ss.L1(1)), Rademacher(dim=900, sketch_dim=64, seed=1)),
]


@pytest.mark.parametrize("exact_query", [False, True])
@pytest.mark.parametrize(("publish", "projection"), CASES)
def test_products_have_the_mean_and_the_shared_variance_of_simulated_cells(
    publish: Any, projection: Any, *, exact_query: bool
) -> None:
    rng = salted_rng(2)
    theta, law, guarantee = 0.7, publish.law(projection), publish.guarantee(projection)
    found = sign_products(theta, projection, law, guarantee, norm=NORM, exact_query=exact_query)
    gain = gain_of(cells_of(projection, law, guarantee, NORM), 0)
    cells = rng.normal(size=4_000)
    own = np.sign(cells) if exact_query else np.where(rng.random(4_000) < (1 + gain(cells)) / 2, 1, -1)
    members = cells[:, None] * math.cos(theta) + rng.normal(size=(4_000, 100)) * math.sin(theta)
    given = own * gain(members.ravel()).reshape(members.shape).mean(axis=1)
    within = gain(members.ravel()).reshape(members.shape).var(axis=1, ddof=1).mean() / 100
    assert given.mean() == pytest.approx(found.mean, abs=5 * given.std() / math.sqrt(4_000))
    assert given.var() - within == pytest.approx(shared_covariance([found])[0, 0], abs=0.02)


def test_exact_signs_agree_by_their_angle() -> None:
    for theta in (0.0, 0.5, math.pi / 2, 3.0):
        assert plain_products(theta).mean == pytest.approx(1 - 2 * theta / math.pi)
    covariance = shared_covariance([plain_products(theta) for theta in (0.0, 0.5, 1.0, math.pi / 2)])
    assert covariance[[0, 3]] == pytest.approx(np.zeros((2, 4)), abs=1e-4)
    assert 0.5 < covariance[1, 2] / math.sqrt(covariance[1, 1] * covariance[2, 2]) < 0.99
    assert covariance[1, 1] > 0.05


def test_angles_out_of_range_are_refused() -> None:
    publish, projection = CASES[0]
    with pytest.raises(ss.InvalidInputError, match="an angle lies in"):
        sign_products(4.0, projection, publish.law(projection), publish.guarantee(projection))
