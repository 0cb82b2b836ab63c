"""The law of the noise in one cell, on a lattice: of sums of releases, with weights, and far into its tails."""

import dataclasses
import functools
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from streamsketch.core import special
from streamsketch.core.numbers import Floats
from streamsketch.errors import InvalidInputError
from streamsketch.estimation.noise_effect import noise_unit
from streamsketch.privacy.mechanism import AddedNoise
from streamsketch.privacy.noise import Noise, NoiseMoments
from streamsketch.release.noise_parts import NoisePart
from streamsketch.release.private_sketch import PrivateSketch

_TAIL = 1e-25  # left out at each end of a law
_LOG_TAIL = 58.0
_FINE = 64  # steps of a lattice in a standard deviation, at least where the noise has so many
_MOST_POINTS = 1 << 13  # of a lattice, before it becomes coarser
_MOST_PRODUCTS = 1 << 19  # of two laws, before the lattice becomes coarser
_SMOOTHER = 24.0  # steps in a normal law's standard deviation, at least then
_REACH = 10.0  # of it, in standard deviations
_MOST_STEPS = 512  # in a standard deviation, of a lattice that holds those of all terms
_COARSE = 8.0  # steps in a standard deviation, up to which noise of several grids is rounded away from 0
_FINER = 1024.0  # steps of the lattice in a standard deviation, then
_DENOMINATOR = 64  # of the ratio of two steps, to have a lattice in common
_ROUNDING = 1e-9
_ALIKE = 1e-6  # of cumulants
_MOST_FACTORS = 8  # of the rows in a range of windows, for the law of each to count; those of a tree are 1, or few
_MOST_BLOCKS = 1 << 22  # of the rows of a release's parts, to be solved for their ranges: a second or two
_DIGITS = 9
_SPARSE = 16  # points of two laws, for each that is not 0, where sums are listed
_NORMAL_SHAPE = 1e4  # of a Gamma law; beyond, its mixture of normal laws is one


class NoiseTerm(NamedTuple):
    """Independent noises of one kind in each cell.

    Parameters
    ----------
    noise
        Their distribution on the integers, or its cumulants if no more is known.
    step
        One step of the noise in data units, > 0.
    draws
        Number of independent noises.

    Examples
    --------
    >>> from streamsketch import L1, SJLT
    >>> sketch = SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7).sketch()
    >>> noise_terms(sketch.release(epsilon=1.0, neighbours=L1(1)))
    (NoiseTerm(noise=DiscreteLaplace(scale=Fraction(4, 1)), step=0.5, draws=Fraction(1, 1)),)
    """

    noise: Noise | NoiseMoments
    step: float
    draws: Fraction = Fraction(1)

    @property
    def moments(self) -> NoiseMoments:
        """The cumulants of their sum, in data units."""
        cumulants = self.noise if isinstance(self.noise, NoiseMoments) else self.noise.cumulants
        return cumulants.times(self.draws).scaled(self.step)

    def scaled(self, factor: float) -> "NoiseTerm":
        """Return ``factor`` times the noise, for ``factor`` > 0."""
        return self._replace(step=self.step * factor)


def noise_terms(release: PrivateSketch) -> tuple[NoiseTerm, ...]:
    """Return the noise that a release, or a sum of releases, states for each cell."""
    unit, terms = noise_unit(release.projection, release.noise_place), []
    left = _MOST_BLOCKS
    for part in release.as_parts():
        stated = part.guarantee.mechanism.the_noise
        left -= 0 if stated is None else stated.layout.most_blocks
        has_law = stated is not None and stated.noise.log_weights(np.zeros(1)) is not None
        step = float(part.multiplier) * unit
        if stated is not None and has_law and _alike(stated.cumulants, part.noise):
            terms.append(NoiseTerm(stated.noise, step, stated.draws * part.count))
        elif stated is not None and has_law and left >= 0 and (solved := _solved(part, stated)):
            terms += [term.scaled(unit) for term in solved]
        else:
            terms.append(NoiseTerm(part.noise, step, Fraction(part.count)))
    return tuple(terms)


def stated_terms(release: PrivateSketch) -> tuple[NoiseTerm, ...] | None:
    """Return the noises in each cell of a release, if every part states one of a known law; else None."""
    unit, terms = noise_unit(release.projection, release.noise_place), []
    for part in release.as_parts():
        stated = part.guarantee.mechanism.the_noise
        if stated is None or stated.noise.log_weights(np.zeros(1)) is None or not _alike(stated.cumulants, part.noise):
            return None
        terms.append(NoiseTerm(stated.noise, abs(float(part.multiplier)) * unit, stated.draws * part.count))
    return tuple(terms)


