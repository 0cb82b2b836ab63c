"""The sketches that a plan chooses between, with their costs and predicted errors.

If a difference is spread over many coordinates, the error of its squared length is nearly normal. If it consists of q
equal coordinates, two of them seldom collide in a cell, but each collision causes a large error: `ErrorLaw` is the
distribution, derived in Theory 4.1. More nonzeros make its tails lighter.
"""

import dataclasses
import functools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamsketch.accounting.sensitivity import sensitivity_of
from streamsketch.core import special
from streamsketch.core.roots import root_of
from streamsketch.data.canonical import HASHED_DIM
from streamsketch.errors import InvalidInputError
from streamsketch.estimation.estimate import Estimate
from streamsketch.estimation.noise_effect import OutputNoise
from streamsketch.planning.facts import Goal, Protection, StreamFacts
from streamsketch.planning.mapped import MappedOption
from streamsketch.privacy.calibration import Candidate, candidates
from streamsketch.privacy.l2 import L2
from streamsketch.privacy.neighbours import Neighbours
from streamsketch.privacy.noise import NOISES, Noise, Sensitivity
from streamsketch.projections.base import MAX_MASS, MAX_SKETCH_DIM, Projection
from streamsketch.projections.block_hashed import BlockHashed
from streamsketch.projections.identity import Identity
from streamsketch.projections.oporp import OPORP
from streamsketch.projections.sjlt import SJLT, CountSketch, Rademacher
from streamsketch.projections.srht import SRHT

_FEW_MEETINGS = 40.0  # expected; with more, the error is normal
_MOST_MEETINGS = 60
_STEPS = 24  # of bisection: to 1e-6 of the bracket
_LEAST_CHANCE = 1e-300  # of a miss, where its logarithm is taken
_LEAST_CELLS = 16
_MOST_SPARSITY = 256
_FINER = 16  # rounding Gaussian noise to the grid adds 3 grid steps² to its variance: on a finer grid, next to none
_TRUNCATION = 1e-3  # of a squared distance
_SOON_SQUARED = 256  # cells of a map whose norm takes a few milliseconds; of larger ones a plan looks at dozens
_WORTH = 0.99  # of the variance: a change that saves less than 1 % is not worth it


@dataclasses.dataclass(frozen=True)
class ErrorLaw:
    """The distribution of the relative error of a squared distance, (D̂ - D) / D.

    Parameters
    ----------
    map_variance, noise_variance
        The projection's and the noise's parts of its variance, relative to D².
    blocks
        Number of cells that each coordinate is added to (s); 0 for a map whose errors are taken as normal.
    meeting
        Probability that two coordinates collide in a given one of these cells.
    spread
        The least number of equal coordinates in a difference.

    Examples
    --------
    >>> spread_thin = ErrorLaw(2 / 256, 0.0, blocks=1, meeting=1 / 256, spread=1 << 20)
    >>> few_items = ErrorLaw(2 / 256, 0.0, blocks=1, meeting=1 / 256, spread=2)
    >>> round(spread_thin.half_width(0.05), 3), round(few_items.half_width(0.05), 3)
    (0.173, 0.333)
    """

    map_variance: float
    noise_variance: float
    blocks: int = 0
    meeting: float = 0.0
    spread: int = 1

    @property
    def standard_error(self) -> float:
        """The square root of the variance."""
        return math.sqrt(self.map_variance + self.noise_variance)

    def miss_chance(self, half_width: float) -> float:
        """Return the probability that the relative error exceeds ``half_width``, for the worst difference."""
        normal = self._normal_chance(half_width)
        chances, shifts = _meetings(self.blocks, self.meeting, self.spread)
        if not chances.size:
            return normal
        noise = max(math.sqrt(self.noise_variance), 1e-6 * half_width)
        few = 2 * (chances * special.ndtr((shifts - half_width) / noise)).sum(axis=1)
        return max(normal, float(few.max()))

    def _normal_chance(self, half_width: float) -> float:
        return 2 * float(special.ndtr(-half_width / self.standard_error)) if self.standard_error else 0.0

    def is_within(self, half_width: float, miss: float) -> bool:
        """Return whether ``miss_chance(half_width)`` is at most ``miss``; a normal error above it needs no more."""
        return self._normal_chance(half_width) <= miss and self.miss_chance(half_width) <= miss

    def half_width(self, miss: float) -> float:
        """Return the half-width that the relative error exceeds with probability at most ``miss``."""
        if not self.standard_error:
            return 0.0
        # the normal distribution gives a lower bound, Chebyshev's inequality an upper one
        low, high = -float(special.ndtri(miss / 2)) * self.standard_error, self.standard_error / math.sqrt(miss)
        if self.miss_chance(low * (1 + 1e-9)) <= miss:
            return low
        missed, kept = self._bracket(low * (1 + 1e-9), high, miss)
        for _ in range(_STEPS):
            middle = (low + high) / 2
            within = middle >= kept or (middle > missed and self.miss_chance(middle) <= miss)
            low, high = (low, middle) if within else (middle, high)
        return high

    def _bracket(self, low: float, high: float, miss: float) -> tuple[float, float]:
        """Return two half-widths, closer than bisection ends, between which the chance of a miss falls to ``miss``.

        Chances fall as half-widths grow, so that bisection need only compute those between the two.
        """

        def excess(half_width: float) -> float:
            return math.log(max(self.miss_chance(half_width), _LEAST_CHANCE) / miss)

        if excess(high) >= 0:
            return low, math.inf
        close = (high - low) * 2.0 ** -(_STEPS + 1)
        root = root_of(excess, low, high, xtol=close / 2, rtol=1e-12)
        below, above = max(root - close, low), min(root + close, high)
        return (below if self.miss_chance(below) > miss else low, above if self.miss_chance(above) <= miss else high)


