"""A test of whether two streams, their averages or their profiles are the same, or within a tolerance (Theory 4.7)."""

import dataclasses
import functools
import math
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from streamsketch.agreement.agreed_features import LONGEST_ROW
from streamsketch.core.documents import Json
from streamsketch.core.numbers import short
from streamsketch.errors import InvalidInputError
from streamsketch.estimation.blocks import AnySketch, Block, block_of, check_comparable
from streamsketch.estimation.cells import Cells, data_step
from streamsketch.estimation.cosines import cosines, profiles_from
from streamsketch.estimation.estimate import SECRECY, Estimate, format_value, value_text
from streamsketch.estimation.estimators import squared_distance, squared_norm
from streamsketch.estimation.gap_law import GapLaw, gap_law
from streamsketch.estimation.means import Averages, averages_of, check_defined, mean_distance, mean_product
from streamsketch.estimation.measures import MEASURES, pairwise
from streamsketch.estimation.noise_effect import OutputNoise, noise_unit
from streamsketch.estimation.noise_law import NoiseTerm, noise_terms, terms_between, terms_of, weights_of_ranges
from streamsketch.estimation.proportional import LEAST, NoiseOf, Proportional, nearest_multiple, proportional
from streamsketch.estimation.sample_law import NORMAL_KURTOSIS, SAMPLE_ERRORS, kept_share, longest_norms, samples_apart
from streamsketch.privacy.mechanism import NoisePlace
from streamsketch.privacy.noise import NoiseMoments
from streamsketch.release.private_sketch import PrivateSketch

SameBy: TypeAlias = Literal["distance", "mean", "profile", "cosine"]
"""Whether sums are compared, averages over units, or what streams consist of, whatever their size."""

OF_SHAPE: tuple[SameBy, ...] = "profile", "cosine"
"""What compares streams whatever their size: proportional streams are the same."""

_LEAST_OF_MEANS = 1e-9
_SHOWN_LEVEL = 0.05
_BEYOND = 1e-9  # of a line that is no alarm
_MOST_LINED = 0.999  # a p-value at which a law's line is quick


