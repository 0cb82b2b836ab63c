"""The law of the squared distance of two sketches' cells, without data: its tails, and what a test of it finds.

T = ‖X - Y‖², of the cells in data units. Their difference is S z plus noise, z = x - y. Formulas: Theory 4.7.
"""

import dataclasses
import functools
import math

import numpy as np

from streamsketch.core import special
from streamsketch.core.numbers import Floats
from streamsketch.core.roots import root_of
from streamsketch.errors import InvalidInputError
from streamsketch.estimation.few_cells import FewCells, falls
from streamsketch.estimation.noise_effect import InputNoise, effect_of
from streamsketch.estimation.noise_law import Lattice, NoiseTerm, lattice_of
from streamsketch.estimation.signal_squares import of_blocks, of_entries, of_even, of_noise_alone, of_normal, of_sparse
from streamsketch.estimation.tail_law import SMALLEST, Law, Mixture, NormalSquares, Point, Stretched
from streamsketch.estimation.whole_steps import FEW_CELLS_EXACT, longest_vectors, of_steps, vector_of_alike
from streamsketch.privacy.gaussian import DiscreteGaussian
from streamsketch.privacy.mechanism import NoisePlace
from streamsketch.privacy.noise import NoiseMoments
from streamsketch.projections.base import Projection

_FEW = 1, 2, 3, 5, 8, 12  # items
_WIDE = 1000.0  # steps in the standard deviation of noise that is taken as normal
_SMALL = 1e-3  # of a standard deviation of T: what makes so little difference is left out

_CLASSES = {True: (0.1, 128), False: (0.5, 64)}
"""Widths of classes of drifts, in standard deviations of T, and how many there are: finer ones where nothing differs
but by drift. With a width of 1, p of averages of few units was up to 1.8 times too small; with 0.5 it is 4 % off."""

_UNSEEN = 1e-12  # of the probability of drifts
_LEVELS = 0.05, 1e-4
_DOUBLINGS = 40
_VISIBLE = 1e-4  # relative
_CERTAIN = 1 - 1e-12
_ROUNDING = 1e-9
_KEPT = 24  # laws of up to 4 MB
_KEPT_WITH_DRIFT = 8  # of up to 0.2 GB
_MOST_STEPS = 64.0  # of noise with whole steps: in its standard deviation, and in a step of one of its terms
_MOST_VECTORS = 24  # longest ones within a tolerance, for the law of each
_MOST_COARSE = 128  # of them, in few cells with noise of few steps
_COARSE_STEPS = 4.0  # in a standard deviation


