"""The angle between a vector of one's own, whose exact cells are known, and one of which only signs were published.

A published sign s of a cell Y has E[s] = g(Y), and Y is nearly normal given one's own cell U: with both of variance 1
and an angle θ, Y = U cos θ + Z sin θ. So E[s | U] = h(U; θ) = E[g(U cos θ + Z sin θ)], and θ is estimated by maximum
likelihood over the k cells (Theory 6.6).
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Literal, NamedTuple, Self

import numpy as np

from streamsketch.agreement.same import check_same
from streamsketch.core import special
from streamsketch.core.numbers import Floats
from streamsketch.errors import InvalidInputError
from streamsketch.estimation.estimate import Estimate, SecretEstimate
from streamsketch.estimation.intervals import Interval, miss_of, quantile
from streamsketch.projections.variance import MapVariance
from streamsketch.signs.flip_check import warn_of_flips
from streamsketch.signs.sign_curve import Gain
from streamsketch.signs.sign_gains import Cells, cells_of, check_norm, constant_gain, flipped_by, gain_of, row_groups
from streamsketch.signs.sketch import Signs
from streamsketch.sketching.sketch import Sketch

_LARGEST_ERROR = math.pi / 2  # of a cosine at a right angle, as of signs on both sides
_TWO_ERRORS = 1.96
_POINTS = 65  # angles at which the likelihood is computed at a time
_PASSES = 8
_FALL = 40.0  # below the largest log-likelihood, where eight standard errors end
STEP = 1e-3  # of angles and relative lengths, for slopes
_LEAST = 1e-15  # probability of a sign: rounding may make it 0
_REACH, _CURVED = 6.0, 4.0
_NODES = _REACH * np.sinh(np.linspace(0, _CURVED, 129)) / math.sinh(_CURVED)  # of |U|, closer where signs turn
_FINE = _REACH * np.sinh(np.linspace(-_CURVED, _CURVED, 2049)) / math.sinh(_CURVED)  # where gains may jump
_NO_JUMP = 1e-9
_MOST_JUMPS = 128  # more are added up, each few at their centre

Means = Callable[[Floats], Floats]
"""E[s | U] of the k cells at m angles: (m,) → (m, k)."""


class Likelihood(NamedTuple):
    """The log-likelihood of a quantity, as far as eight standard errors about its largest value."""

    points: Floats
    """Of the quantity, rising."""
    logarithms: Floats
    """0 at most."""
    best: float
    """Where it is largest."""

    def interval(self, z: float) -> Interval:
        """Return the points whose likelihood is at least that of z standard errors of a normal variable.

        Beyond the points, the root of the logarithm is taken to go on as to the last of them.
        """
        kept = np.flatnonzero(self.logarithms >= -z * z / 2)
        ends = []
        for place, step in ((kept[0], -1), (kept[-1], 1)) if kept.size else ():
            beyond = place + step
            if not 0 <= beyond < self.points.size:
                fall = math.sqrt(-2 * float(self.logarithms[place]))
                farther = max(z / fall, 1.0) if fall else 1.0
                ends.append(self.best + farther * (float(self.points[place]) - self.best))
                continue
            falls = self.logarithms[place] - self.logarithms[beyond]
            share = min((self.logarithms[place] + z * z / 2) / falls, 1.0) if falls > 0 else 0.0
            ends.append(float(self.points[place] + share * (self.points[beyond] - self.points[place])))
        low, high = ends or [self.best] * 2
        return Interval(min(low, self.best), max(high, self.best))

    def of(self, change: Callable[[Floats], Floats]) -> "Likelihood":
        """Return the likelihood of a monotone function of the quantity."""
        points, best = change(self.points), float(change(np.array([self.best]))[0])
        order = slice(None, None, -1) if points[0] > points[-1] else slice(None)
        return Likelihood(points[order], self.logarithms[order], best)


@dataclasses.dataclass(frozen=True, repr=False)
class _LikelyEstimate(SecretEstimate):
    """An estimate by maximum likelihood, whose intervals are by its likelihood."""

    likelihood: Likelihood | None = dataclasses.field(default=None, compare=False)

    def interval(self, confidence: float = 0.95, method: Literal["normal", "chebyshev"] = "normal") -> Interval:
        """Return the values that are likely enough; by Chebyshev, as any estimate. See `Estimate.interval`."""
        if method == "normal" and self.likelihood is not None:
            return self._likely(self.likelihood, miss_of(confidence))
        return super().interval(confidence, method)

    def selected_interval(self, candidates: int, confidence: float = 0.95) -> Interval:
        """Return the interval at Bonferroni's quantile; see `Estimate.selected_interval`."""
        if self.likelihood is None:
            return super().selected_interval(candidates, confidence)
        return self._likely(self.likelihood, miss_of(confidence, candidates))

    def _likely(self, likelihood: Likelihood, miss: float) -> Interval:
        low, high = likelihood.interval(quantile(miss, "normal"))
        return Interval(max(low, self.lowest), min(high, self.highest))

    def scaled(self, factor: float) -> Self:
        """Return the estimate of ``factor`` times the quantity; see `Estimate.scaled`."""
        scaled = None if self.likelihood is None else self.likelihood.of(lambda points: points * factor)
        return dataclasses.replace(super().scaled(factor), likelihood=scaled)

    def as_secret(self) -> SecretEstimate:
        """Return the estimate: it is secret."""
        return self