def _solved(part: NoisePart, stated: AddedNoise) -> list[NoiseTerm]:
    """Return the noises in a range of windows, in grid steps; none for a part of no history, or of many factors."""
    if part.history is None or not stated.layout.by_rows:
        return []
    return _of_rows(part, stated, np.abs(part.history.weights(stated.layout)))


def _of_rows(part: NoisePart, stated: AddedNoise, weights: Floats) -> list[NoiseTerm]:
    """Return the noises of rows with these factors, in grid steps; none for many factors."""
    factors, counts = np.unique(weights[weights > 0].round(_DIGITS), return_counts=True)
    if factors.size > _MOST_FACTORS:
        return []
    scale = float(part.multiplier) * stated.layout.scale
    return [
        NoiseTerm(stated.noise, scale * factor, stated.draws * part.count * int(count))
        for factor, count in zip(factors.tolist(), counts.tolist(), strict=True)
    ]


def weights_of_ranges(*ranges: PrivateSketch) -> list[Floats]:
    """Return the factors of all rows of a history in each of its ranges: (rows,) each."""
    factors = [part.history.weights(part.guarantee.mechanism.layout) for part in ranges if part.history is not None]
    rows = max(weights.size for weights in factors)
    return [np.pad(weights, (0, rows - weights.size)) for weights in factors]


def terms_between(first: PrivateSketch, second: PrivateSketch, s: float, t: float) -> tuple[NoiseTerm, ...]:
    """Return the noises in a cell of s·x - t·y, of two ranges of one history, which share rows."""
    unit, (part,) = noise_unit(first.projection, first.noise_place), first.as_parts()
    own, other = weights_of_ranges(first, second)
    weights = np.abs(s * own - t * other)
    stated = part.guarantee.mechanism.the_noise
    terms: list[NoiseTerm] = []
    if stated is not None and stated.noise.log_weights(np.zeros(1)) is not None:
        terms = _of_rows(part, stated, weights)
    if not terms and weights.any():
        shares = [float((weights**power).sum() / (own**power).sum()) for power in (2, 4)]
        moments = NoiseMoments(part.noise.k2 * shares[0], part.noise.k4 * shares[1])
        terms = [NoiseTerm(moments, float(part.multiplier), Fraction(part.count))]
    return tuple(sorted((term.scaled(unit) for term in terms), key=repr))


def _alike(a: NoiseMoments, b: NoiseMoments) -> bool:
    return bool(abs(a.k2 - b.k2) <= _ALIKE * b.k2 and abs(a.k4 - b.k4) <= _ALIKE * b.k2**2)


@dataclasses.dataclass(frozen=True, eq=False)
class Lattice:
    """A symmetric law on the multiples of ``step``.

    Parameters
    ----------
    step
        In data units.
    weights
        The probabilities of -m … m steps: float64, (2m + 1,).
    exact
        Whether it is the law itself; otherwise one close to it, of the same variance.
    lumpy
        Whether the law has values in lumps, close to one another beside the distance of lumps. Values that are not
        exact were rounded away from 0, so that no tail is too small.
    """

    step: float
    weights: Floats
    exact: bool
    lumpy: bool = False

    @property
    def points(self) -> Floats:
        """Where the weights are, in data units."""
        half = self.weights.size // 2
        return self.step * np.arange(-half, half + 1, dtype=np.float64)

    @property
    def variance(self) -> float:
        """In squared data units."""
        return float(self.weights @ self.points**2)


@functools.lru_cache(maxsize=256)  # the windows of a series have few different noises
def lattice_of(terms: tuple[NoiseTerm, ...]) -> Lattice:
    """Return the law of the sum of independent noises.

    Noise of at most 64 steps a standard deviation keeps its lattice, if all have one in common: the law is exact, but
    for less than 1e-24 in its tails. Wider noise is put on a coarser lattice with the same variance, and the same rate
    in its tails. Noise of few steps that has no lattice in common with other noise is rounded away from 0.
    """
    if not terms:
        return Lattice(1.0, np.ones(1), exact=True)
    laws = [_law(term) for term in terms]
    deviation = math.sqrt(sum(law.variance for law in laws))
    step = _common_step(laws, deviation)
    exact = all(law.exact and _whole(law.step / step) for law in laws)
    lumpy = any(_is_coarse(law) and law.step > step * (1 + _ROUNDING) for law in laws)
    if lumpy and not exact and (listed := _outward(laws, deviation / _FINER)) is not None:
        return Lattice(deviation / _FINER, listed, exact=False, lumpy=True)
    weights = functools.reduce(_convolved, [_placed(law, step) for law in laws])
    return Lattice(step, weights, exact, lumpy and exact)


