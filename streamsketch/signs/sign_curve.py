"""The mean product E[s s'] of two published signs by the angle, where flips depend on how large a cell is.

With cells that are nearly jointly normal (sums of many coordinates), a published sign has the mean g(y) at cell y, an
odd gain, and E[s s'] = E[g(Y) g'(Y')] =: C(θ) for standard normals with correlation cos θ (Theory 6.6). Price's
theorem gives C by quadrature: with g a sum of steps J_a at a, dC/dφ = Σ J_a J'_b exp(-(a² + b² - 2ab sin φ) / 2cos²φ) /
2π, φ = π/2 - θ, from C = 0 at φ = 0.
"""

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from streamsketch.core.numbers import Floats

Gain: TypeAlias = Callable[[Floats], Floats]

_REACH, _STEP = 6.0, 1 / 16  # of the grid of standard normal cells on which a gain is a step function
_ANGLES = 129


class SignCurve(NamedTuple):
    """E[s s'] at angles from 0 to π."""

    angles: Floats
    mean: Floats
    """Falling from at most 1 at 0 to its negative at π."""

    @property
    def most(self) -> float:
        """E[s s'] at angle 0."""
        return float(self.mean[0])

    def at(self, angle: float) -> float:
        """Return E[s s'] at an angle from 0 to π."""
        return float(np.interp(angle, self.angles, self.mean))

    def angle(self, mean: float) -> float:
        """Return the angle at which E[s s'] is ``mean``, clipped to [0, π]."""
        return float(np.interp(mean, self.mean[::-1], self.angles[::-1]))

    def cosine(self, mean: float, reach: float) -> float:
        """Return the cosine at which E[s s'] is ``mean``; where none is, one beyond ±1, so that errors cancel there.

        Beyond ±1 the inverse goes on along the chord over the last ``reach`` of E[s s']. Its derivative at ±1 would do
        for gains as smooth as the cells' noise; of plain signs it is 0, however far errors reach.
        """
        reach = min(reach, 2 * self.most)
        beyond = abs(mean) - self.most
        if beyond <= 0:
            return math.cos(self.angle(mean))
        return math.copysign(1 + beyond * (1 - math.cos(self.angle(self.most - reach))) / reach, mean)


def sign_curve(pairs: list[tuple[Gain, Gain]]) -> SignCurve:
    """Return E[s s'] of signs with these gains of standard normal cells, averaged over ``pairs``."""
    places = np.arange(-_REACH, _REACH + _STEP / 2, _STEP)
    phi = np.linspace(0, np.pi / 2, _ANGLES)
    sine, cosine = np.sin(phi), np.maximum(np.cos(phi), 1e-9)
    squares, products = (places[:, None] - places) ** 2, np.outer(places, places)
    jumps = [tuple(_jumps(gain, places) for gain in pair) for pair in pairs]
    rates = np.empty(_ANGLES)
    for place in range(_ANGLES):
        # a² + b² - 2ab sin φ = (a - b)² + 2ab(1 - sin φ), and (1 - sin φ) / cos²φ = 1 / (1 + sin φ) even at 0 / 0
        density = np.exp(-squares / (2 * cosine[place] ** 2) - products / (1 + sine[place])) / (2 * np.pi)
        rates[place] = np.mean([first @ density @ second for first, second in jumps])
    rises = _integrals(rates, phi[1])
    return SignCurve(
        np.concatenate([np.pi / 2 - phi[::-1], np.pi / 2 + phi[1:]]), np.concatenate([rises[::-1], -rises[1:]])
    )


def _integrals(values: Floats, step: float) -> Floats:
    """Return the integrals from the first place to each, by Simpson's rule; an odd number of values, at equal steps."""
    first, middle, last = values[:-2:2], values[1:-1:2], values[2::2]
    parts = np.empty(values.size - 1)
    parts[::2] = (5 * first + 8 * middle - last) * step / 12
    parts[1::2] = (5 * last + 8 * middle - first) * step / 12
    return np.concatenate([[0.0], np.cumsum(parts)])


def _jumps(gain: Gain, places: Floats) -> Floats:
    return gain(places + _STEP / 2) - gain(places - _STEP / 2)