@dataclasses.dataclass(frozen=True, eq=False)
class SameTest:
    """The result of `streamsketch.sameness`: whether two streams, averages or profiles are the same.

    Parameters
    ----------
    p_value
        The probability of a squared distance at least as large as this one, if the streams are exactly ``tolerance``
        apart.
    distance
        The estimated squared distance, in squared data units; by profile or cosine, the estimate of these, which is NaN
        if a stream is below the noise floor.
    tolerance
        The distance (not squared) up to which streams count as the same, in data units.
    by
        ``"distance"`` if sums were compared, ``"mean"`` if averages were, ``"profile"`` or ``"cosine"`` if sizes do not
        count.
    samples
        Whether units are samples of populations, which are compared.
    law
        The distribution of the squared distance of the cells; by profile or cosine, of one stream's cells from a
        multiple of the other's, where the p-value is the largest.
    gap
        The observed squared distance of the cells, with noise, in squared data units; by profile or cosine, the least
        one over all multiples.
    squared_norm
        By profile or cosine, the estimated squared norm of the stream that is not multiplied; else NaN.

    Examples
    --------
    >>> from streamsketch import L1, CountSketch, sameness
    >>> projection = CountSketch(sketch_dim=256, seed=7)
    >>> north, south = projection.sketch(), projection.sketch()
    >>> north.update(["tea"] * 900 + ["milk"] * 100)
    >>> south.update(["tea"] * 100 + ["milk"] * 900)
    >>> sale = L1(1, unit="sale")
    >>> test = sameness(north.release(epsilon=1.0, neighbours=sale), south.release(epsilon=1.0, neighbours=sale))
    >>> print(f"p = {test.p_value:.3f}, power {test.power(distance=1000.0):.3f}")
    p = 0.000, power 1.000
    """

    p_value: float
    distance: Estimate
    tolerance: float
    by: SameBy
    samples: bool
    law: GapLaw = dataclasses.field(repr=False)
    gap: float = dataclasses.field(repr=False)
    squared_norm: float = dataclasses.field(default=math.nan, repr=False)

    @property
    def secret(self) -> bool:
        """Whether the result is as secret as a raw sketch that was compared."""
        return self.distance.secret

    def power(self, distance: float, level: float = 0.05) -> float:
        """Return the probability of a p-value of at most ``level`` if the streams are ``distance`` apart.

        Parameters
        ----------
        distance
            The distance (not squared), in data units, due to many items; between profiles, so of streams scaled to
            length 1, from 0 to √2, if they are compared by profile or cosine.
        level
            The probability of a false alarm, in (0, 1).
        """
        if self.by not in OF_SHAPE:
            return float(self.law.power(distance, level))
        sine = distance * math.sqrt(max(1 - distance**2 / 4, 0.0))  # of the angle between profiles
        return float(self.law.power(sine * math.sqrt(max(self.squared_norm, 0.0)), level))

    def visible(self, power: float = 0.8, level: float = 0.05) -> float:
        """Return the smallest distance that gives a p-value of at most ``level`` with probability ``power``.

        It is not squared, in data units. It depends on projection and noises, and for averages also on their lengths,
        but not on how far apart the streams are. By profile and cosine it is a distance between profiles, from 0 to √2,
        and depends on the streams' lengths. It is infinite if no distance is found.
        """
        distance = self.law.visible(power, level)
        if self.by not in OF_SHAPE:
            return distance
        if distance**2 >= self.squared_norm:
            return math.inf
        return math.sqrt(2 - 2 * math.sqrt(1 - distance**2 / self.squared_norm))

    def line(self, level: float = 0.05) -> float:
        """Return the smallest estimate with a p-value of at most ``level``; the largest cosine.

        It is infinite if ``level`` is below the least p-value of the test: -∞ for a cosine.
        """
        if level < self._least_p and self.p_value:
            return -math.inf if self.by == "cosine" else math.inf
        line = self.law.line(level)
        if self.by not in OF_SHAPE:
            return line - (self.gap - self.distance.value)
        return self._shape_line(line, level)

    @property
    def _least_p(self) -> float:
        if self.by in OF_SHAPE:
            return LEAST
        return _LEAST_OF_MEANS if self.law.drift else 0.0

    def _shape_line(self, line: float, level: float) -> float:
        """Return the estimate at which the least distance of multiples would be as far beyond the line as it is now.

        The p-value is that of a distance that is shorter by the bounds of the search: p ≤ level if, and only if, the
        estimate is beyond the line.
        """
        lengths = math.sqrt(line), math.sqrt(self.gap)
        slack = 0.0
        if self.p_value > LEAST:
            slack = max(lengths[1] - math.sqrt(self.law.line(min(self.p_value, _MOST_LINED))), 0.0)
        more = (lengths[0] + slack) ** 2 - self.gap
        more = max(more, _BEYOND * self.gap) if self.p_value > level else min(more, 0.0)
        value = self.distance.value
        cosine = value if self.by == "cosine" else 1 - value / 2
        if cosine > 0:  # the product of both streams stays
            left = self.squared_norm + more
            cosine = cosine * math.sqrt(self.squared_norm / left) if left > 0 < self.squared_norm else 1.0
        elif not math.isnan(cosine):
            cosine = 0.0 if self.p_value <= level else -1.0
        return cosine if self.by == "cosine" else 2 - 2 * cosine

    def to_dict(self) -> Json:
        """Return the result as a dict that JSON can hold."""
        fields = {
            "p_value": self.p_value,
            **self.distance.to_dict(MEASURES[self.by].column if self.by in OF_SHAPE else "squared_distance"),
            "tolerance": self.tolerance,
            "by": self.by,
            "samples": self.samples,
        }
        fields = {
            name: None if isinstance(value, float) and math.isnan(value) else value for name, value in fields.items()
        }
        return fields | ({"secret": True} if self.secret else {})

    def __str__(self) -> str:
        return self._sentence

    @functools.cached_property
    def _sentence(self) -> str:
        of_shape = self.by in OF_SHAPE
        what = "populations" if self.samples else "averages" if self.by == "mean" else "streams"
        apart = f"are more than {self.tolerance:g} apart" if self.tolerance else "differ"
        if of_shape:
            what, apart = ("streams", f"{apart}, whatever their size") if self.tolerance else ("profiles", apart)
        numbers = f"p = {self.p_value:.2g}"
        if not math.isnan(self.distance.value):
            title = MEASURES[self.by if of_shape else "distance"].title
            numbers += f", {title} {value_text(self.distance)}"
        secret = f" ({SECRECY})" if self.secret else ""
        if self.p_value <= _SHOWN_LEVEL:
            return f"The {what} {apart}: {numbers}{secret}."
        seen = self.visible(level=_SHOWN_LEVEL)
        least = f"a distance of {format_value(seen, seen / 20)}" if math.isfinite(seen) else "no distance"
        return f"It is not shown that the {what} {apart}: {numbers}; {least} is found in 80 % of cases{secret}."