def own_angle(own: Sketch, release: Signs, norm_own: float | None, norm_release: float | None) -> Estimate:
    """Estimate the angle between an own vector and one of published signs, in radians; see `streamsketch.signs.angle`.

    Parameters
    ----------
    own, release
        An own sketch, and published signs of the same projection.
    norm_own
        The own vector's exact norm in data units; by default that of its sketch.
    norm_release
        As ``norm_y`` of `streamsketch.signs.angle`.
    """
    likelihood, of_map = _likely(own, release, norm_own, norm_release)
    return _estimate(likelihood, of_map, 0.0, math.pi)


def own_cosine(own: Sketch, release: Signs, norm_own: float | None, norm_release: float | None) -> Estimate:
    """Estimate the cosine of `own_angle`."""
    likelihood, of_map = _likely(own, release, norm_own, norm_release)
    error = _right_angle_error(release, norm_release)
    if error > _LARGEST_ERROR:
        raise InvalidInputError(
            f"the standard error at a right angle is {error:.3g}, too large to estimate the cosine; release with a "
            "larger epsilon or another mechanism"
        )
    return _estimate(likelihood.of(np.cos), of_map * math.sin(likelihood.best) ** 2, -1.0, 1.0)


def _estimate(likelihood: Likelihood, of_map: float, lowest: float, highest: float) -> Estimate:
    """Return an estimate with the variance of a normal one that has as wide a 95 % interval, on sides within range."""
    low, high = likelihood.interval(_TWO_ERRORS)
    sides = [likelihood.best - low] * (low > lowest) + [high - likelihood.best] * (high < highest) or [highest - lowest]
    variance = sum(side**2 for side in sides) / len(sides) / _TWO_ERRORS**2
    of_map = min(of_map, variance)
    return _LikelyEstimate(
        likelihood.best, of_map, variance - of_map, lowest=lowest, highest=highest, likelihood=likelihood
    )


def _likely(
    own: Sketch, release: Signs, norm_own: float | None, norm_release: float | None
) -> tuple[Likelihood, float]:
    """Return the likelihood of the angle, and about the variance that it would have without flips."""
    check_same(own, release)
    warn_of_flips([release])
    cells = own.state().astype(np.float64) * own.projection.cell_unit
    squared_length = float(cells @ cells)
    if squared_length == 0:
        raise InvalidInputError("the raw sketch is empty, so it has no angle; update it first")
    length = math.sqrt(squared_length) if norm_own is None else check_norm(norm_own)
    k = own.projection.sketch_dim
    places = cells * math.sqrt(k) / length
    signs = release.signs.astype(np.float64)
    means = mean_cells(places, release, norm_release)
    likelihood = _search(lambda angles: np.log(np.maximum((1 + signs * means(angles)) / 2, _LEAST)).sum(axis=1))
    plain = _variance(_plain_means(places), likelihood.best)
    if norm_own is None:
        error = _length_error(own.projection.variance)
        longer = mean_cells(places * (1 + STEP), release, norm_release)
        of_length = error * drift(means, longer, likelihood.best) ** 2
        wider = math.sqrt(1 + of_length / _variance(means, likelihood.best))
        points = likelihood.best + wider * (likelihood.points - likelihood.best)
        likelihood = likelihood._replace(points=np.clip(points, 0.0, math.pi))
        plain += of_length
    return likelihood, plain


def _length_error(variance: MapVariance) -> float:
    """Return the squared relative error of a vector's length in its sketch, for a vector of many entries."""
    return (variance.norms + variance.inner) / 4


def _search(log_likelihood: Means) -> Likelihood:
    """Return the likelihood about its largest value in [0, π], ever closer until angles are close enough."""
    low, high = 0.0, math.pi
    for _ in range(_PASSES):
        angles = np.linspace(low, high, _POINTS)
        values = log_likelihood(angles)
        kept = np.flatnonzero(values >= values.max() - _FALL)
        first, last = max(kept[0] - 1, 0), min(kept[-1] + 1, _POINTS - 1)
        if last - first > _POINTS // 2:
            break
        low, high = angles[first], angles[last]
    place = int(values.argmax())
    best, most = float(angles[place]), float(values[place])
    if 0 < place < _POINTS - 1:
        before, after = values[place - 1] - most, values[place + 1] - most
        bend = before + after
        if bend < 0:  # the top of the parabola through three points
            offset = (before - after) / (2 * bend)
            best += float(offset * (angles[1] - angles[0]))
            most -= float((before - after) ** 2 / (8 * bend))
    return Likelihood(angles, values - most, best)


