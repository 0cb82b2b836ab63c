"""Joint estimates as results: marked as such, with the intervals of each pair alone."""

import dataclasses
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamsketch.core import sentences
from streamsketch.core.numbers import Floats
from streamsketch.estimation.estimate import Estimate, SecretEstimate
from streamsketch.estimation.estimate_arrays import Estimates, SecretEstimates
from streamsketch.estimation.intervals import Interval, Intervals, Method, miss_of, quantile

JOINT_METADATA = "streamsketch.joint"
"""The schema metadata of Arrow tables of joint estimates: how they were made, as JSON."""

_BISECTIONS = 40
_MARGIN = 1.05  # of the standard errors at which a law cuts, for cells that are few or not normal
_NO_WEIGHT = 0.005


@dataclasses.dataclass(frozen=True)
class JointModel:
    """How joint estimates were made.

    Examples
    --------
    >>> print(JointModel("lag", strength=100, folds=2, weight=0.8))
    joint estimate: lag, ν = 100, 2 folds of cells, weight 0.80
    """

    target: str
    """What cosines were drawn towards: ``"common"`` for one common cosine, ``"lag"`` for one for each distance in
    time."""
    strength: int
    """By how many cells, ν: 0 for not at all."""
    folds: int
    """Cell i was held out with fold i mod ``folds``, to choose target and strength, and to weigh the model."""
    weight: float
    """The model's weight against each pair's own estimate, 0 to 1, as a mean over the pairs."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        gain = sentences.NO_GAIN if self.weight < _NO_WEIGHT else sentences.WEIGHT.format(weight=f"{self.weight:.2f}")
        return sentences.JOINT_MODEL.format(target=self.target, strength=self.strength, folds=self.folds, gain=gain)


@dataclasses.dataclass(frozen=True, eq=False)
class CosineLaw:
    """How the variance of a pair's own cosine depends on the cosine: a(1 - ρ²)² + A + Bρ² (Theory 4.9).

    Arrays of one shape, NaN where a pair has no cosine of its own.
    """

    cosine: Floats
    """The pair's own, between -1 and 1."""
    coefficient: float
    """Of the map's part, a."""
    level: Floats
    """A."""
    growth: Floats
    """B."""
    profile: bool = False
    """Whether intervals are of the profile distance 2 - 2ρ."""

    def at(self, place: Any) -> "CosineLaw":
        """Return that of one pair."""
        parts = (np.asarray(part[place]) for part in (self.cosine, self.level, self.growth))
        cosine, level, growth = parts
        return dataclasses.replace(self, cosine=cosine, level=level, growth=growth)

    def within(self, ends: Intervals, z: float) -> Intervals:
        """Return intervals without the values that the cosine is more than 1.05z of *their* standard errors from.

        This is for intervals that hold by themselves: the law's tails are too uncertain for many at once. With so few
        cells that these are no interval, those given.
        """
        if 2 * z * self.coefficient**0.5 >= 1:
            return ends
        low, high = (self._end(end, _MARGIN * z) for end in (-1.0, 1.0))
        if self.profile:
            low, high = 2 - 2 * high, 2 - 2 * low
        return Intervals(np.maximum(ends.low, low), np.minimum(ends.high, high))

    def _end(self, end: float, z: float) -> Floats:
        inner, outer = self.cosine, np.where(np.isnan(self.cosine), np.nan, end)
        for _ in range(_BISECTIONS):
            middle = (inner + outer) / 2
            inside = self._holds(middle, z)
            inner, outer = np.where(inside, middle, inner), np.where(inside, outer, middle)
        return np.where(self._holds(np.full(np.shape(outer), end), z), end, outer)

    def _holds(self, cosine: Floats, z: float) -> NDArray[np.bool_]:
        variance = self.coefficient * (1 - cosine**2) ** 2 + np.maximum(self.level + self.growth * cosine**2, 0.0)
        return np.asarray(np.abs(self.cosine - cosine) <= z * np.sqrt(variance))