def sameness(
    a: AnySketch, b: AnySketch, tolerance: float = 0.0, *, by: SameBy = "distance", samples: bool = False
) -> SameTest:
    """Test whether two streams are the same, or at most ``tolerance`` apart, given the noise and the map's error.

    The hypothesis is ‖x - y‖ ≤ ``tolerance``, or ‖x/n_x - y/n_y‖ ≤ ``tolerance`` with ``by="mean"``, or x = c·y for
    some c ≥ 0 with ``by="profile"`` and ``"cosine"``. The p-value is the probability of a squared distance between
    cells at least as large as the observed one, if the streams are exactly ``tolerance`` apart. So alarms at p ≤ 0.05
    are false in at most 5 % of cases. The test costs no privacy beyond that of the releases. A large p does not show
    that the streams are the same: `SameTest.visible` gives the distance that the test would detect.

    The p-value does not assume normal noise, and is valid for few cells and for small probabilities:

    - ``tolerance=0``: only noise differs, and the releases state its distribution. For sums, the p-value is exact up to
      a relative error of 1e-3, for any map, and also for noise on several grids.
    - ``tolerance`` > 0: the map spreads a difference of this size over cells. A difference of many items gives nearly
      normal cells; a difference of few items in a sparse map gives collisions. The p-value is the largest over many
      items and one to a dozen items of equal size, each with its own distribution. In simulations of all maps, false
      alarms at 5, 1 and 0.1 % occurred in at most 5.8, 1.3 and 0.25 % of cases, within their errors. For other
      differences the test is conservative: at 5 %, it gave down to no false alarm for one item, and 0 to 2 % for many
      items in sparse maps with hardly any noise. On histograms (`Identity`) of one to
      three cells with noise of a few steps, no difference within the tolerance gives more false alarms than stated.
      That holds for noise in several steps too, such as that of multiples of releases, up to 64 times the least. On
      more cells it holds where at most 24 longest vectors of whole steps are within the tolerance. With more of them,
      other differences had up to 1.44 times as many false alarms as stated under Laplace noise, and 1.02 times under
      Gaussian noise (4 to 64 cells, epsilon 1 to 6, alarms at 5, 1 and 0.1 %).
    - ``by="mean"``: the counts of units have errors, which lengthen or shorten each average. The p-value is a mean over
      these errors. It assumes that the averages are six standard errors longer than estimated and lie along the
      difference; it is never below 1e-9. It is valid for small counts of units too; a sketch whose count is too small
      for an average counts as a test without an alarm.
    - ``by="profile"`` and ``"cosine"``: half a month of the same mix differs from a whole one by its size alone, which
      is not tested here. The hypothesis is that the shorter stream is within the tolerance of a multiple of the longer
      one, ‖x - c·y‖ ≤ ``tolerance`` or ‖y - c·x‖ ≤ ``tolerance`` for some c from 0 to 1. The p-value is a bound on the
      largest over all c, with the distribution of the noise that is left. Without a tolerance the bound assumes nothing
      but the distributions of both noises, and it needs no count of units. In simulations with 256 cells, alarms at
      5 % were false in 1 to 5 % of cases, with two cells in 0 to 5 %. p-values above 0.2 may be much too large;
      none is below 1e-9. Both measures have the same test; their estimates differ.
    - ``samples=True``: the units are samples of two populations, and the hypothesis is about the averages of these
      populations. Two samples of one population differ by (C² - ‖μ‖²)(1/n_x + 1/n_y) in squared distance, where C is
      the bound of `SketchL2` and μ the average; the distance is smaller if shorter units are not lengthened
      (``clip="scale"``). Its spread depends on the directions in which units differ, which a release does not show. The
      p-value assumes a single direction, which has the longest tail (Székely and Bakirov 2003). So p-values below 0.2
      are valid for every population of independent units; larger ones may be too small. The test is less sensitive: if
      units differ in many directions, its 5 % line is at up to 3.84 times that distance. Under normal noise the
      direction of the averages counts less, because errors of the counts of units move averages along it. So
      differences of a few hundred units are found in other directions.

    Parameters
    ----------
    a, b
        Two sketches of one projection, with independent noise: each a `PrivateSketch`, or your own `Sketch`, which
        makes the result as secret as it is. For ``by="mean"`` their units must have been counted.
    tolerance
        The distance (not squared) up to which streams count as the same, in data units; for averages, in data units per
        unit; by profile and cosine, from the nearest multiple of the longer stream.
    by
        ``"distance"`` for sums, ``"mean"`` for averages, ``"profile"`` or ``"cosine"`` for what streams consist of,
        whatever their size.
    samples
        Whether units are samples of populations. Only for ``by="mean"`` and units that were clipped to `SketchL2`.

    Returns
    -------
    SameTest
        The p-value, the estimated squared distance and the power of the test.

    Raises
    ------
    InvalidInputError
        For a negative or infinite tolerance, an unknown ``by``, noise at different places, profiles and cosines of
        releases with noise before the map, averages of sketches whose units were not counted or are too few, and
        samples of units that were not clipped to `SketchL2` or not counted.
    TypeError, IncompatibleProjectionsError, IncompatibleAgreementsError, DependentNoiseError
        As in `squared_distance`.

    Examples
    --------
    >>> from streamsketch import L1, SJLT
    >>> projection = SJLT(sketch_dim=256, sparsity=4, seed=7)
    >>> x, y = projection.sketch(), projection.sketch()
    >>> x.update(["tea", "jam"], [3000, 400])
    >>> y.update(["tea", "jam"], [3000, 900])
    >>> sale = L1(1, unit="sale")
    >>> test = sameness(x.release(epsilon=1, neighbours=sale), y.release(epsilon=1, neighbours=sale))
    >>> print(f"{test.p_value:.0e}, {test.visible():.0f}")
    1e-15, 36
    >>> half = projection.sketch()
    >>> half.update(["tea", "jam"], [1500, 200])
    >>> months = x.release(epsilon=2, neighbours=sale), half.release(epsilon=2, neighbours=sale)
    >>> sameness(*months).p_value < 1e-6, sameness(*months, by="profile").p_value < 1e-6
    (True, False)
    """
    check_comparable([a, b])
    check_tolerance(tolerance)
    check_same_by(by, samples=samples)
    if by in OF_SHAPE:
        return _of_shape(a, b, by, float(tolerance))
    drift: tuple[NoiseTerm, ...] = ()
    if by == "distance":
        cells, distance = Cells.of_difference(a, b), squared_distance(a, b)
        noise, gap = terms_of([(release, 1.0) for release in _releases(a, b)]), cells.mean_square * cells.steps.size
    else:
        noise, gap, drift = _averages(a, b, float(tolerance), samples=samples)
        distance = mean_distance(a, b)
    law = gap_law(a.projection, noise, _place(a, b), float(tolerance), drift, data_step([a, b]))
    p_value = law.p_value(gap)
    return SameTest(max(p_value, _LEAST_OF_MEANS if drift else 0.0), distance, float(tolerance), by, samples, law, gap)