def _variance(means: Means, angle: float) -> float:
    """Return the inverse of Fisher's information about the angle, Σ h'²/(1 - h²)."""
    slopes, shares = _slopes(means, angle)
    information = float(shares @ slopes**2)
    return 1 / information if information > 0 else math.inf


def drift(means: Means, longer: Means, angle: float) -> float:
    """Return how far the estimate moves by the relative error of the own vector's length; sin(2θ)/2 for plain flips."""
    slopes, shares = _slopes(means, angle)
    inside = np.array([_inside(angle)])
    changes = (longer(inside) - means(inside))[0] / STEP
    information = float(shares @ slopes**2)
    return -float(shares @ (slopes * changes)) / information if information > 0 else 0.0


def _slopes(means: Means, angle: float) -> tuple[Floats, Floats]:
    """Return h' at an angle, and 1/(1 - h²)."""
    inside = _inside(angle)
    before, here, after = means(np.array([inside - STEP, inside, inside + STEP]))
    return (after - before) / (2 * STEP), 1 / np.maximum(1 - here**2, _LEAST)


def _inside(angle: float) -> float:
    return min(max(angle, 2 * STEP), math.pi - 2 * STEP)


def _plain_means(places: Floats, kept: float = 1.0) -> Means:
    """Return h for signs that are kept with probability (1 + ``kept``)/2, however large their cells."""

    def means(angles: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            slopes = np.cos(angles) / np.maximum(np.sin(angles), 1e-300)
        with np.errstate(over="ignore", invalid="ignore"):
            values: Floats = kept * (2 * special.ndtr(slopes[:, None] * places) - 1)
        return values

    return means


def mean_cells(places: Floats, release: Signs, norm: float | None) -> Means:
    """Return h for a release, ``norm`` that of its vector, which is looked at only where flips depend on the cells."""
    flipped = flipped_by(release)
    kept = constant_gain(flipped)
    if kept > 0:
        return _plain_means(places, kept)
    cells = cells_of(release.projection, flipped, release.guarantee, check_norm(norm))
    groups = row_groups(release.projection, release.guarantee)

    def means(angles: Floats) -> Floats:
        values = np.empty((angles.size, places.size))
        for group, rows in enumerate(groups):
            curves = _curves(cells, group, angles)
            for place, curve in enumerate(curves):
                values[place, rows] = np.sign(places[rows]) * np.interp(np.abs(places[rows]), _NODES, curve)
        return values

    return means


def _curves(cells: Cells, group: int, angles: Floats) -> Floats:
    """Return h at the nodes of |U| for angles: a gain that jumps by J at a adds J(Φ((U cos θ - a) / sin θ) - ½)."""
    at, jumps = _jumps(cells, group)
    sine, cosine = np.maximum(np.sin(angles), 1e-12), np.cos(angles)
    curves = np.empty((angles.size, _NODES.size))
    for place in range(angles.size):
        shares = special.ndtr((_NODES[:, None] * cosine[place] - at) / sine[place])
        curves[place] = shares @ jumps - jumps.sum() / 2
    return curves


@functools.lru_cache(maxsize=256)
def _jumps(cells: Cells, group: int) -> tuple[Floats, Floats]:
    """Return where a gain's steps are, of standard normal cells, and how high they are."""
    return _steps_of(gain_of(cells, group))


def _steps_of(gain: Gain) -> tuple[Floats, Floats]:
    between = (_FINE[1:] + _FINE[:-1]) / 2
    jumps = np.diff(gain(np.concatenate([[-_REACH - 1], between, [_REACH + 1]])))
    kept = np.abs(jumps) > _NO_JUMP
    at, jumps = _FINE[kept], jumps[kept]
    if at.size <= _MOST_JUMPS:
        return at, jumps
    starts = np.arange(0, at.size, -(-at.size // _MOST_JUMPS))
    heights = np.add.reduceat(jumps, starts)
    return np.add.reduceat(at * jumps, starts) / heights, heights


def _right_angle_error(release: Signs, norm: float | None) -> float:
    """Return the standard error of a cosine at a right angle: 1/(E[g'(Z)]·√k), the same for any own vector."""
    k = release.projection.sketch_dim
    kept = constant_gain(flipped_by(release))
    if kept > 0:
        slope = kept * math.sqrt(2 / math.pi)
    else:
        cells = cells_of(release.projection, flipped_by(release), release.guarantee, check_norm(norm))
        slopes = []
        for group in range(len(cells.steps)):
            at, jumps = _jumps(cells, group)
            slopes.append(float(jumps @ np.exp(-(at**2) / 2)) / math.sqrt(2 * math.pi))
        slope = math.sqrt(float(np.mean(np.square(slopes))))
    return 1 / (slope * math.sqrt(k)) if slope > 0 else math.inf
