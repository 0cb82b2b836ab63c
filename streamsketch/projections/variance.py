"""Variance of squared norms and inner products under a random map."""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Real = TypeVar("Real", float, NDArray[np.float64])

_ROUNDED = 1e-9  # the kurtosis of a Gaussian on a grid differs from 3 in the last digits


@dataclass(frozen=True)
class MapVariance:
    """The variance model of a map: three coefficients (Theory 4, V_S and W_S).

    Over the draw of S, Var⟨Sx, Sy⟩ = ``norms`` ‖x‖²‖y‖² + ``inner`` ⟨x,y⟩² + ``fourth`` Σx²y². With y = x it is
    Var‖Sx‖². The sum Σx²y² lies between 0 and ‖x‖²‖y‖².

    Examples
    --------
    >>> MapVariance(norms=0.25, inner=0.25, fourth=-0.5).of_squared_norm(10.0)
    50.0
    >>> MapVariance(norms=0.25, inner=0.25, fourth=-0.5).of_squared_norm(10.0, fourth_power_sum=100.0)
    0.0
    """

    norms: float
    inner: float
    fourth: float

    def of_squared_norm(self, squared_norm: Real, fourth_power_sum: Real | None = None) -> Real:
        """Return Var‖Sz‖² from ‖z‖₂² and ‖z‖₄⁴; without ‖z‖₄⁴, an upper bound."""
        if fourth_power_sum is None:
            return (self.norms + self.inner + max(self.fourth, 0.0)) * squared_norm**2
        return (self.norms + self.inner) * squared_norm**2 + self.fourth * fourth_power_sum

    def of_inner_product(
        self, squared_norm_x: Real, squared_norm_y: Real, inner_product: Real, product_square_sum: Real | None = None
    ) -> Real:
        """Return Var⟨Sx, Sy⟩ from the norms, ⟨x, y⟩ and Σx²y²; without Σx²y², an upper bound."""
        if product_square_sum is None:
            norms = self.norms + max(self.fourth, 0.0)
            return norms * squared_norm_x * squared_norm_y + self.inner * inner_product**2
        return (
            self.norms * squared_norm_x * squared_norm_y
            + self.inner * inner_product**2
            + self.fourth * product_square_sum
        )


def independent_entries(sketch_dim: int, kurtosis: float) -> MapVariance:
    """Return the variance of a map with independent entries of kurtosis E w⁴ / (E w²)² (Theory 4)."""
    excess = kurtosis - 3 if abs(kurtosis - 3) > _ROUNDED else 0.0
    return MapVariance(1 / sketch_dim, 1 / sketch_dim, excess / sketch_dim)