@dataclasses.dataclass(frozen=True, eq=False)
class GapLaw:
    """The distribution of T, the squared distance of two sketches' cells, if ‖x - y‖ is ``tolerance``.

    Noises have the distributions that releases state; they are not taken as normal. For the map, it covers cells of S z
    that are normal, as for a difference of many items, and for sparse maps also the exact cells of a difference of one
    to a dozen items of equal size. The least favourable case counts.

    Parameters
    ----------
    projection
        The map of both sketches.
    noise
        All noises in a cell of the difference, or in a coordinate before the map.
    place
        Where the noises were added.
    tolerance
        ‖x - y‖, in data units, finite and not below 0.
    drift
        Random numbers, in data units, that are added to the distance along its direction, such as errors of counts of
        units.
    data_step
        A number of data units of which the cells of x and y, without noise, are multiples; that of one release by
        default.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from streamsketch.privacy.laplace import DiscreteLaplace
    >>> from streamsketch.projections import SJLT
    >>> projection = SJLT(sketch_dim=64, sparsity=4, seed=7)
    >>> one = NoiseTerm(DiscreteLaplace(Fraction(4)), projection.cell_unit)
    >>> law = GapLaw(projection, (one, one))
    >>> round(law.line(0.05)), round(law.power(30.0), 2), round(law.visible())
    (1447, 0.91, 27)
    """

    projection: Projection
    noise: tuple[NoiseTerm, ...] = ()
    place: NoisePlace = "output"
    tolerance: float = 0.0
    drift: tuple[NoiseTerm, ...] = ()
    data_step: float | None = None

    def p_value(self, gap: float) -> float:
        """Return P(T ≥ ``gap``), the largest over differences of few items and of many.

        Its relative error is below 1e-3. Values below `SMALLEST` are returned as `SMALLEST`. Without noise and
        tolerance it is 1 at 0, else 0.
        """
        return 1.0 if gap <= 0 else max(law.tail(gap) for law in self.laws)

    def line(self, level: float = 0.05) -> float:
        """Return the smallest value of T whose p-value is at most ``level``, in squared data units.

        It is infinite if ``level`` is below `SMALLEST`, unless there is neither noise nor tolerance.
        """
        check_level(level)
        first, *others = self.laws
        if level < SMALLEST and not isinstance(first, Point):
            return math.inf
        line = first.line(level)
        for law in others:
            if not isinstance(law, FewCells) or law.tail(line) > level:
                line = max(line, law.line(level))
        return line

    def power(self, distance: float, level: float = 0.05) -> float:
        """Return the probability of a p-value of at most ``level`` if ‖x - y‖ is ``distance``, due to many items."""
        if not 0 <= distance < math.inf:
            raise InvalidInputError(f"a distance must be finite and at least 0, got {distance}")
        return self._at(distance).rough_tail(self.line(level))

    def visible(self, power: float = 0.8, level: float = 0.05) -> float:
        """Return the smallest distance ‖x - y‖, due to many items, that is found with probability ``power``.

        A distance is found if its p-value is at most ``level``. The result is 0 if any difference is found, and
        infinite if no distance is found with that probability.
        """
        check_level(power, "power")
        line = self.line(level)
        if line == math.inf:
            return math.inf
        low, high = self.tolerance, max(math.sqrt(line), 2 * self.tolerance)
        if line < np.finfo(np.float64).tiny:
            return 0.0

        def excess(distance: float) -> float:
            return float(special.ndtri(min(self._at(distance).rough_tail(line), _CERTAIN)) - special.ndtri(power))

        for _ in range(_DOUBLINGS):
            if excess(high) >= 0:
                break
            low, high = high, 2 * high
        else:
            return math.inf

        return float(root_of(excess, low, high, xtol=_VISIBLE * high, rtol=_VISIBLE))

    @property
    def of_noise(self) -> tuple[float, float]:
        """Mean and standard deviation of T if nothing differs, in squared data units."""
        effect = effect_of(self.projection, self.place)
        if isinstance(effect, InputNoise):
            return self._noisy.moments
        moments = [term.moments for term in self.noise]
        second, fourth = sum(each.k2 for each in moments), sum(each.k4 for each in moments)
        return float(effect.count * second), math.sqrt(effect.count * (fourth + 2 * second**2))

    @property
    def laws(self) -> tuple[Law, ...]:
        """`least_favourable`, the same objects for the last ones: those of a long series would fill the memory."""
        return _laws_with_drift(self) if self.drift else _laws_of(self)

    def least_favourable(self) -> tuple[Law, ...]:
        """Return the distributions of T for differences of many items and of few."""
        if self._is_normal:  # alike in all directions
            return (self._at(self.tolerance),)
        if (longest := self._longest) is not None:
            return of_steps(self._lattice, longest, self.projection.sketch_dim)
        # of drift alone, averages of few items have no longer tail than those of many (simulated to 0.1 %)
        items = self._few if self.tolerance**2 > _SMALL * self._noisy.moments[1] else ()
        if self.drift and len(items) > 1:  # those that are least favourable without drift
            alone = {number: self._of(self.tolerance, number) for number in items}
            items = tuple({max(items, key=lambda number: alone[number].line(level)) for level in _LEVELS})
        laws = tuple(self._mixed(self.tolerance, number) for number in (None, *items))
        # where noise has few steps, no difference may be less favourable than a small one
        return (*laws, self._mixed(0.0, None)) if self.tolerance else laws

    @functools.cached_property
    def _lattice(self) -> Lattice:
        return lattice_of(self.noise)

    @functools.cached_property
    def _noisy(self) -> Law:
        """The law where there is no difference, nor drift."""
        return self._of(0.0, None)

    @functools.cached_property
    def _is_normal(self) -> bool:
        """Whether T is the squared norm of a normal vector: of wide Gaussian noise, and nothing from the map."""
        exact = _is_exact(self.projection) and not isinstance(effect_of(self.projection, self.place), InputNoise)
        return exact and bool(self.noise) and all(map(_is_wide_normal, (*self.noise, *self.drift)))

    @property
    def _longest(self) -> list[tuple[int, ...]] | None:
        """Differences of cells within the tolerance that none exceeds in every cell, in steps, without zeros.

        Known where differences are whole steps of symmetric noise: with `sizes_of` entries up to theirs, the p-value is
        at least that of every difference. It is exact where the law of the noise falls on both sides: there |z + η| is
        the larger in law, the larger |z| is, in each cell alone. If there are too many, and noise is a few steps wide
        or does not fall, return others: in few cells vectors of multiples of 2, 4, … steps that exceed them all, in
        more cells some of them, of entries that are alike. None where noise is wider, or differences are no whole
        steps.
        """
        if not self.tolerance or self.drift or not self._keeps_steps:
            return None
        length, cells = self.tolerance / self._lattice.step, self.projection.sketch_dim
        deviation = math.sqrt(self._lattice.variance) / self._lattice.step
        is_rough = deviation <= _COARSE_STEPS * (1 + _ROUNDING) or not falls(self._lattice.weights)
        squares = math.floor(length**2 * (1 + _ROUNDING))
        if cells > FEW_CELLS_EXACT or not is_rough:
            vectors = longest_vectors(squares, cells, _MOST_VECTORS)
            if vectors is None and is_rough:
                numbers = sorted({*(number for number in _FEW if number < cells), cells})
                return [vector_of_alike(squares, number, cells) for number in numbers]
            return vectors
        vectors, apart = longest_vectors(squares, cells, _MOST_COARSE), 1
        while vectors is None:
            apart *= 2  # entries that are rounded up make a vector longer by less than this times √k
            squares = math.floor((length / apart + math.sqrt(cells)) ** 2 * (1 + _ROUNDING))
            vectors = longest_vectors(squares, cells, _MOST_COARSE)
        return [tuple(apart * entry for entry in vector) for vector in vectors]

    @property
    def _keeps_steps(self) -> bool:
        """Whether each cell of the difference is z + η, both whole steps, and the law of η is exact."""
        noise, step = self._lattice, self._lattice.step
        if not noise.exact or noise.weights.size == 1 or noise.variance > (_MOST_STEPS * step) ** 2 * (1 + _ROUNDING):
            return False
        if not _is_exact(self.projection) or isinstance(effect_of(self.projection, self.place), InputNoise):
            return False
        if any(term.step > _MOST_STEPS * step * (1 + _ROUNDING) for term in self.noise):
            return False
        ratio = (self.projection.cell_unit if self.data_step is None else self.data_step) / step
        return abs(ratio - round(ratio)) < _ROUNDING * ratio

    @property
    def _few(self) -> tuple[int, ...]:
        """How few items make a difference whose law is not that of many."""
        if isinstance(effect_of(self.projection, self.place), InputNoise):
            return ()
        if _is_exact(self.projection):
            return tuple(items for items in _FEW if items < self.projection.sketch_dim)
        blocks, _ = self.projection.collisions
        if blocks:
            return tuple(items for items in _FEW if 2 * items * blocks <= self.projection.sketch_dim)
        return _FEW if self.projection.variance.fourth > 0 else ()

    def _at(self, distance: float) -> Law:
        """Return the law for a difference of many items."""
        return self._mixed(distance, None)

    def _mixed(self, distance: float, items: int | None) -> Law:
        """Return the law at a distance, mixed over what drifts, for a difference of so many items; many if None."""
        if self._is_normal:
            noise, moved = (float(sum(term.moments.k2 for term in terms)) for terms in (self.noise, self.drift))
            return NormalSquares(noise, self.projection.sketch_dim, distance, moved)
        if not self.drift:
            return self._of(distance, items)
        drift = lattice_of(self.drift)
        deviation = math.sqrt(drift.variance)
        typical = self._of(math.hypot(distance, deviation), items)
        _, spread = typical.moments
        if deviation * (deviation + 2 * distance) <= _SMALL * spread:
            return typical
        chances, distances = _drifted(drift, distance, spread, *_CLASSES[distance == 0 and items is None])
        return Mixture(chances, tuple(self._of(float(length), items) for length in distances))

    def _of(self, distance: float, items: int | None) -> Law:
        """Return the law at a distance."""
        effect, noise = effect_of(self.projection, self.place), self._lattice
        if isinstance(effect, InputNoise):
            spread = effect.variance.of_squared_norm(1.0)
            length = of_even(noise, effect.count, distance)
            return Stretched(length, 2 / spread) if spread else length
        count, projection = effect.count, self.projection
        if distance == 0:
            return of_noise_alone(noise, count)
        if _is_exact(projection):
            return of_even(noise, count, distance) if items is None else of_entries(noise, count, items, distance)
        if items is None:
            return of_normal(noise, count, distance, count * projection.variance.of_squared_norm(1.0, 0.0))
        blocks, _ = projection.collisions
        if blocks:
            return of_blocks(noise, count, items, blocks, distance)
        kurtosis = 3 + count * projection.variance.fourth
        return of_sparse(noise, count, items, distance * math.sqrt(kurtosis / (count * items)), 1 / kurtosis)


