"""How far apart averages of two samples of one population are, and how errors of counts move them (Theory 4.7)."""

import math

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.numbers import Floats
from streamsketch.estimation.noise_effect import InputNoise, OutputNoise

SAMPLE_ERRORS = 3.0
"""Standard errors, within which numbers of units and products are taken to be for samples."""

NORMAL_KURTOSIS = 1e-3
"""Excess kurtosis of noise, up to which it counts as normal, so that errors of counts can be taken out of a test."""

_FAR = 6.0  # standard errors, within which a length is taken to be: it is not in one of 10⁹ cases
_PLACES = 7, 72  # of pairs of numbers of units: how far off, and in which directions
_DIRECTIONS = 10  # over which samples are taken to spread evenly, to weight errors of counts: any number is valid


def samples_apart(bound: float, product: float, numbers: Floats, errors: Floats) -> float:
    """Return a bound on the expected squared distance of averages of two samples of one population.

    (C² - ⟨X, Y⟩/(n_x n_y))(1/n_x + 1/n_y) at the numbers of units for which it is largest, within their errors.

    Parameters
    ----------
    bound
        C, the length of a unit.
    product
        ⟨X, Y⟩/(n_x n_y) with the numbers as estimated, or less.
    numbers, errors
        Estimated numbers of units and their standard errors: (2,).
    """
    sizes, turns = np.linspace(0, SAMPLE_ERRORS, _PLACES[0])[:, None], np.linspace(0, 2 * math.pi, _PLACES[1])
    off = np.stack([sizes * np.cos(turns), sizes * np.sin(turns)])
    held = np.maximum(numbers[:, None, None] + errors[:, None, None] * off, 1.0)
    alike = np.minimum(max(product, 0.0) * (numbers[:, None, None] / held).prod(axis=0), bound**2)
    return float(((bound**2 - alike) * (1 / held).sum(axis=0)).max())


def kept_share(noise: float, apart: float, of_counts: float) -> float:
    """Return ρ, how much the direction of the averages counts in a test of samples: from 0 to 1.

    Parameters
    ----------
    noise
        The variance of the noise in a cell of the difference.
    apart
        The expected squared distance of the samples.
    of_counts
        The variance that errors of numbers of units add along the averages.
    """
    least = noise + apart / _DIRECTIONS
    return least / (least + of_counts) if of_counts else 1.0


def longest_norms(
    squared_norms: Floats, effect: OutputNoise | InputNoise, k2: Floats, k4: Floats
) -> NDArray[np.float64]:
    """Return about the largest norms of n vectors that their estimated squared norms allow: (n,).

    Parameters
    ----------
    squared_norms, k2, k4
        (n,): of vectors under a map, and of the noise in their cells.
    effect
        What noise does to them.
    """
    norms = np.maximum(squared_norms, 0.0)
    slope = effect.squared_norm_slope(k2) * _FAR**2 / 2
    # N - t ≥ -6 √(V + slope·t) at its end, a quadratic in t
    constant = effect.squared_norm_variance(0.0 * norms, k2, k4)
    return np.sqrt(norms + slope + np.sqrt(slope**2 + 2 * slope * norms + _FAR**2 * constant))
