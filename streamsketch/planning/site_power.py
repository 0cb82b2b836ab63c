"""How often a comparison of two sites finds a shift of a population, by the laws of noise and of the draw of units."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from streamsketch.accounting.sensitivity import sensitivity_of
from streamsketch.agreement.infer import counting_of
from streamsketch.core.libraries import scipy_special
from streamsketch.core.roots import root_of
from streamsketch.estimation.means import LEAST_UNITS
from streamsketch.estimation.noise_effect import OutputNoise
from streamsketch.estimation.sample_law import NORMAL_KURTOSIS, SAMPLE_ERRORS, kept_share, longest_norms, samples_apart
from streamsketch.features.columns import Category
from streamsketch.features.features import Features
from streamsketch.planning.site_facts import Means, SiteShift, block_means, random_share
from streamsketch.privacy.budget import Budget
from streamsketch.privacy.calibration import candidates
from streamsketch.privacy.layout import Layout
from streamsketch.privacy.noise import Noise
from streamsketch.privacy.sketch_l2 import SketchL2

_LEVEL = 0.05
_STEPS = 11  # of bisections
_SPREAD = 4  # directions, over which a draw of units is taken to spread evenly
_SEEDS = 12
_HALF = np.linspace(-6.5, 6.5, 131)
_NORMAL = np.exp(-(_HALF**2) / 2) / np.exp(-(_HALF**2) / 2).sum()
_FACTORS = 1 / 64, 64.0  # of a shift, to look for the least that is found
_MANY_CELLS = 64  # in which Gaussian noise is better at ε ≤ 20


class SitePrediction(NamedTuple):
    """What to expect of a comparison of two sites."""

    discrepancy: float
    """The expected squared discrepancy of the two populations, from 0 to 4."""
    drawn: float
    """What the draw of units adds to it: the expected discrepancy of two samples of one population."""
    error: float
    """The standard error of `streamsketch.estimation.mmd`, over noise, seeds and the draw of units."""
    noise: float
    """Its standard deviation under noise alone."""
    power: float
    """How likely ``streamsketch.sameness(x, y, by="mean", samples=True)`` has a p-value of at most 5 %."""

    @property
    def z(self) -> float:
        """The discrepancy, divided by its standard deviation under noise alone."""
        return self.discrepancy / self.noise


@functools.lru_cache(maxsize=4096)
def noise_of(cells: int, epsilon: float, delta: float) -> tuple[Noise, Layout]:
    """Return the noise of a release of so many features, and how units are counted.

    Gaussian noise does not depend on how many they are, and Laplace noise, which does, is worse from few cells on.
    """
    if cells > _MANY_CELLS:
        return noise_of(_MANY_CELLS, epsilon, delta)
    projection, neighbours = Features({"x": Category(hashed=cells - 1)}, seed=0).projection, SketchL2(1, max_keys=1)
    layout = Layout(counting_of(projection, neighbours))  # as `agree` counts them, whatever ε will be
    options = candidates(sensitivity_of(projection, neighbours, layout), Budget(epsilon, delta))
    return min((option.noise for option in options), key=lambda noise: noise.cumulants.k2), layout


@dataclasses.dataclass(frozen=True)
class Noisy:
    """Two sites and their budget."""

    units: tuple[float, float]
    epsilon: float
    delta: float

    def variances(self, cells: int) -> tuple[float, float]:
        """Return the variance of noise in a cell of a sum, in squared lengths of a row, and in a number of units."""
        noise, layout = noise_of(cells, self.epsilon, self.delta)
        return noise.cumulants.k2 / (1 << 30), noise.cumulants.k2 / layout.unit_weight**2

    def is_normal(self, cells: int) -> bool:
        """Return whether the noise is normal, so that a test takes errors of counts out."""
        noise, _ = noise_of(cells, self.epsilon, self.delta)
        return abs(noise.cumulants.k4) <= NORMAL_KURTOSIS * noise.cumulants.k2**2


class SiteTest(NamedTuple):
    """The test of two samples, as its law is expected to be."""

    line: float
    """The squared distance of cells from which on p is at most 5 %."""
    kept: float
    """ρ, how much the direction of the averages counts in it."""
    noise: float
    """v, of the noise in a cell of the difference."""
    of_counts: float
    """What errors of counts leave along the averages."""


@dataclasses.dataclass(frozen=True)
class SitePower:
    """Predicts what is found of a shift."""

    shift: SiteShift
    deviation: float

    def predicted(self, features: Features, shift: SiteShift, noisy: Noisy) -> SitePrediction:
        """Return what to expect of a map."""
        units = np.array(noisy.units)
        means = block_means(features, shift, self.deviation)
        whole = functools.reduce(Means.plus, means.values())
        cells, apart = features.dim, whole.apart
        of_cell, of_count = noisy.variances(cells)
        relative, v = of_count / units**2, float((of_cell / units**2).sum())
        drawn = max(1 - whole.first, 0.0) / noisy.units[0] + max(1 - whole.second, 0.0) / noisy.units[1]
        spread = random_share(features, means)
        along = whole.first - whole.product, whole.second - whole.product
        # Theory 4.4, and the draw of units, as if spread evenly over a few directions
        first, second = relative.tolist()
        longer = apart + first * whole.first + second * whole.second
        variance = 4 * (v + drawn / _SPREAD) * longer + 2 * cells * v**2 + spread * apart**2
        variance += 4 * v * drawn + 2 * drawn**2 / _SPREAD + 4 * first * along[0] ** 2 + 4 * second * along[1] ** 2
        variance += 2 * ((first * whole.first) ** 2 + (second * whole.second) ** 2)
        variance += 4 * first * second * whole.product**2
        prediction = SitePrediction(apart, drawn, math.sqrt(variance), math.sqrt(2 * cells) * v, 0.0)
        if (units <= LEAST_UNITS * math.sqrt(of_count)).any():
            return prediction
        test = test_of(whole.first, cells, noisy)
        pooled = (whole.first + whole.second + 2 * whole.product) / 4
        aligned_part = (whole.first - whole.second) ** 2 / (4 * pooled) if pooled > 0 else 0.0
        seen = max(apart - (1 - test.kept) * min(aligned_part, apart), 0.0)
        return prediction._replace(power=_power(seen, spread, drawn, cells, test))

    def visible(self, features: Features, noisy: Noisy, power: float) -> SiteShift | None:
        """Return the least shift that is found."""

        def is_enough(factor: float) -> bool:
            return self.predicted(features, self.shift.scaled(factor), noisy).power >= power

        factor = least(is_enough, *_FACTORS, digits=3)
        return None if factor is None else self.shift.scaled(factor)


@functools.lru_cache(maxsize=4096)
def test_of(norm: float, cells: int, noisy: Noisy) -> SiteTest:
    """Return the test of two sites whose averages have about this squared norm."""
    units = np.array(noisy.units)
    of_cell, of_count = noisy.variances(cells)
    of_cells, relative = of_cell / units**2, of_count / units**2
    v = float(of_cells.sum())
    error = math.sqrt(norm * v + cells * float(of_cells.prod()))
    apart = samples_apart(1.0, norm - SAMPLE_ERRORS * error, units, np.full(2, math.sqrt(of_count)))
    longest = longest_norms(np.full(2, norm), OutputNoise(cells), of_cells, np.zeros(2))
    of_counts = float(relative @ longest[::-1] ** 2)
    kept = kept_share(v, apart, of_counts) if noisy.is_normal(cells) else 1.0
    drift = apart + kept * (v + of_counts) - v
    if kept < 1:
        drift += float(relative.sum()) * (cells * float(of_cells.prod()) / v + apart)

    def excess(line: float) -> float:
        return float(tail_of(line, 0.0, v + drift, 0.0, v, cells)) - _LEVEL

    line = float(root_of(excess, 0.0, 20 * cells * v + 40 * (v + drift), rtol=1e-6))
    true = float(relative.sum()) * norm
    return SiteTest(line, kept, v, max(kept * (v + true) - v, 0.0))


def tail_of(line: float, distance: object, along: float, added: float, v: float, cells: int) -> Any:
    """Return P((D + √along·Z)² + v·χ² + added ≥ line), χ² of one cell fewer; of several distances: (n,)."""
    first = (np.asarray(distance)[..., None] + math.sqrt(along) * _HALF) ** 2
    left = np.maximum(line - added - first, 0.0) / (2 * v)
    return scipy_special.gammaincc((cells - 1) / 2, left) @ _NORMAL


def _power(apart: float, spread: float, drawn: float, cells: int, test: SiteTest) -> float:
    """Return how often the test finds a squared distance, on average over seeds, where it has a Gamma law."""
    chances = (np.arange(_SEEDS) + 0.5) / _SEEDS
    factors = scipy_special.gammaincinv(1 / spread, chances) * spread if spread else np.ones(1)
    part = drawn / _SPREAD
    powers = tail_of(
        test.line, np.sqrt(apart * factors), test.noise + part, drawn - part + test.of_counts, test.noise, cells
    )
    return float(np.mean(powers))


def least(holds: Callable[[float], bool], low: float, high: float, digits: int = 2) -> float | None:
    """Return about the least number at which a condition holds that stays, rounded up; None if it never holds."""
    if not holds(high):
        return None
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    places = digits - 1 - math.floor(math.log10(high))
    return math.ceil(high * 10.0**places * (1 - 1e-9)) / 10.0**places
