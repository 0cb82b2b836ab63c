"""The cells of one vector, a sketch's or the difference's of two, as point queries use them."""

import functools
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from streamsketch.core.numbers import Floats
from streamsketch.estimation.blocks import AnySketch, Block, block_of, difference
from streamsketch.estimation.coarse_noise import terms_in
from streamsketch.estimation.noise_effect import InputNoise, OutputNoise
from streamsketch.estimation.noise_law import NoiseTerm, gcd_of_ratios
from streamsketch.projections.base import Projection
from streamsketch.release.private_sketch import PrivateSketch


class Cells(NamedTuple):
    """The cells of a vector under a map, with noise."""

    steps: Floats
    """(k,), each one ``unit`` times a grid step of the map's cells."""
    unit: Fraction
    projection: Projection
    effect: OutputNoise | InputNoise
    k2: float
    """The second cumulant of the noise, in data units."""
    k4: float
    """The fourth cumulant of the noise, in data units."""
    secret: bool
    """Whether a raw sketch took part."""
    noises: tuple[NoiseTerm, ...] | None = None
    """The noises in each cell, in data units; None if their law is not known."""

    @classmethod
    def of(cls, sketch: AnySketch) -> "Cells":
        """Return those of a sketch.

        Cells become floats before they get a sign, so that -2^63 does not wrap around; of cells beyond 2^53 the last
        digits are lost, 2^-53 of the cell.
        """
        block = block_of([sketch])
        steps, unit = block.cells[0].astype(np.float64), _multiplier(sketch)
        k2, k4, noises = float(block.k2[0]), float(block.k4[0]), terms_in([sketch], [1.0])
        return cls(steps, unit, sketch.projection, block.effect, k2, k4, block.secret, noises)

    @classmethod
    def of_difference(cls, a: AnySketch, b: AnySketch) -> "Cells":
        """Return those of a - b, of sketches that `check_comparable` accepts."""
        block = block_of([a, b])
        unit = _multiplier(a)
        if unit != _multiplier(b):
            return cls.combined(block, np.array([1.0, -1.0]), [a, b])
        steps, k2, k4 = difference(*block.cells), float(block.k2.sum()), float(block.k4.sum())
        return cls(steps, unit, a.projection, block.effect, k2, k4, block.secret, terms_in([a, b], [1.0, 1.0]))

    @classmethod
    def combined(cls, block: Block, weights: Floats, sketches: Sequence[AnySketch]) -> "Cells":
        """Return those of Σ ``weights``·x of a block of n sketches x, in whichever units the block has each of them."""
        projection = sketches[0].projection
        units = np.array([float(abs(_multiplier(sketch))) * projection.cell_unit for sketch in sketches])
        noises = terms_in(sketches, (weights * np.abs(block.cell_units) / units).tolist())
        k2, k4 = float(weights**2 @ block.k2), float(weights**4 @ block.k4)
        steps = weights @ block.values / projection.cell_unit
        return cls(steps, Fraction(1), projection, block.effect, k2, k4, block.secret, noises)

    @property
    def weight(self) -> Fraction:
        """What one step times its entry adds to an item's estimate: exact, so that counts stay whole numbers."""
        return self.projection.scale_squared * self.projection.grid * self.unit

    @property
    def mean_square(self) -> float:
        """About the variance of the mean of a light item's cells: Σ(cell)²/k, in squared data units."""
        return float(((self.steps * float(self.unit) * self.projection.cell_unit) ** 2).mean())

    @property
    def squared_norm(self) -> float:
        """The estimated squared norm of the vector, in squared data units; at least 0."""
        return max(self.mean_square * self.steps.size - self.effect.count * self.k2, 0.0)


def _multiplier(sketch: AnySketch) -> Fraction:
    return Fraction(sketch.multiplier) if isinstance(sketch, PrivateSketch) else Fraction(1)


def data_step(sketches: Sequence[AnySketch]) -> float:
    """Return the largest number of data units of which the cells of all sketches, without noise, are multiples."""
    parts = [part for sketch in sketches if isinstance(sketch, PrivateSketch) for part in sketch.as_parts()]
    multipliers = [Fraction(part.multiplier) for part in parts]
    multipliers += [Fraction(1) for sketch in sketches if not isinstance(sketch, PrivateSketch)]
    return float(functools.reduce(gcd_of_ratios, multipliers)) * sketches[0].projection.cell_unit