def same_as_zero(difference: PrivateSketch, tolerance: float = 0.0) -> SameTest:
    """Test whether a stream is nothing, or at most ``tolerance`` long: a difference of two that share noise.

    As in `sameness`; parameters and errors as there.

    Parameters
    ----------
    difference
        The release of a stream minus another, which states the noise that is left.
    tolerance
        The length, not squared, in data units.
    """
    check_comparable([difference])
    check_tolerance(tolerance)
    cells = Cells.of(difference)
    gap = cells.mean_square * cells.steps.size
    noise, step = terms_of([(difference, 1.0)]), data_step([difference])
    law = gap_law(difference.projection, noise, _place(difference), float(tolerance), (), step)
    norm = squared_norm(difference)
    return SameTest(law.p_value(gap), norm, float(tolerance), "distance", samples=False, law=law, gap=gap)


def check_tolerance(tolerance: float) -> None:
    """Raise `InvalidInputError` unless a tolerance is a finite number, not below 0."""
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float | np.number):
        raise InvalidInputError(f"a tolerance must be a distance in data units, not squared, got {short(tolerance)}")
    if not 0 <= tolerance < math.inf:
        raise InvalidInputError(f"a tolerance must be finite and at least 0, got {tolerance}")


def check_same_by(by: str, *, samples: bool) -> None:
    """Raise `InvalidInputError` unless streams can be tested by this."""
    if by not in get_args(SameBy):
        *others, last = map(repr, get_args(SameBy))
        raise InvalidInputError(f"by must be {', '.join(others)} or {last}, got {short(by)}")
    if samples and by != "mean":
        raise InvalidInputError("populations are compared by their averages: samples=True needs by='mean'")