def _law(term: NoiseTerm) -> Lattice:
    """Return the law of one term."""
    if isinstance(term.noise, NoiseMoments) or term.draws.denominator > 1:
        return _of_moments(term.moments)
    deviation = math.sqrt(term.noise.cumulants.k2)
    draws = int(term.draws)
    jump = max(1, int(min(deviation / (_FINE if draws == 1 else _FINE / 4), deviation * math.sqrt(draws) / _FINE)))
    reach = 1
    while _log_weights(term.noise, np.array([float(reach * jump)]))[0] > -_LOG_TAIL:
        reach *= 2
    steps = np.arange(-reach, reach + 1, dtype=np.float64) * jump
    weights: Floats = np.exp(_log_weights(term.noise, steps))
    weights = _trimmed(weights / weights.sum())
    if jump > 1:
        weights = _with_variance(weights, term.noise.cumulants.k2 / jump**2)
    total, exact, unit = np.ones(1), jump == 1, jump * term.step
    while draws:
        if draws & 1:
            total = _convolved(total, weights)
        draws >>= 1
        if draws:
            weights = _convolved(weights, weights)
        if max(total.size, weights.size) > _MOST_POINTS:
            total, weights, unit, exact = _coarser(total), _coarser(weights), 2 * unit, False
    return Lattice(unit, total, exact)


def _log_weights(noise: Noise, steps: Floats) -> Floats:
    """Return log P(n) / P(0)."""
    log = noise.log_weights(np.append(steps, 0.0))
    if log is None:
        raise InvalidInputError(f"the distribution of {noise} is not known: pass its cumulants")
    ratios: Floats = log[:-1] - log[-1]
    return ratios


def _of_moments(moments: NoiseMoments) -> Lattice:
    """Return the symmetric variance-gamma law with these cumulants; the normal one where κ4 is not above 0.

    It is that of √G·Z, Z normal and G of a Gamma law of shape a = 3κ2²/κ4: sums of Laplace noises have such laws.
    """
    deviation = math.sqrt(moments.k2)
    step, half = deviation / _FINE, _FINE
    shape = 3 * moments.k2**2 / moments.k4 if moments.k4 > 0 else math.inf
    while half < _MOST_POINTS * 4 and _log_density(np.array([half / _FINE]), shape)[0] > -_LOG_TAIL:
        half *= 2
    places = np.arange(-half, half + 1, dtype=np.float64) / _FINE
    places[half] = 0.25 / _FINE  # about the mean density of the middle step, where the law may be singular
    log = _log_density(places, shape)
    weights = np.exp(log - log.max())
    return Lattice(step, _with_variance(_trimmed(weights / weights.sum()), float(_FINE**2)), exact=False)


def _log_density(places: Floats, shape: float) -> Floats:
    """Return the log density of the variance-gamma law of variance 1 and this shape, at places other than 0."""
    if shape > _NORMAL_SHAPE:
        normal: Floats = -(places**2) / 2
        return normal
    order, size = shape - 0.5, np.abs(places) * math.sqrt(2 * shape)
    density: Floats = order * np.log(size / 2) + special.log_kv(order, size) - special.gammaln(shape)
    return density


def _common_step(laws: Sequence[Lattice], deviation: float) -> float:
    """Return the step of a lattice for all of these."""
    first = laws[0].step
    ratios = [Fraction(law.step / first).limit_denominator(_DENOMINATOR) for law in laws]
    rational = all(
        abs(float(ratio) - law.step / first) < _ROUNDING * law.step / first
        for ratio, law in zip(ratios, laws, strict=True)
    )
    if rational and all(ratio > 0 for ratio in ratios):
        common = first * float(functools.reduce(gcd_of_ratios, ratios))
        if deviation / common <= _MOST_STEPS:
            return common
    return deviation / (1.5 * _FINE)


def gcd_of_ratios(a: Fraction, b: Fraction) -> Fraction:
    """Return the largest positive fraction of which both are whole multiples."""
    return Fraction(math.gcd(a.numerator * b.denominator, b.numerator * a.denominator), a.denominator * b.denominator)


def _whole(ratio: float) -> bool:
    return round(ratio) > 0 and abs(ratio - round(ratio)) < _ROUNDING * ratio


def _is_coarse(law: Lattice) -> bool:
    return law.variance < (_COARSE * law.step) ** 2


