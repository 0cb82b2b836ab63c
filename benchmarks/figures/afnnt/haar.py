"""ProjUnit's squared error under Haar rotations, by symmetry: without the rotations, which take seconds each.

W = √(d/k)·Q with the k rows of Q orthonormal and Haar, v of length 1, u = Wv/‖Wv‖, û = PrivUnitG(u) in R^k.

**Independent rotations.** u is uniform on the sphere of R^k and independent of ‖Wv‖² = (d/k)·B, where B is
Beta(k/2, (d-k)/2): the squared length of the first k coordinates of a uniform unit vector. As WWᵀ = (d/k)·I, Wᵀû has
squared length (d/k)‖û‖², and along v it has ⟨û, Wv⟩ = ‖Wv‖·⟨û, u⟩. For a rotation R that keeps v, WR has the
distribution of W and WRv = Wv, so RᵀWᵀû has that of Wᵀû given û: the rest of Wᵀû is uniform on the sphere across v. So
one report takes k + O(1) random numbers. For the mean of n only inner products matter of the n vectors and the n
directions across them, and those of n Gaussian vectors take n(n+1)/2 numbers (`gaussian_rows`). So a run takes
O(n(n + k)) numbers instead of n rotations of k·d.

**One rotation U for all.** The server's error is ‖√(d/k)·ΣSᵢᵀûᵢ - ΣUvᵢ‖/n. The paper's vectors are Gaussian about a
uniform centre, so their joint distribution is the same after any rotation, and the Uvᵢ may be drawn in their place:
O(nd).
"""

from typing import NamedTuple

import numpy as np

from benchmarks.figures.afnnt import parts
from benchmarks.symmetry import gaussian_rows
from streamsketch.local import ProjUnit
from streamsketch.local.priv_unit_g import randomize_units
from streamsketch.local.rotations import shared_squared_bias
from streamsketch.privacy.samplers import KeyedBits


class Errors(NamedTuple):
    """Squared errors of the mean, (runs,), their closed form for one vector many times, and its part that stays."""

    measured: parts.Floats
    expected: float
    limiting: float


def errors(line: parts.Line, dim: int, epsilon: float, k: int, people: int, runs: int, seed: int) -> Errors:
    """Return a line's errors: by symmetry where it has Haar rotations, else by running the mechanism."""
    mechanism = line.build(dim, epsilon, k)
    limiting = mechanism.limiting_squared_error
    if not isinstance(mechanism, ProjUnit) or mechanism.rotation != "haar":
        measured = parts.squared_errors(mechanism, people, runs, seed)
    else:
        shared = line is parts.PROJ_UNIT_CORR
        measured = by_symmetry(mechanism, people, runs, seed, shared=shared)
        if shared:
            limiting = shared_squared_bias(dim, dim, k, dim / k)
    return Errors(measured, (mechanism.squared_error - limiting) / people + limiting, limiting)


def by_symmetry(mechanism: ProjUnit, people: int, runs: int, seed: int, *, shared: bool = False) -> parts.Floats:
    """Return what `parts.squared_errors` would in distribution for Haar rotations, independent or one for all: (runs,).

    ``shared`` is apart from the mechanism, as the library builds shared rotations of up to 4096 dimensions only.
    """
    rng = np.random.default_rng(seed)
    bits = KeyedBits(seed.to_bytes(32, "little"), bytes.fromhex(mechanism.fingerprint))
    simulate = _shared if shared else _independent
    return np.array([simulate(mechanism, people, rng, bits) for _ in range(runs)])


def _independent(mechanism: ProjUnit, people: int, rng: np.random.Generator, bits: KeyedBits) -> float:
    d, k = mechanism.dim, mechanism.sketch_dim
    across = gaussian_rows(people, d - 1, rng)
    vectors = np.column_stack([np.sqrt(d) + rng.standard_normal(people), across])  # the centre is the first axis
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    within = vectors.shape[1]
    beyond = gaussian_rows(people, d - within, rng)
    vectors = np.concatenate([vectors, np.zeros_like(beyond)], axis=1)
    rest = np.concatenate([rng.standard_normal((people, within)), beyond], axis=1)
    rest -= (rest * vectors).sum(axis=1, keepdims=True) * vectors
    rest /= np.linalg.norm(rest, axis=1, keepdims=True)
    inputs = rng.standard_normal((people, k))
    inputs /= np.linalg.norm(inputs, axis=1, keepdims=True)
    outputs = randomize_units(inputs, mechanism.cap, bits)
    share = rng.beta(k / 2, (d - k) / 2, people) if k < d else np.ones(people)
    along = np.sqrt(d / k * share) * (inputs * outputs).sum(axis=1)
    left = np.sqrt(np.maximum(0.0, d / k * (outputs**2).sum(axis=1) - along**2))
    error = (along[:, np.newaxis] - 1) * vectors + left[:, np.newaxis] * rest
    return float((error.mean(axis=0) ** 2).sum())


def _shared(mechanism: ProjUnit, people: int, rng: np.random.Generator, bits: KeyedBits) -> float:
    d, k = mechanism.dim, mechanism.sketch_dim
    rotated = parts.synthetic(people, d, rng)
    rows = np.stack([rng.choice(d, k, replace=False, shuffle=False) for _ in range(people)])
    inputs = np.take_along_axis(rotated, rows, axis=1)
    inputs /= np.linalg.norm(inputs, axis=1, keepdims=True)
    outputs = randomize_units(inputs, mechanism.cap, bits)
    total = np.bincount(rows.ravel(), np.sqrt(d / k) * outputs.ravel(), minlength=d)
    return float((((total - rotated.sum(axis=0)) / people) ** 2).sum())