def _of_shape(a: AnySketch, b: AnySketch, by: SameBy, tolerance: float) -> SameTest:
    """Test whether two streams are proportional, or one is within a tolerance of a multiple of the other."""
    first, second = block_of([a, b]).values
    outcome = proportional(a.projection, _place(a, b), (first, second), _noise_of(a, b), tolerance)
    return _test_of_shape(outcome, pairwise([a, b], by=by)[0, 1], tolerance, by)


def same_shape_of_ranges(a: PrivateSketch, b: PrivateSketch, by: SameBy, tolerance: float = 0.0) -> SameTest:
    """Test whether two ranges of one history are proportional, with the noise that they share; as `sameness`."""
    block = block_of([a, b])
    first, second = block.values
    outcome = proportional(a.projection, _place(a), (first, second), _noise_of(a, b), tolerance)
    own, other = weights_of_ranges(a, b)
    covariance = float(block.k2[0] * (own @ other) / (own @ own))
    product = np.array([[float(first @ second) - block.effect.count * covariance]])
    norms, k2, k4 = ((part[:1, None], part[1:]) for part in (block.squared_norms, block.k2, block.k4))
    cosine = cosines(product, norms, k2, k4, block.effect, block.variance, covariance=covariance)
    estimate = (profiles_from(cosine) if by == "profile" else cosine)[0, 0]
    return _test_of_shape(outcome, estimate, tolerance, by)


def _noise_of(a: AnySketch, b: AnySketch) -> NoiseOf:
    """Return the noise of s·x - t·y; ranges of one history share theirs."""
    if isinstance(a, PrivateSketch) and isinstance(b, PrivateSketch) and set(a.release_ids) & set(b.release_ids):
        return functools.partial(terms_between, a, b)

    def noise_of(s: float, t: float) -> tuple[NoiseTerm, ...]:
        factors = ((a, s), (b, t))
        return terms_of(
            [(sketch, factor) for sketch, factor in factors if factor and isinstance(sketch, PrivateSketch)]
        )

    return noise_of


def distance_of_multiples(a: AnySketch, b: AnySketch) -> Estimate:
    """Estimate the squared distance of the longer stream's nearest multiple from the other, by a factor of 0 to 1.

    The streams have independent noise, or are ranges of one history.
    """
    block = block_of([a, b])
    first, second = block.values
    s, t = nearest_multiple((first, second))
    moments = [term.moments for term in _noise_of(a, b)(s, t)]
    k2, k4 = sum(part.k2 for part in moments), sum(part.k4 for part in moments)
    value = float(((s * first - t * second) ** 2).sum()) - block.effect.count * k2
    size = max(value, 0.0)
    return Estimate(
        value, block.variance.of_squared_norm(size), float(block.effect.squared_norm_variance(size, k2, k4))
    )


def _test_of_shape(outcome: Proportional, estimate: Estimate, tolerance: float, by: SameBy) -> SameTest:
    return SameTest(
        outcome.p_value,
        estimate,
        tolerance,
        by,
        samples=False,
        law=outcome.law,
        gap=outcome.gap,
        squared_norm=outcome.squared_norm,
    )


def _releases(*sketches: AnySketch) -> list[PrivateSketch]:
    """Return those sketches that have noise."""
    return [sketch for sketch in sketches if isinstance(sketch, PrivateSketch)]


def _place(*sketches: AnySketch) -> NoisePlace:
    return next((release.noise_place for release in _releases(*sketches)), "output")


