"""PrivateProjection: a release for each row, at the exact sensitivity of the matrix in use."""

import math
from typing import Any

import numpy as np
import pytest

import streamsketch as ss
from benchmarks import sigmas
from streamsketch.privacy.gaussian import DiscreteGaussian

RATING = ss.L1(1, unit="rating")


def publisher(projection: ss.projections.Projection) -> ss.release.PrivateProjection:
    return ss.release.PrivateProjection(
        projection=projection, epsilon=1.0, delta=1e-6, neighbours=RATING, mechanism="gaussian"
    )


def test_rows_are_comparable_releases_of_their_vectors() -> None:
    random = np.random.default_rng(1)
    matrix = random.integers(0, 50, (6, 300))
    rows = publisher(ss.projections.GaussianProjection(dim=300, sketch_dim=256, seed=1)).release(matrix)
    assert len({row.release_ids for row in rows}) == 6
    estimates = ss.pairwise(rows)
    exact = ((matrix[:, None] - matrix) ** 2).sum(axis=2)
    errors = np.abs(estimates.value - exact)[~np.eye(6, dtype=bool)]
    assert (errors <= 6 * estimates.standard_error[~np.eye(6, dtype=bool)]).all()
    assert all(row.guarantee.epsilon == 1.0 and row.guarantee.neighbours == RATING for row in rows)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_it_never_takes_more_noise_than_the_papers_theorem(epsilon: float) -> None:
    projection = ss.projections.GaussianProjection(dim=200, sketch_dim=32, seed=4)
    publish = ss.release.PrivateProjection(
        projection=projection, epsilon=epsilon, delta=1e-6, neighbours=RATING, mechanism="gaussian"
    )
    assert isinstance(publish.noise, DiscreteGaussian)
    w2 = np.linalg.norm(projection.columns(range(200)), axis=0).max()
    paper = w2 * sigmas.kkmm(epsilon, 1e-6)
    assert math.sqrt(publish.noise.sigma_squared) < paper
    assert publish.noise.sigma_squared > (0.3 * paper) ** 2


def test_with_no_map_it_is_the_raw_data_baseline() -> None:
    u, v = np.array([[3, 0, 4]]), np.array([[1, 2, 2]])
    (x,), (y,) = (publisher(ss.projections.Identity(dim=3)).release(one) for one in (u, v))
    estimate = ss.inner_product(x, y)
    sigma_squared = x.noise.k2
    assert estimate.projection_variance == 0
    norms = [max(ss.squared_norm(one).value, 0) for one in (x, y)]
    assert estimate.noise_variance == pytest.approx(sigma_squared * sum(norms) + 3 * sigma_squared**2)  # Theorem C.1


def test_a_matrix_of_another_width_is_refused() -> None:
    with pytest.raises(ss.InvalidInputError, match=r"\(n, 3\)"):
        publisher(ss.projections.Identity(dim=3)).release(np.zeros((2, 4), dtype=int))


def test_fractions_are_published_for_one_coordinate_only() -> None:
    """0.6 + 0.6 is one step of 1; without one of the two contributions, none: but ⌊0.6 / 1⌋ is no step at all."""
    matrix = np.full((2, 3), 1.2)
    with pytest.raises(ss.InvalidInputError, match=r"must hold integers.*got float64 on 1:.*OneCoordinate"):
        publisher(ss.projections.Identity(dim=3)).release(matrix)
    fractions = ss.release.PrivateProjection(
        projection=ss.projections.Identity(dim=3), epsilon=1, neighbours=ss.OneCoordinate("0.6")
    )
    assert fractions.noise.cumulants.k2 > 0
    assert len(fractions.release(matrix)) == 2


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"epsilon": -1}, ss.InvalidInputError, "epsilon must be"),
        ({"delta": 2}, ss.InvalidInputError, "delta must be"),
        ({"mechanism": "cauchy"}, ss.InvalidInputError, "mechanism must be one of .*got 'cauchy'"),
        ({"mechanism": ["laplace"]}, ss.InvalidInputError, "mechanism must be one of"),
        ({"mechanism": "gaussian"}, ss.InvalidInputError, "never gives delta = 0"),
        ({"neighbours": 1}, TypeError, "neighbours must be"),
        ({"neighbours": ss.L1("1/3")}, ss.InvalidInputError, "below one grid step"),
        ({"projection": 3}, TypeError, "projection must be .*got a int"),
    ],
    ids=["epsilon", "delta", "mechanism", "list", "gaussian", "neighbours", "grid", "projection"],
)
def test_what_could_never_be_released_is_refused_at_once(
    change: dict[str, Any], error: type[Exception], message: str
) -> None:
    arguments: dict[str, Any] = {
        "projection": ss.projections.Identity(dim=3),
        "epsilon": 1,
        "neighbours": RATING,
    } | change
    with pytest.raises(error, match=message):
        ss.release.PrivateProjection(**arguments)