@functools.lru_cache(maxsize=_KEPT)
def gap_law(
    projection: Projection,
    noise: tuple[NoiseTerm, ...] = (),
    place: NoisePlace = "output",
    tolerance: float = 0.0,
    drift: tuple[NoiseTerm, ...] = (),
    data_step: float | None = None,
) -> GapLaw:
    """Return a `GapLaw`, the same object for equal arguments: the windows of a series have few different laws."""
    return GapLaw(projection, noise, place, tolerance, drift, data_step)


@functools.lru_cache(maxsize=_KEPT)
def _laws_of(law: GapLaw) -> tuple[Law, ...]:
    return law.least_favourable()


@functools.lru_cache(maxsize=_KEPT_WITH_DRIFT)
def _laws_with_drift(law: GapLaw) -> tuple[Law, ...]:
    return law.least_favourable()


def check_level(level: float, name: str = "level") -> None:
    """Raise `InvalidInputError` unless a probability is between 0 and 1."""
    if not 0 < level < 1:
        raise InvalidInputError(f"{name} must lie in (0, 1), got {level}")


def _is_wide_normal(term: NoiseTerm) -> bool:
    """Return whether noise is normal, but for steps of a thousandth of its standard deviation and less."""
    if isinstance(term.noise, NoiseMoments):
        return term.noise.k4 == 0
    return isinstance(term.noise, DiscreteGaussian) and term.noise.cumulants.k2 >= _WIDE**2