@dataclasses.dataclass(frozen=True, repr=False)
class JointEstimate(Estimate):
    """An estimate of a pair from all streams together; its interval is that of the pair alone.

    The interval is the one of ``alone``, without the values that the ``law`` contradicts, and extended to the value. It
    holds whatever the other streams are. Where a pair alone is undefined, it is the whole range. The standard error is
    the expected error over all pairs of such noise, so it is often much smaller than the interval (Theory 4.9).

    Parameters
    ----------
    alone
        The estimate of the pair without the others; its value is NaN where that is undefined.
    model
        How the estimate was made.
    law
        How the error of the pair's own cosine depends on the cosine; None for other quantities.
    """

    alone: Estimate | None = None
    model: JointModel | None = None
    law: CosineLaw | None = dataclasses.field(default=None, compare=False)

    def interval(self, confidence: float = 0.95, method: Method = "normal") -> Interval:
        """Return the confidence interval of the pair alone, extended to the value; see `Estimate.interval`."""
        if self.alone is None:
            return super().interval(confidence, method)
        z = quantile(miss_of(confidence), method) if method == "normal" else None
        return self._extended(self.alone.interval(confidence, method), z)

    def selected_interval(self, candidates: int, confidence: float = 0.95) -> Interval:
        """Return the interval of the pair alone, extended to the value; see `Estimate.selected_interval`."""
        if self.alone is None:
            return super().selected_interval(candidates, confidence)
        ends = self.alone.selected_interval(candidates, confidence)
        return self._extended(ends, None)

    def _extended(self, ends: Interval, z: float | None) -> Interval:
        low, high = _extended(Intervals(*map(np.asarray, ends)), self, self.law, z)
        return Interval(float(low), float(high))

    def scaled(self, factor: float) -> "JointEstimate":
        """Return the estimate of ``factor`` times the quantity; see `Estimate.scaled`."""
        return dataclasses.replace(super().scaled(factor), alone=self.alone and self.alone.scaled(factor), law=None)

    def as_secret(self) -> "SecretJointEstimate":
        """Return the estimate as a secret one."""
        return SecretJointEstimate(**vars(self))

    def _notes(self) -> tuple[str, ...]:
        return (str(self.model), *super()._notes())

    def _marked(self) -> dict[str, Any]:
        joint = True if self.model is None else self.model.to_dict()
        return {"joint": joint, **super()._marked()}


@dataclasses.dataclass(frozen=True, repr=False)
class SecretJointEstimate(JointEstimate, SecretEstimate):
    """A joint estimate to which a raw sketch of your own contributed; see `SecretEstimate`."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class JointEstimates(Estimates):
    """Estimates of all pairs from all streams together, as `pairwise` returns them with ``together=True``.

    Indexing returns a `JointEstimate`. The intervals are those of ``alone``, extended to the values; if they hold for
    each pair by itself, without the values that the ``law`` contradicts.

    Parameters
    ----------
    alone
        The estimates of each pair without the others, as `pairwise` returns them: NaN where undefined.
    model
        How the estimates were made.
    law
        How the errors of the pairs' own cosines depend on the cosines; None for other quantities.
    """

    alone: Estimates = dataclasses.field(kw_only=True)
    model: JointModel = dataclasses.field(kw_only=True)
    law: CosineLaw | None = dataclasses.field(default=None, kw_only=True)

    def interval(self, confidence: float = 0.95, method: Method = "normal", *, level: Any = "each") -> Intervals:
        """Return the intervals of the pairs alone, extended to the values; see `Estimates.interval`.

        They are never NaN: where a pair alone is undefined, the interval is the whole range.
        """
        ends = self.alone.interval(confidence, method, level=level)
        z = quantile(miss_of(confidence), method) if method == "normal" and level == "each" else None
        return _extended(ends, self, self.law, z)

    def selected_interval(self, candidates: int, confidence: float = 0.95) -> Intervals:
        """Return intervals for estimates that were selected for their values; see `Estimate.selected_interval`."""
        ends = self.alone.selected_interval(candidates, confidence)
        return _extended(ends, self, None, None)

    def as_secret(self) -> "SecretJointEstimates":
        """Return the estimates as secret ones."""
        return SecretJointEstimates(**vars(self))

    def __getitem__(self, place: int | tuple[int, ...]) -> JointEstimate:
        plain = super().__getitem__(place)
        kind = SecretJointEstimate if self.secret else JointEstimate
        return kind(**vars(plain), alone=self.alone[place], model=self.model, law=self.law and self.law.at(place))

    def _notes(self) -> tuple[str, ...]:
        return (str(self.model), *super()._notes())

    def _metadata(self) -> dict[str, str]:
        return {JOINT_METADATA: json.dumps(self.model.to_dict()), **super()._metadata()}


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class SecretJointEstimates(JointEstimates, SecretEstimates):
    """Joint estimates to which a raw sketch of your own contributed; see `SecretEstimates`."""

    def __getitem__(self, place: int | tuple[int, ...]) -> SecretJointEstimate:
        return SecretJointEstimate(**vars(super().__getitem__(place)))


def _extended(ends: Intervals, estimate: Estimate | Estimates, law: CosineLaw | None, z: float | None) -> Intervals:
    """Return intervals within a law's, that contain the values, and are the whole range where they are NaN."""
    if law is not None and z is not None:
        ends = law.within(ends, z)
    low = np.where(np.isnan(ends.low), estimate.lowest, ends.low)
    high = np.where(np.isnan(ends.high), estimate.highest, ends.high)
    return Intervals(np.minimum(low, estimate.value), np.maximum(high, estimate.value))
