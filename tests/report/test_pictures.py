"""The map of the streams: exact where nothing is uncertain, and honest about how far off it may be."""

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.estimation import Estimates
from streamsketch.report.pictures import Scaling, classical_scaling


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def squares(points: np.ndarray) -> np.ndarray:
    return ((points[:, None] - points) ** 2).sum(axis=2)


def estimates(values: np.ndarray, variance: float = 0.0) -> Estimates:
    return Estimates(values, np.zeros_like(values), np.full_like(values, variance) * ~np.eye(len(values), dtype=bool))


def turned_onto(scaling: Scaling, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return places and covariances after the rotation that brings the places nearest to the truth (Procrustes)."""
    left, _, right = np.linalg.svd(scaling.places.T @ truth)
    turn = left @ right
    return scaling.places @ turn, turn.T @ scaling.covariances @ turn


@pytest.mark.parametrize("n", [2, 3, 12])
def test_points_of_a_plane_are_found_again_up_to_a_turn(n: int, rng: np.random.Generator) -> None:
    points = rng.normal(size=(n, 2))
    scaling = classical_scaling(estimates(squares(points)))
    assert np.allclose(squares(scaling.places), squares(points))
    assert scaling.share == pytest.approx(1.0)
    assert np.allclose(scaling.covariances, 0.0)


@pytest.mark.parametrize("values", [np.zeros((4, 4)), np.full((3, 3), -5.0) * ~np.eye(3, dtype=bool)])
def test_streams_that_nothing_sets_apart_share_a_place(values: np.ndarray) -> None:
    scaling = classical_scaling(estimates(values, 9.0))
    assert np.isfinite(scaling.covariances).all()
    assert np.allclose(scaling.places, 0.0, atol=1e-6)


def test_streams_of_a_line_have_no_height() -> None:
    scaling = classical_scaling(estimates(squares(np.array([[0.0, 0.0], [1.0, 0.0], [5.0, 0.0]])), 0.01))
    assert np.allclose(scaling.places[:, 1], 0.0, atol=1e-6)
    assert np.isfinite(scaling.covariances).all()


def test_ellipses_hold_the_true_places(rng: np.random.Generator) -> None:
    """30 draws of map and noise, 10 streams each: 99 % or more, as the best turn takes some of the error with it."""
    dim, n = 500, 10
    streams = np.rint(rng.normal(size=(n, 3)) * [30, 15, 2] @ rng.normal(size=(3, dim))).astype(int)
    truth = classical_scaling(estimates(squares(streams.astype(float)))).places
    inside = []
    for seed in range(30):
        projection = ss.SJLT(dim=dim, sketch_dim=256, sparsity=4, seed=seed)
        releases = []
        for stream in streams:
            sketch = projection.sketch()
            sketch.update(np.arange(dim), stream)
            releases.append(sketch.release(epsilon=0.05, neighbours=ss.L1(1)))
        places, covariances = turned_onto(classical_scaling(ss.pairwise(releases)), truth)
        off = places - truth
        inside += [float(d @ np.linalg.solve(c, d)) < 5.991 for d, c in zip(off, covariances, strict=True)]
    assert np.mean(inside) > 0.88