def _is_exact(projection: Projection) -> bool:
    """Return whether the map keeps every norm."""
    return projection.variance.of_squared_norm(1.0, 0.0) == 0


def _drifted(drift: Lattice, distance: float, spread: float, width: float, most: int) -> tuple[Floats, Floats]:
    """Return chances and values of |distance + drift|, two for each of a few classes.

    In a class squares differ by about ``width`` times ``spread``, a standard deviation of T; two values keep their
    mean and variance. There are about ``most`` classes.
    """
    half = drift.weights.size // 2
    sizes, weights = drift.points[half:], drift.weights[half:]
    ends = [0.0]
    while ends[-1] < sizes[-1]:
        few = len(ends) > most / 2
        least = max((sizes[-1] - ends[-1]) / (most + 1 - len(ends)), 0.0) if few else 0.0
        ends.append(max(math.sqrt((distance + ends[-1]) ** 2 + width * spread) - distance, ends[-1] + least))
    classes = np.searchsorted(np.array(ends[1:-1]), sizes)
    chances, values = [], []
    for sign in (-1, 1) if distance else (1,):
        shares = weights * np.where(sizes == 0, 0.5, 1.0) * (1 if distance else 2)
        squares = (distance + sign * sizes) ** 2
        total = np.bincount(classes, shares)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.bincount(classes, shares * squares) / total
            variance = np.bincount(classes, shares * (squares - mean[classes]) ** 2) / total
        within = np.sqrt(np.maximum(variance, 0.0))
        for side in (-1, 1):
            chances.append(total / 2)
            values.append(np.sqrt(np.maximum(mean + side * within, 0.0)))
    chance, value = np.concatenate(chances), np.concatenate(values)
    seen = chance > _UNSEEN
    return chance[seen] / chance[seen].sum(), value[seen]
