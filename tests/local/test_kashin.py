"""Kashin representations: exact, and small in every direction."""

import numpy as np
import pytest

from streamsketch.local.kashin import KashinFrame
from streamsketch.projections import hadamard_transform
from tests.local.directions import directions


@pytest.mark.parametrize("dim", [1, 2, 16, 64, 100, 784, 1024, 1100])
def test_coefficients_are_exact_and_small(dim: int) -> None:
    frame = KashinFrame(dim, seed=3)
    chosen = np.stack(list(directions(dim).values())) if dim > 2 else np.eye(dim)
    own = frame.synthesise(np.eye(frame.size)[:1])  # along a frame vector, the slowest
    vectors = np.concatenate([chosen, own / np.linalg.norm(own)])
    coefficients = frame.spread(vectors)
    assert frame.synthesise(coefficients) == pytest.approx(vectors, abs=1e-12)
    assert np.abs(coefficients).max() <= frame.limit * (1 + 1e-12)


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
    assert KashinFrame(50, seed=1).places.tolist() != KashinFrame(50, seed=2).places.tolist()
