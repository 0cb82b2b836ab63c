"""Kashin representations: exact, and small in every direction."""

import itertools

import numpy as np
import pytest

from streamsketch.local.baselines.kashin import KashinFrame, independent_places
from streamsketch.projections.hadamard import hadamard_transform
from tests.local.directions import directions


@pytest.mark.parametrize("dim", [1, 2, 16, 64, 100, 784, 1024, 1100])
def test_coefficients_are_exact_and_small(dim: int) -> None:
    frame = KashinFrame(dim, seed=3)
    chosen = np.stack(list(directions(dim).values())) if dim > 2 else np.eye(dim)
    own = frame.synthesise(np.eye(1, frame.size))  # along a frame vector, the slowest
    vectors = np.concatenate([chosen, own / np.linalg.norm(own)])
    coefficients = frame.spread(vectors)
    assert frame.synthesise(coefficients) == pytest.approx(vectors, abs=1e-12)
    assert np.abs(coefficients).max() <= frame.limit * (1 + 1e-12)


@pytest.mark.parametrize("dim", [3, 4, 5, 8, 16, 31, 32])
def test_small_frames_serve_every_vector(dim: int) -> None:
    """Frame vectors, all fours of equal size with any signs up to 8 coordinates, sparse ones, dense ones."""
    frame = KashinFrame(dim, seed=3)
    rng = np.random.default_rng(dim)
    chosen = list(itertools.combinations(range(dim), min(4, dim)))
    fours = [
        np.isin(np.arange(dim), places) * np.where(np.arange(dim) == places[0], -1.0, 1.0) * sign
        for places in chosen[:: 1 + len(chosen) // 75]
        for sign in (1.0, np.where(np.arange(dim) == places[1], -1.0, 1.0))
    ]
    sparse = rng.choice([-1.0, 0, 0, 0, 1], size=(80, dim))
    sparse[:, 0] += 2.0
    own = frame.synthesise(np.eye(frame.size)[:: max(1, frame.size // 32)])
    vectors = np.concatenate([own, fours, sparse, rng.normal(size=(50, dim))])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    coefficients = frame.spread(vectors)
    assert np.abs(coefficients).max() <= frame.limit * (1 + 1e-12)
    assert np.abs(frame.synthesise(coefficients) - vectors).max() < 1e-12


def test_steps_that_a_vector_does_not_need_change_no_bit_of_it() -> None:
    """Against steps that end for each vector as soon as its coefficients are small."""
    frame = KashinFrame(100, seed=3)
    for vector in directions(100).values():
        expected, steps = frame.analyse(vector[np.newaxis]), 0
        while np.abs(expected).max() > frame.limit:
            moved = expected + 1.9 * (np.clip(expected, -0.98 * frame.limit, 0.98 * frame.limit) - expected)
            expected = moved + frame.analyse(vector - frame.synthesise(moved))
            steps += 1
        assert steps < 40
        assert frame.spread(vector[np.newaxis]).tobytes() == expected.tobytes()


def test_no_four_places_of_small_frames_depend_on_one_another() -> None:
    places = independent_places()
    assert len({first ^ second for first, second in itertools.combinations(places, 2)}) == 32 * 31 // 2
    assert max(places) < KashinFrame(32, seed=3).size


def test_four_dependent_places_take_a_level_of_two() -> None:
    """What the places are chosen against: 0 ^ 1 ^ 2 ^ 3 = 0."""
    frame = KashinFrame(4, seed=3)
    frame.places = np.arange(4)
    vectors = np.array([[1.0, 1, 1, 1], [1, 1, 1, -1]]) / 2
    assert np.abs(frame.spread(vectors)).max() > 1.1 * frame.limit


def test_without_redundancy_clipping_would_shrink_the_vector() -> None:
    """⟨v, v̂⟩ of a rotation's own coefficients, clipped: below 0.95. The frame's is 1 after it clips nothing."""
    vector = directions(1024)["gaussian"]
    signs = np.resize([1.0, -1.0, -1.0, 1.0, 1.0], 1024)
    coefficients = vector * signs
    hadamard_transform(coefficients)
    coefficients /= 32
    limit = 1.75 / 32
    assert coefficients @ coefficients == pytest.approx(1)
    assert coefficients @ np.clip(coefficients, -limit, limit) < 0.95
    frame = KashinFrame(1024, seed=3)
    spread = frame.spread(vector[np.newaxis])
    clipped = np.clip(spread, -frame.limit, frame.limit)
    assert frame.synthesise(clipped)[0] @ vector == pytest.approx(1, abs=1e-12)


def test_the_frame_is_tight() -> None:
    frame = KashinFrame(12, seed=3)
    vectors = frame.synthesise(np.eye(frame.size))
    assert vectors.T @ vectors == pytest.approx(np.eye(12), abs=1e-12)
    assert frame.analyse(np.eye(12)) == pytest.approx(vectors.T, abs=1e-12)
    assert (vectors**2).sum(axis=1) == pytest.approx(np.full(frame.size, 12 / frame.size))


def test_frames_of_other_seeds_differ() -> None:
    assert KashinFrame(20, seed=1).signs.tolist() != KashinFrame(20, seed=2).signs.tolist()
    assert KashinFrame(50, seed=1).places.tolist() != KashinFrame(50, seed=2).places.tolist()
