"""What noise does to estimates, by the place where it was added: how much it adds, and how much it makes them vary.

All in data units: K2 and K4 are a noise's cumulants there. Formulas: Theory 4 and 5.
"""

from dataclasses import dataclass
from typing import TypeAlias

from streamsketch.privacy.mechanism import NoisePlace
from streamsketch.projections.base import Projection
from streamsketch.projections.variance import MapVariance, Real
from streamsketch.release.private_sketch import noisy_coordinates

Pair: TypeAlias = tuple[Real, Real]


@dataclass(frozen=True)
class OutputNoise:
    """Noise on each of ``count`` cells of a sketch, after the map."""

    count: int

    def squared_norm_variance(self, squared_norm: Real, k2: Real, k4: Real) -> Real:
        """Return the noise's part of Var N̂: 4K2‖z‖² + k·K4 + 2k·K2²."""
        return 4 * k2 * squared_norm + self.count * k4 + 2 * self.count * k2**2

    def squared_norm_slope(self, k2: Real) -> Real:
        """Return by how much `squared_norm_variance` grows with the squared norm: 4K2."""
        return 4 * k2

    def inner_product_variance(self, squared_norm_x: Real, squared_norm_y: Real, k2_x: Real, k2_y: Real) -> Real:
        """Return the noises' part of Var Ĝ: K2y‖x‖² + K2x‖y‖² + k·K2x·K2y."""
        return k2_y * squared_norm_x + k2_x * squared_norm_y + self.count * k2_x * k2_y

    def fourth_power_sum(
        self, sum_of_fourths: Real, squared_norm: Real, k2: Real, k4: Real, variance: MapVariance
    ) -> Real:
        """Estimate ‖z‖₄⁴ from Σ(Sz + η)ᵢ⁴, for a map of independent entries, not of kurtosis 3.

        As E Σ(Sz)ᵢ⁴ = (3‖z‖₂⁴ + (κ-3)‖z‖₄⁴)/k; noise adds 6K2‖z‖² + k(K4 + 3K2²).
        """
        clean = sum_of_fourths - 6 * k2 * squared_norm - self.count * (k4 + 3 * k2**2)
        return (clean - 3 * variance.norms * squared_norm**2) / variance.fourth

    def product_square_sum(
        self, sum_of_squares: Real, norms: Pair[Real], inner: Real, k2: Pair[Real], variance: MapVariance
    ) -> Real:
        """Estimate Σx²y² from Σ(Sx + η)ᵢ²(Sy + θ)ᵢ², as `fourth_power_sum`."""
        clean = sum_of_squares - self.inner_product_variance(*norms, *k2)
        return (clean - variance.norms * (norms[0] * norms[1] + 2 * inner**2)) / variance.fourth


@dataclass(frozen=True)
class InputNoise:
    """Noise ν on each of ``count`` coordinates, before the map or the part of it that has ``variance``.

    What varies is ‖z + ν‖² itself, and the map's error on the longer vector z + ν.
    """

    count: int
    variance: MapVariance

    def squared_norm_variance(self, squared_norm: Real, k2: Real, k4: Real) -> Real:
        """Return E V(z + ν) - V(z) + Var‖z + ν‖²."""
        longer, fourth = self._longer(squared_norm, k2, k4), self._fourth(squared_norm, k2, k4)
        spread = self._spread(squared_norm, k2, k4)
        return (self.variance.norms + self.variance.inner) * longer + self.variance.fourth * fourth + spread

    def squared_norm_slope(self, k2: Real) -> Real:
        """Return by how much `squared_norm_variance` grows with the squared norm."""
        return (4 + (self.variance.norms + self.variance.inner) * (2 * self.count + 4) + 6 * self.variance.fourth) * k2

    def inner_product_variance(self, squared_norm_x: Real, squared_norm_y: Real, k2_x: Real, k2_y: Real) -> Real:
        """Return E W(x + ν, y + μ) - W(x, y) + Var⟨x + ν, y + μ⟩."""
        n = self.count
        longer = n * k2_y * squared_norm_x + n * k2_x * squared_norm_y + n**2 * k2_x * k2_y
        spread = self._product_spread((squared_norm_x, squared_norm_y), (k2_x, k2_y))
        return self.variance.norms * longer + (self.variance.inner + self.variance.fourth + 1) * spread

    def fourth_power_sum(
        self, sum_of_fourths: Real, squared_norm: Real, k2: Real, k4: Real, variance: MapVariance
    ) -> Real:
        """Estimate ‖z‖₄⁴ from Σ(S(z + ν))ᵢ⁴: that of the longer vector, less what the noise adds to it."""
        products = squared_norm**2 + self._longer(squared_norm, k2, k4)
        return (sum_of_fourths - 3 * variance.norms * products) / variance.fourth - self._fourth(squared_norm, k2, k4)

    def product_square_sum(
        self, sum_of_squares: Real, norms: Pair[Real], inner: Real, k2: Pair[Real], variance: MapVariance
    ) -> Real:
        """Estimate Σx²y² from Σ(S(x + ν))ᵢ²(S(y + μ))ᵢ², as `fourth_power_sum`."""
        spread = self._product_spread(norms, k2)
        products = (norms[0] + self.count * k2[0]) * (norms[1] + self.count * k2[1]) + 2 * (inner**2 + spread)
        return (sum_of_squares - variance.norms * products) / variance.fourth - spread

    def _spread(self, squared_norm: Real, k2: Real, k4: Real) -> Real:
        """Return Var‖z + ν‖²."""
        return 4 * k2 * squared_norm + self.count * (k4 + 2 * k2**2)

    def _longer(self, squared_norm: Real, k2: Real, k4: Real) -> Real:
        """Return E‖z + ν‖₂⁴ - ‖z‖₂⁴."""
        n = self.count
        return 2 * n * k2 * squared_norm + (n * k2) ** 2 + self._spread(squared_norm, k2, k4)

    def _fourth(self, squared_norm: Real, k2: Real, k4: Real) -> Real:
        """Return E‖z + ν‖₄⁴ - ‖z‖₄⁴."""
        return 6 * k2 * squared_norm + self.count * (k4 + 3 * k2**2)

    def _product_spread(self, norms: Pair[Real], k2: Pair[Real]) -> Real:
        """Return Var⟨x + ν, y + μ⟩, which is also E Σ(x + ν)²(y + μ)² - Σx²y²."""
        return k2[1] * norms[0] + k2[0] * norms[1] + self.count * k2[0] * k2[1]


def effect_of(projection: Projection, place: NoisePlace) -> OutputNoise | InputNoise:
    """Return the effect of noise at ``place``; raise `InvalidInputError` if the projection has no such place."""
    count = noisy_coordinates(projection, place)
    if place == "output":
        return OutputNoise(count)
    inner_map = projection.after_hadamard
    return InputNoise(count, projection.variance if place == "input" or inner_map is None else inner_map[1])


def noise_unit(projection: Projection, place: NoisePlace) -> float:
    """Return one step of the noise in data units: of a cell, of a coordinate, or of one after the Hadamard step."""
    if place == "output":
        return projection.cell_unit
    step = float(projection.grid)
    return step if place == "input" else step / float(noisy_coordinates(projection, place)) ** 0.5
