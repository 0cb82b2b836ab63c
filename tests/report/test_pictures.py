"""The map of the streams: exact where nothing is uncertain, and honest about how far off it may be."""

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.estimation import Estimates
from streamsketch.report.pictures import unit_of
from streamsketch.report.scaling import Scaling, classical_scaling


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def squares(points: np.ndarray) -> np.ndarray:
    found: np.ndarray = ((points[:, None] - points) ** 2).sum(axis=2)
    return found


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


def twin(squares: np.ndarray, of_map: np.ndarray, of_noise: np.ndarray) -> Scaling:
    """Return the scaling by its formulas: all eigenvectors, and each stream's covariance as a sum over pairs."""
    n = len(squares)
    centre = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-0.5 * centre @ squares @ centre)
    places = vectors[:, :-3:-1] * np.sqrt(np.maximum(values[:-3:-1], 0.0))
    solve = places / (2 * np.maximum((places**2).sum(axis=0), 1e-300))
    covariances = np.zeros((n, 2, 2))
    for point, i, j in np.ndindex(n, n, n):
        if point in (i, j):
            continue
        d, e = squares[point, i], squares[point, j]
        cosine = (d + e - squares[i, j]) / (2 * np.sqrt(d * e)) if min(d, e) > 0 else 0.0
        cosine = 1.0 if i == j else float(np.clip(cosine, -1, 1))
        shared = np.sqrt(of_map[point, i] * of_map[point, j]) * cosine**2
        shared += np.sqrt(of_noise[point, i] * of_noise[point, j]) * (1.0 if i == j else cosine / 2)
        covariances[point] += shared * np.outer(solve[i], solve[j])
    values, vectors = np.linalg.eigh(covariances)
    covariances = (vectors * np.maximum(values, 0.0)[:, None]) @ vectors.transpose(0, 2, 1)
    return Scaling(places, covariances, 0.0)


@pytest.mark.parametrize("n", [2, 5, pytest.param(70, marks=pytest.mark.long)])
def test_places_and_covariances_are_those_of_the_formulas(n: int, rng: np.random.Generator) -> None:
    """Of noisy distances, some of them negative; in blocks of a few rows as in one."""
    noise = np.triu(rng.normal(size=(n, n)), 1)
    values = squares(rng.normal(size=(n, 4))) + noise + noise.T
    of_map, of_noise = (np.abs(one) for one in (values / 3, np.full((n, n), 0.7)))
    expected = twin(values, of_map, of_noise)
    found = classical_scaling(Estimates(values, of_map, of_noise), rows=3 if n == 5 else 64)
    turn = np.sign((found.places * expected.places).sum(axis=0))
    assert np.allclose(found.places * turn, expected.places, atol=1e-9)
    assert np.allclose(found.covariances * np.outer(turn, turn), expected.covariances, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("size", "unit"),
    [
        (3e12, "trillions"),
        (1e3, "thousands"),
        (999.0, ""),
        (0.01, ""),
        (0.0099, "thousandths"),
        (4e-5, "millionths"),
        (1e-9, "millionths"),
        (0.0, ""),
    ],
)
def test_numbers_of_a_picture_are_in_units_that_fit_their_size(size: float, unit: str) -> None:
    factor, word = unit_of(size)
    assert word == unit
    assert size == 0 or size < 1e-6 or 0.01 <= size / factor < 1e4
