"""Which sums stand out from the noise of a release, known before any data."""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from streamsketch.core import special
from streamsketch.core.numbers import Floats, short
from streamsketch.errors import InvalidInputError
from streamsketch.estimation.cosines import least_norm
from streamsketch.estimation.noise_effect import OutputNoise
from streamsketch.privacy.noise import Noise
from streamsketch.projections.base import Projection

_STEPS = 60  # of bisections
_MOST = 2.0**40  # times the floor: no length is missed with any probability that can be asked for


@dataclasses.dataclass(frozen=True)
class NoiseFloor:
    """The squared norm below which a release has no cosine, and how likely a sum is below it.

    A release is below the noise floor if its estimated squared norm N̂ is at most two standard errors of an empty
    stream's: N̂ ≤ 2√(k·K4 + 2k·K2²), as `streamsketch.cosine` and `streamsketch.pairwise` decide. Over the draw of map
    and noise, N̂ has the mean ‖x‖² and the variance V_S(x) + 4K2‖x‖² + k·K4 + 2k·K2² (Theory 4). N̂ + k·K2 is taken to
    follow the gamma law of that mean and variance. For normal noise and many items that is its law; for Laplace noise
    in 16 cells or more, the probability is off by 0.03 at most (simulated).

    Parameters
    ----------
    cells
        The number of cells, k.
    k2, k4
        Cumulants of one cell's noise, in data units² and data units⁴.
    map_variance
        V_S(x) / ‖x‖⁴ for a sum of many items.

    Examples
    --------
    >>> from streamsketch import SJLT, SketchL2
    >>> projection = SJLT(sketch_dim=256, sparsity=1, seed=7, resolution="1/16384")
    >>> release = projection.sketch().release(epsilon=1.0, delta=1e-6, neighbours=SketchL2(1, unit="customer"))
    >>> floor = NoiseFloor.of(projection, release.guarantee.mechanism.the_noise.noise)
    >>> round(floor.length()), round(floor.length(0.05))
    (29, 41)
    """

    cells: int
    k2: float
    k4: float
    map_variance: float

    even: ClassVar[float] = 0.5
    """The probability from which on a sum counts as below the floor."""
    sure: ClassVar[float] = 0.05
    """The probability at which it stands out nearly surely."""

    @classmethod
    def of(cls, projection: Projection, noise: Noise) -> Self:
        """Return the noise floor of releases with this noise on each cell."""
        cumulants = noise.cumulants.scaled(projection.cell_unit)
        return cls(projection.sketch_dim, cumulants.k2, cumulants.k4, projection.variance.of_squared_norm(1.0, 0.0))

    @property
    def squared_norm(self) -> float:
        """The smallest N̂ that stands out, in squared data units."""
        return float(least_norm(OutputNoise(self.cells), np.asarray(self.k2), np.asarray(self.k4)))

    def chance(self, squared_norms: object) -> Floats:
        """Return the probabilities that sums are below the floor.

        Parameters
        ----------
        squared_norms
            ‖x‖₂² of each sum, in squared data units: float64, of any shape.

        Returns
        -------
        ndarray
            Probabilities, float64, of the same shape.
        """
        norms: Floats = np.asarray(squared_norms, dtype=np.float64)
        if not self.k2:
            return np.where(norms > 0, 0.0, 1.0)
        shape, scale = _law(self, norms / self.k2)
        chances: Floats = special.gammainc(shape, (self.squared_norm / self.k2 + self.cells) / scale)
        return chances

    def length(self, chance: float = even) -> float:
        """Return the length of a sum that is below the floor with this probability, in data units.

        Parameters
        ----------
        chance
            The probability, in (0, 1). At one half, the length is about that of the floor. If even an empty stream is
            below the floor less often, the length is 0.

        Raises
        ------
        InvalidInputError
            If the probability is out of range.
        """
        if not (isinstance(chance, float) and 0 < chance < 1):
            raise InvalidInputError(f"a chance must lie in (0, 1), got {short(chance)}")
        return _length(self, chance)

    def visible_distance(self, power: float = 0.8, level: float = 0.05, *, drift: float = 0.0) -> float:
        """Return the smallest distance of two sums that `streamsketch.sameness` finds in releases with this noise.

        It uses the gamma distribution and is within 1 % of the exact `streamsketch.estimation.GapLaw.visible`.

        Parameters
        ----------
        power
            The probability of finding it.
        level
            The accepted probability of a false alarm.
        drift
            For averages, the variance that errors of the counts of units add to the distance, in data units².

        Returns
        -------
        float
            ‖x - y‖₂ in data units.
        """
        return _visible_distance(self, power, level, drift) if self.k2 else 0.0


def chances_below(floors: Sequence[NoiseFloor], squared_norms: Floats) -> Floats:
    """Return the probabilities that sums are below each of these floors, (floors, sums): see `NoiseFloor.chance`."""
    if not all(floor.k2 for floor in floors):
        return np.array([floor.chance(squared_norms) for floor in floors])
    every: Any = NoiseFloor(*np.array([dataclasses.astuple(floor) for floor in floors]).T[..., np.newaxis])
    shape, scale = _law(every, squared_norms / every.k2)
    line = least_norm(OutputNoise(every.cells), every.k2, every.k4)
    return special.gammainc(shape, (line / every.k2 + every.cells) / scale)


@functools.lru_cache(maxsize=1024)
def _length(floor: NoiseFloor, chance: float) -> float:
    low, high = 0.0, _MOST * floor.squared_norm
    if not floor.k2 or floor.chance(0.0) <= chance:
        return 0.0
    for _ in range(_STEPS):
        middle = math.sqrt(max(low, 1e-6 * floor.squared_norm) * high)
        low, high = (middle, high) if floor.chance(middle) > chance else (low, middle)
    return math.sqrt(high)


@functools.lru_cache(maxsize=1024)
def _visible_distance(floor: NoiseFloor, power: float, level: float, drift: float) -> float:
    extra = drift / (2 * floor.k2)  # in units of the variance of the two noises
    shape, scale = _law(floor, np.asarray(extra), draws=2)
    line = float(special.gammainccinv(shape, level) * scale)
    low, high = 0.0, _MOST * line
    for _ in range(_STEPS):
        middle = math.sqrt(max(low, line / _MOST) * high)
        shape, scale = _law(floor, np.asarray(middle + extra), draws=2)
        low, high = (low, middle) if special.gammaincc(shape, line / scale) >= power else (middle, high)
    return math.sqrt(2 * high * floor.k2)


def _law(floor: NoiseFloor, norms: Floats, draws: int = 1) -> tuple[Floats, Floats]:
    """Return shape and scale of the gamma law of N̂ + k·K2, all in units of the variance of so many noises."""
    ones = np.ones_like(norms)
    fourth = floor.k4 / floor.k2**2 / draws
    of_noise: Floats = OutputNoise(floor.cells).squared_norm_variance(norms, ones, fourth * ones)
    variance, mean = of_noise + floor.map_variance * norms**2, norms + floor.cells
    return mean**2 / variance, variance / mean