def _averages(
    a: AnySketch, b: AnySketch, tolerance: float, *, samples: bool
) -> tuple[tuple[NoiseTerm, ...], float, tuple[NoiseTerm, ...]]:
    """Return the noise in a cell of the difference of two averages, the squared distance of cells, and what drifts.

    With numbers m_x of units and errors e_x, x/m_x - y/m_y is e_y/m_y times x/m_x less e_x/m_x times y/m_y, if averages
    are the same. So the error of a number comes with the length of the other average: that of its own is the shorter,
    the more the number is overestimated (Fieller 1954).
    """
    block = block_of([a, b])
    averages = averages_of(block)
    check_defined(averages.defined)
    weights = averages.block.cell_units / block.cell_units  # about 1/n
    scaled = averages.block
    longest = longest_norms(scaled.squared_norms, scaled.effect, scaled.k2, scaled.k4)
    lengths = longest[::-1] + tolerance  # that of the other one, and how far this one is from it
    noise, drift = [], []
    for sketch, weight, length in zip((a, b), weights.tolist(), lengths.tolist(), strict=True):
        if not isinstance(sketch, PrivateSketch) or not sketch.layout.is_counted:
            continue  # exact
        noise.append((sketch, weight))
        to_units = 1 / (noise_unit(sketch.projection, sketch.noise_place) * sketch.layout.unit_weight)
        drift += [term.scaled(to_units * weight * length) for term in noise_terms(sketch)]
    first, second = averages.block.values
    gap = float(((first - second) ** 2).sum())
    if samples:
        apart = _sampled(a, b, averages)
        along = sum(term.moments.k2 for term in drift)
        if tolerance == 0 and along and _is_normal(block):
            gap, apart, drift = *without_counts(averages, gap, apart, along), []
        drift += [NoiseTerm(NoiseMoments(apart), 1.0)] if apart else []
    return terms_of(noise), gap, tuple(sorted(drift, key=repr))


def _is_normal(block: Block) -> bool:
    """Return whether the noise of all cells is normal, or nearly, and after the map."""
    return isinstance(block.effect, OutputNoise) and bool((np.abs(block.k4) <= NORMAL_KURTOSIS * block.k2**2).all())


def without_counts(averages: Averages, gap: float, apart: float, along: float) -> tuple[float, float]:
    """Return the squared distance with less of the direction in which errors of counts move averages, and what drifts.

    That direction is the average of both, with weights that make its noise independent of that of the difference.
    Under normal noise of variance v in each cell, errors of counts of variance d along it make it v + d there, and
    a share ρ of the square has the variance ρ(v + d).

    Parameters
    ----------
    averages
        Of two sketches.
    gap
        ‖x̄ - ȳ‖² of their cells.
    apart
        The expected squared distance of two samples.
    along
        d, all in squared data units.
    """
    (first, second), (v_first, v_second) = averages.block.values, averages.block.k2
    pooled = v_second * first + v_first * second
    noise, size = v_first + v_second, float(np.linalg.norm(pooled))
    if not size:
        return gap, apart + along
    kept = kept_share(float(noise), apart, along)
    gap -= (1 - kept) * float(pooled @ (first - second) / size) ** 2
    # the direction is off by as much as the noise and the draw of units make it, and errors of counts with it
    aside = float(averages.spread.sum()) * (first.size * v_first * v_second / noise + apart)
    return gap, float(apart + kept * (noise + along) - noise + aside)


def _sampled(a: AnySketch, b: AnySketch, averages: Averages) -> float:
    """Return a bound on the expected squared distance of averages of two samples of one population."""
    bound = max(_length(sketch) for sketch in (a, b))
    alike = mean_product(a, b)
    of_counts = (averages.spread.sum() + averages.spread.prod()) * alike.value**2
    error = math.sqrt(max(alike.variance - of_counts, 0.0))
    errors = averages.numbers * np.sqrt(averages.spread)
    return samples_apart(bound, alike.value - SAMPLE_ERRORS * error, averages.numbers, errors)


def _length(sketch: AnySketch) -> float:
    """Return the length to which units were clipped."""
    neighbours: Any = sketch.guarantee.neighbours if isinstance(sketch, PrivateSketch) else sketch.bounds.neighbours
    if neighbours is None or not neighbours.of_sketches or (isinstance(sketch, PrivateSketch) and sketch.clip is None):
        raise InvalidInputError(
            "samples=True needs units of known length: clip them in sketch space, streamsketch.agree(…, unit=…, "
            "neighbours=SketchL2(…)), and count them"
        )
    clip = sketch.clip if isinstance(sketch, PrivateSketch) else sketch.bounds.clip
    # the bound is for all keys of a unit, but each average of its rows has the length of a row at most
    return min(float(neighbours.bound), LONGEST_ROW) if clip == "average" else float(neighbours.bound)