def _outward(laws: Sequence[Lattice], step: float) -> Floats | None:
    """Return the weights of a sum of laws on a lattice, values rounded away from 0; None if it has too many."""
    points, weights = np.zeros(1), np.ones(1)
    for law in laws:
        kept = law.weights != 0
        if points.size * int(kept.sum()) > _MOST_PRODUCTS:
            return None
        points = np.add.outer(points, law.points[kept]).ravel()
        weights = np.outer(weights, law.weights[kept]).ravel()
    sizes = np.ceil(np.abs(points) / step - _ROUNDING).astype(np.int64)
    half = int(sizes.max())
    return _trimmed(np.bincount(half + np.where(points < 0, -sizes, sizes), weights, 2 * half + 1).astype(np.float64))


def _placed(law: Lattice, step: float) -> Floats:
    """Return the weights of a law on the lattice of another step."""
    ratio, half = law.step / step, law.weights.size // 2
    if _whole(ratio):
        every = round(ratio)
        wide = np.zeros(2 * half * every + 1)
        wide[::every] = law.weights
        return wide
    size = math.ceil(half * ratio) + 2
    return on_grid((law.points[None], law.weights[None]), step, (-size, size))


def on_grid(law: tuple[Floats, Floats], step: float, ends: tuple[int, int]) -> Floats:
    """Return weights at points as weights at multiples of ``step``, from the first to the last of ``ends``.

    Each is split among three points so that mean and variance stay (quadratic interpolation): such weights may be
    below 0. Points on the grid stay where they are.
    """
    points, weights = law[0].ravel() / step, law[1].ravel()
    nearest = np.clip(np.rint(points), ends[0] + 1, ends[1] - 1)
    rest = points - nearest
    rest = np.where(np.abs(rest - np.rint(rest)) < _ROUNDING * np.maximum(np.abs(points), 1.0), np.rint(rest), rest)
    places, size = (nearest - ends[0]).astype(np.int64), ends[1] - ends[0] + 1
    sums = np.zeros(size)
    for shift, share in ((-1, rest * (rest - 1) / 2), (0, 1 - rest**2), (1, rest * (rest + 1) / 2)):
        sums += np.bincount(places + shift, weights * share, size)
    return sums


def with_normal(law: Lattice, deviation: float) -> Lattice:
    """Return the law of the sum with a normal variable, of a standard deviation of 1.2 steps or more."""
    while law.weights.size * _REACH * deviation / law.step > _MOST_PRODUCTS and deviation > _SMOOTHER * law.step:
        law = Lattice(2 * law.step, _coarser(law.weights), exact=False)
    half = math.ceil(_REACH * deviation / law.step)
    weights = np.exp(-((np.arange(-half, half + 1) * law.step / deviation) ** 2) / 2)
    return Lattice(law.step, _convolved(law.weights, weights / weights.sum()), exact=False)


def _convolved(a: Floats, b: Floats) -> Floats:
    """Return the law of a sum: directly, as an FFT would lose the tails."""
    places = np.flatnonzero(a), np.flatnonzero(b)
    if places[0].size * places[1].size * _SPARSE < a.size * b.size:  # on every so many points of the lattice
        sums = np.add.outer(*places).ravel()
        chances = np.bincount(sums, np.outer(a[places[0]], b[places[1]]).ravel(), a.size + b.size - 1)
        return _trimmed(chances.astype(np.float64, copy=False))
    return _trimmed(np.convolve(a, b))


def _trimmed(weights: Floats) -> Floats:
    """Return a symmetric law without its farthest points, of probability `_TAIL` at most."""
    half = weights.size // 2
    beyond = int(np.searchsorted(np.cumsum(np.maximum(weights[:half], 0.0)), _TAIL))
    return weights[beyond : weights.size - beyond]


def _coarser(weights: Floats) -> Floats:
    """Return a law on a lattice of twice the step, of the same variance."""
    half = weights.size // 2
    size = half // 2 + 2
    coarse = on_grid((np.arange(-half, half + 1, dtype=np.float64), weights), 2.0, (-size, size))
    return _trimmed((coarse + coarse[::-1]) / 2)


def _with_variance(weights: Floats, variance: float) -> Floats:
    """Return a smooth law spread or narrowed by second differences to this variance, in squared steps."""
    places = np.arange(weights.size, dtype=np.float64) - weights.size // 2
    share = (variance - float(weights @ places**2)) / 2
    return np.convolve(weights, [share, 1 - 2 * share, share])


def terms_of(releases: Iterable[tuple[PrivateSketch, float]]) -> tuple[NoiseTerm, ...]:
    """Return the noises in a cell of a sum of releases, each times a factor; their order has no meaning."""
    terms = [term.scaled(abs(factor)) for release, factor in releases for term in noise_terms(release)]
    return tuple(sorted(terms, key=repr))
