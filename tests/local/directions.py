"""Unit vectors in which estimators go wrong, and bits that are the same in each run."""

import numpy as np

from streamsketch.privacy.samplers import KeyedBits
from tests.noise import salted_bits, salted_rng


def directions(dim: int) -> dict[str, np.ndarray]:
    """Return unit vectors by name: (dim,) each."""
    places = np.arange(dim)
    chosen = {
        "basis": np.where(places == dim // 3, 1.0, 0.0),
        "ones": np.ones(dim),
        "two": np.where(places == 0, 1.0, 0.0) - (places == dim - 1),
        "sparse": np.where(places < max(3, dim // 50), 1.0, 0.0),
        "gaussian": salted_rng(dim).normal(size=dim),
    }
    return {name: vector / np.linalg.norm(vector) for name, vector in chosen.items()}


def repeated(vector: np.ndarray, people: int) -> np.ndarray:
    return np.broadcast_to(vector, (people, vector.size))


def bits(name: object) -> KeyedBits:
    return salted_bits(repr(name).encode())
