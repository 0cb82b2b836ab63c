"""The private constructions that Stausholm 2021 compares, and the variance of a squared distance from each.

Noise is continuous, as in the paper. Variances are those of Theory 4 and 5, with ‖z‖₄⁴ at its bound, as the paper
has them. Dims are powers of two, where noise on an FJLT's input and after its Hadamard step are the same (Note 7).
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import streamsketch as ss
from benchmarks import sigmas
from streamsketch.estimation.noise_effect import effect_of
from streamsketch.privacy.gaussian import gaussian_sigma

SJLT_LAPLACE, SJLT_GAUSSIAN = "SJLT, Laplace", "SJLT, Gaussian"
FJLT_OUTPUT, FJLT_INPUT = "FJLT, noise on the output", "FJLT, noise on the input"
KKMM, NO_MAP = "KKMM", "raw histogram"

_SEEDS = range(3)

Sigma = Callable[[float, float], float]
"""The σ of Gaussian noise, from ε and δ."""


@dataclass(frozen=True)
class Calibration:
    """How Gaussian noise is calibrated.

    Parameters
    ----------
    name
        For tables.
    sigma
        σ at ℓ2 sensitivity 1.
    any_matrix
        If given, KKMM's σ, whatever the matrix; otherwise it is ``sigma`` times the sensitivity of the matrix.
    """

    name: str
    sigma: Sigma
    any_matrix: Sigma | None = None


PAPER = Calibration("σ = Δ2√(2 ln(1.25/δ))/ε for all (Note 1)", sigmas.classical)
OWN = Calibration("KKMM with Theorem 2's σ", sigmas.classical, sigmas.kkmm_any_matrix)
LEAST = Calibration("least σ for all", functools.cache(gaussian_sigma))


@dataclass(frozen=True)
class Setting:
    """The parameters of a comparison: d, k, s, ε, δ and ‖z‖²."""

    dim: int
    cells: int
    sparsity: int
    epsilon: float
    delta: float
    squared_distance: float = 0.0


def variance(name: str, at: Setting, calibration: Calibration) -> float:
    """Return the variance of a squared distance between two releases."""
    return _map(name, at.dim, at.cells, at.sparsity).variance.of_squared_norm(at.squared_distance) + noise_variance(
        name, at, calibration
    )


def noise_variance(name: str, at: Setting, calibration: Calibration) -> float:
    """Return the noise's part of `variance`."""
    if name == NO_MAP:
        return min(_noise_variance(name, at, laplace(1 / at.epsilon)), _gaussian_variance(name, at, calibration))
    if name == SJLT_LAPLACE:
        return _noise_variance(name, at, laplace(math.sqrt(at.sparsity) / at.epsilon))
    return _gaussian_variance(name, at, calibration)


def laplace(scale: float) -> tuple[float, float]:
    """Return K2 and K4 of Laplace noise."""
    return 2 * scale**2, 12 * scale**4


@functools.cache
def sensitivity(name: str, dim: int, cells: int) -> float:
    """Return the ℓ2 sensitivity for neighbours that differ by 1: the median of three matrices where it is random."""
    if name not in (FJLT_OUTPUT, KKMM):
        return 1.0
    matrices = [_map(name, dim, cells, 1, seed) for seed in _SEEDS]
    values = [math.sqrt(matrix.l2_sensitivity_squared) * matrix.cell_unit / float(matrix.grid) for matrix in matrices]
    return float(np.median(values))


def _gaussian_variance(name: str, at: Setting, calibration: Calibration) -> float:
    if name == KKMM and calibration.any_matrix is not None:
        sigma = calibration.any_matrix(at.epsilon, at.delta)
    else:
        sigma = calibration.sigma(at.epsilon, at.delta) * sensitivity(name, at.dim, at.cells)
    return _noise_variance(name, at, (sigma**2, 0.0))


def _noise_variance(name: str, at: Setting, cumulants: tuple[float, float]) -> float:
    effect = effect_of(_map(name, at.dim, at.cells, at.sparsity), "input" if name == FJLT_INPUT else "output")
    return effect.squared_norm_variance(at.squared_distance, 2 * cumulants[0], 2 * cumulants[1])


@functools.cache
def _map(name: str, dim: int, cells: int, sparsity: int, seed: int = 0) -> ss.projections.Projection:
    if name == NO_MAP:
        return ss.projections.Identity(dim=dim)
    if name in (FJLT_INPUT, FJLT_OUTPUT):
        return ss.projections.FJLT(dim=dim, sketch_dim=cells, seed=seed)
    if name == KKMM:
        return ss.projections.GaussianProjection(dim=dim, sketch_dim=cells, seed=seed)
    return ss.SJLT(dim=dim, sketch_dim=cells, sparsity=sparsity, seed=seed)