@functools.lru_cache(maxsize=4096)
def _meetings(blocks: int, meeting: float, spread: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return, for each number q of items, the probabilities of n = …, -1, 0, 1, … signed collisions and the errors."""
    counts = np.rint(2 ** (np.arange(2, 41) / 2))
    counts = counts[counts >= spread]
    expected = blocks * meeting * counts * (counts - 1) / 2
    keep = (expected > 0) & (expected <= _FEW_MEETINGS)
    counts, expected = counts[keep, None], expected[keep, None]
    signed = np.arange(-_MOST_MEETINGS, _MOST_MEETINGS + 1)
    # the difference of two Poisson variables of half the mean: e^-λ I_n(λ)
    return special.ive(np.abs(signed), expected), 2 * signed / (counts * max(blocks, 1))


@dataclasses.dataclass(frozen=True)
class Option(MappedOption):
    """A projection with a mechanism, its cost and its predicted error.

    Parameters
    ----------
    projection
        The map, with seed 0.
    mechanism, noise
        The name of a noise, ``"laplace"`` or ``"gaussian"``, and its calibrated distribution.
    estimates
        For each squared distance, the predicted estimate: its standard error, and the projection's and the noise's
        parts of it.
    laws
        For each squared distance, the distribution of its relative error.
    miss
        The probability of exceeding ``errors``, 1 - confidence.
    by_rule
        Whether ``mechanism="auto"``, the rule δ < exp(-Δ1²/Δ2²), would choose this mechanism.
    """

    mechanism: str
    noise: Noise
    estimates: tuple[Estimate, ...]
    laws: tuple[ErrorLaw, ...]
    miss: float
    by_rule: bool

    @functools.cached_property
    def errors(self) -> tuple[float, ...]:
        """For each distance, the relative error exceeded with probability at most ``miss``, for the worst vector."""
        return tuple(law.half_width(self.miss) for law in self.laws)

    @property
    def error(self) -> float:
        """The largest of the relative errors."""
        return max(self.errors)

    def reaches(self, relative_error: float) -> bool:
        """Return whether ``error`` is at most ``relative_error``, without searching for ``error``."""
        return all(law.is_within(relative_error, self.miss) for law in self.laws)

    def beats(self, other: "Option") -> bool:
        """Return whether this is no worse in errors, cells and nonzeros, and better in at least one of them."""
        mine, theirs = ((*option.errors, option.cells, option.nonzeros) for option in (self, other))
        return all(a <= b for a, b in zip(mine, theirs, strict=True)) and mine != theirs


def options_for(streams: StreamFacts, goal: Goal, protection: Protection) -> list[Option]:
    """Return every option within the goal's limits.

    Maps with random columns (Gaussian, FJLT, very sparse, …) are left out: at the same variance their sensitivities are
    larger (Kenthapadi et al. 2013; README, "Which projection"), and take O(dim · sketch_dim) to find.

    Raises
    ------
    InvalidInputError
        If there is no option, or ε or δ is out of range.
    """
    options: list[Option] = []
    refusal: InvalidInputError | None = None
    for projection in _projections(streams, goal, protection):
        try:
            options += _with_each_mechanism(projection, streams, goal, protection)
        except InvalidInputError as error:  # noise too wide to sample; that of another map may not be
            refusal = refusal or error
    if not options:
        raise refusal or InvalidInputError(
            f"no sketch has at most {goal.max_cells} {'cell' if goal.max_cells == 1 else 'cells'}; raise max_cells to "
            f"{min(_LEAST_CELLS, streams.dim)} or more"
        )
    return options


def is_reached(streams: StreamFacts, goal: Goal, protection: Protection, relative_error: float) -> bool:
    """Return whether some option has at most this error; those after the first that has are not made."""
    for projection in _projections(streams, goal, protection):
        try:
            if any(
                option.reaches(relative_error) for option in _with_each_mechanism(projection, streams, goal, protection)
            ):
                return True
        except InvalidInputError:  # noise too wide to sample
            continue
    return False


def grid_for(streams: StreamFacts, goal: Goal, protection: Protection) -> Fraction:
    """Return the step of the values, or for real numbers the neighbours' bound divided by a power of two.

    The grid is fine enough for truncation to move no squared distance by a thousandth, but no finer than the samplers
    of all mechanisms and the cells allow.
    """
    if streams.step is not None:
        return Fraction(streams.step)
    neighbours, budget, steps = protection.neighbours, protection.budget, 1
    moved = goal.max_nonzeros * neighbours.max_keys
    kinds = [kind for kind in NOISES.values() if budget.delta > 0 or not kind.needs_delta]
    most = min([MAX_MASS / 2 / (streams.events or 1), *(kind.most_steps(moved, budget) for kind in kinds)])
    while 2 * steps <= most and streams.truncation(Fraction(neighbours.bound) / steps) > _TRUNCATION:
        steps *= 2
    return Fraction(neighbours.bound) / steps


def _projections(streams: StreamFacts, goal: Goal, protection: Protection) -> Iterator[Projection]:
    independence = min(256, max(4, math.ceil(2 * math.log(1 / goal.miss))))  # as in `SJLT.for_accuracy`
    agreed: dict[str, Any] = {"dim": streams.dim, "resolution": grid_for(streams, goal, protection)}
    if streams.dim <= min(MAX_SKETCH_DIM, goal.max_cells):
        yield Identity(**agreed)
    cells = _LEAST_CELLS
    while cells <= goal.max_cells and cells < streams.dim:
        shape = agreed | {"sketch_dim": cells, "seed": 0, "independence": independence}
        yield CountSketch(**shape)
        # otherwise OPORP is no more accurate than CountSketch, and many times slower
        if (streams.dim - cells) < _WORTH * (streams.dim - 1):
            yield OPORP(**shape)
        sparsity = 2
        while sparsity <= min(goal.max_nonzeros, cells // 2, _MOST_SPARSITY):
            yield SJLT(sparsity=sparsity, **shape)
            sparsity *= 2
        if cells <= goal.max_nonzeros:
            yield Rademacher(**shape)
            if streams.dim < HASHED_DIM:
                yield SRHT(**shape)
        cells *= 2


def _with_each_mechanism(
    projection: Projection, streams: StreamFacts, goal: Goal, protection: Protection
) -> Iterator[Option]:
    for candidate in _candidates(projection, protection):
        option = _option(projection, candidate.noise, streams, goal)
        by_rule = candidate.is_automatic
        finer = _on_finer_grid(projection, streams, goal, protection, candidate)
        if finer is not None and finer.estimates[0].variance < _WORTH * option.estimates[0].variance:
            option = finer
        yield dataclasses.replace(option, mechanism=candidate.mechanism, by_rule=by_rule)


def _candidates(projection: Projection, protection: Protection) -> list[Candidate]:
    return candidates(planned_sensitivity(projection, protection.neighbours), protection.budget)


def planned_sensitivity(projection: Projection, neighbours: Neighbours) -> Sensitivity:
    """Return how far one unit moves a sketch, or about so far where the norm of a large map is found by its seed.

    The seed is chosen after the plan, and norms of two seeds differ by as much as those found and expected.
    """
    if isinstance(neighbours, L2) and isinstance(projection, BlockHashed) and projection.sketch_dim > _SOON_SQUARED:
        bound = projection.expected_spectral_bound
        if bound is not None:
            return neighbours.moved_by_rotation(bound, projection.sketch_dim, projection.grid)
    return sensitivity_of(projection, neighbours)


def _on_finer_grid(
    projection: Projection, streams: StreamFacts, goal: Goal, protection: Protection, candidate: Candidate
) -> Option | None:
    """Return the option with the same kind of noise on a finer grid, for noise that gains by that."""
    if not candidate.noise.gains_by_finer_grid:
        return None
    finer = projection.replace(resolution=projection.grid / _FINER)
    try:
        choices = _candidates(finer, protection)
    except InvalidInputError:
        return None
    noises = [choice.noise for choice in choices if choice.mechanism == candidate.mechanism]
    return _option(finer, noises[0], streams, goal) if noises else None


def _option(projection: Projection, noise: Noise, streams: StreamFacts, goal: Goal) -> Option:
    both = noise.cumulants.scaled(projection.cell_unit).times(2)
    effect = OutputNoise(projection.sketch_dim)
    estimates = tuple(
        Estimate(
            distance,
            projection.variance.of_squared_norm(distance),
            effect.squared_norm_variance(distance, both.k2, both.k4),
            lowest=0.0,
        )
        for distance in streams.distances
    )
    laws = tuple(_law(projection, estimate, streams.spread) for estimate in estimates)
    return Option(projection, "", noise, estimates, laws, goal.miss, by_rule=False)


def _law(projection: Projection, estimate: Estimate, spread: int) -> ErrorLaw:
    blocks, meeting = projection.collisions
    square = estimate.value**2
    return ErrorLaw(estimate.projection_variance / square, estimate.noise_variance / square, blocks, meeting, spread)
