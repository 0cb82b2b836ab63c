"""Quantiles of a symmetric beta distribution, with the same work for every argument.

A solver needs more iterations for some arguments than for others. PrivUnit's argument depends on how far the report
lies along the private vector, so the number of iterations would reveal something about the vector.
"""

import numpy as np
from scipy.special import betaincinv

from streamsketch.local.normal import Floats

_DEGREE = 21  # ln I⁻¹ has its nearest singularity at 0: Chebyshev series on [1/2, 1) converge like 5.8^-degree
_NODES = np.cos(np.pi * (np.arange(_DEGREE + 1) + 0.5) / (_DEGREE + 1))


class InverseBeta:
    """The quantiles of Beta(h, h), by a Chebyshev series of their logarithm for each power of two, to about 1e-13.

    Parameters
    ----------
    half
        h, at least 1/2.
    least
        The smallest argument needed, above 2^-1000.
    """

    def __init__(self, half: float, least: float) -> None:
        self._octaves = 1 - int(np.frexp(least)[1])  # the first is [1/4, 1/2]
        mantissas = 0.375 + 0.125 * _NODES
        values = [np.log(betaincinv(half, half, mantissas * 0.5**octave)) for octave in range(self._octaves)]
        self._series = np.polynomial.chebyshev.chebfit(_NODES, np.array(values).T, _DEGREE)

    def __call__(self, probabilities: Floats) -> Floats:
        """Return the quantiles of probabilities from ``least`` to 1/2."""
        mantissas, exponents = np.frexp(probabilities)
        mantissas = np.where(exponents == 0, 1.0, mantissas)  # 1/2 is the end of the first octave
        octaves = np.clip(-1 - exponents, 0, self._octaves - 1)
        return np.asarray(np.exp(_clenshaw(4.0 * mantissas - 3.0, self._series[:, octaves])))


def _clenshaw(places: Floats, series: Floats) -> Floats:
    last, previous = np.zeros_like(places), np.zeros_like(places)
    for row in series[:0:-1]:
        last, previous = row + 2 * places * last - previous, last
    return np.asarray(series[0] + places * last - previous)
