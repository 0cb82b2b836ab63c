"""What noise does to estimates, by the place where it was added: how much it adds, and how much it makes them vary.

All in data units: K2 and K4 are a noise's cumulants there. Formulas: THEORY.md 4 and 5.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from streamsketch.errors import InvalidInputError
from streamsketch.projections.base import Projection
from streamsketch.projections.variance import MapVariance, Real

NoisePlace: TypeAlias = Literal["output", "input", "hadamard"]
"""Noise on the cells of A x̃; on the coordinates of x̃; or between the Hadamard and the sparse matrix of an FJLT."""


@dataclass(frozen=True)
class OutputNoise:
    """Noise on each of ``count`` cells of a sketch, after the map."""

    count: int

    def squared_norm_variance(self, squared_norm: Real, k2: Real, k4: Real) -> Real:
        """Return the noise's part of Var N̂: 4K2‖z‖² + k·K4 + 2k·K2²."""
        return 4 * k2 * squared_norm + self.count * k4 + 2 * self.count * k2**2

    def inner_product_variance(self, squared_norm_x: float, squared_norm_y: float, k2_x: float, k2_y: float) -> float:
        """Return the noises' part of Var Ĝ: K2y‖x‖² + K2x‖y‖² + k·K2x·K2y."""
        return k2_y * squared_norm_x + k2_x * squared_norm_y + self.count * k2_x * k2_y


@dataclass(frozen=True)
class InputNoise:
    """Noise ν on each of ``count`` coordinates, before the map or the part of it that has variance ``law``.

    What varies is ‖z + ν‖² itself, and the map's error on the longer vector z + ν.
    """

    count: int
    law: MapVariance

    def squared_norm_variance(self, squared_norm: Real, k2: Real, k4: Real) -> Real:
        """Return E V(z + ν) - V(z) + Var‖z + ν‖²."""
        n = self.count
        spread = 4 * k2 * squared_norm + n * (k4 + 2 * k2**2)
        longer = 2 * n * k2 * squared_norm + (n * k2) ** 2 + spread  # E‖z + ν‖₂⁴ - ‖z‖₂⁴
        fourth = 6 * k2 * squared_norm + n * (k4 + 3 * k2**2)  # E‖z + ν‖₄⁴ - ‖z‖₄⁴
        return (self.law.norms + self.law.inner) * longer + self.law.fourth * fourth + spread

    def inner_product_variance(self, squared_norm_x: float, squared_norm_y: float, k2_x: float, k2_y: float) -> float:
        """Return E W(x + ν, y + μ) - W(x, y) + Var⟨x + ν, y + μ⟩."""
        n = self.count
        spread = k2_y * squared_norm_x + k2_x * squared_norm_y + n * k2_x * k2_y
        longer = n * k2_y * squared_norm_x + n * k2_x * squared_norm_y + n**2 * k2_x * k2_y
        return self.law.norms * longer + (self.law.inner + self.law.fourth + 1) * spread


def effect_of(projection: Projection, place: NoisePlace) -> OutputNoise | InputNoise:
    """Return the effect of noise at ``place``.

    Raises
    ------
    InvalidInputError
        If the projection has no such place.
    """
    if place == "output":
        return OutputNoise(projection.sketch_dim)
    if place == "input":
        return InputNoise(projection.dim, projection.variance)
    inner_map = projection.after_hadamard
    if place != "hadamard" or inner_map is None:
        raise InvalidInputError(
            f"noise can be added at the 'output' or the 'input' of a map, or after the 'hadamard' step of an FJLT; got "
            f"{place!r:.40} for {type(projection).__name__}"
        )
    return InputNoise(*inner_map)


def unit_of(projection: Projection, place: NoisePlace) -> float:
    """Return one step of the noise in data units: of a cell, of a coordinate, or of one after the Hadamard step."""
    if place == "output":
        return projection.unit
    effect = effect_of(projection, place)
    step = float(projection.grid)
    return step if place == "input" else step / float(effect.count) ** 0.5
