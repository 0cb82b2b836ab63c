"""Which keys to publish, decided privately where they cannot be named beforehand."""

import math
import secrets
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.transforms.window import BoundedWindow
from apache_beam.utils.windowed_value import PaneInfo

from streamsketch.beam.bounding import applied_upstream
from streamsketch.beam.events import BoundedEvents
from streamsketch.beam.repeatable import repeatable_bits
from streamsketch.beam.windows import is_the_one_pane
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.guarantee import Guarantee, check_budget, compose
from streamsketch.privacy.sampling import check_laplace, discrete_laplace

_MOST_UNITS = (1 << 32) - 1  # that OpenDP's map is asked about
_SCALE_STEPS = 1 << 16  # of a unit; such scales are floats and exact ratios alike


class SelectKeys(beam.PTransform):
    """Choose the keys that have enough units, privately: ``PCollection[BoundedEvents] → PCollection[key]``.

    For ``ReleasePerKey(selected_keys=…)``, which adds this ε and δ to its own in every guarantee. The units of each key
    are counted; the count gets discrete Laplace noise, and keys whose noisy count reaches a threshold are kept: a
    (ε, δ)-differentially private choice for one unit in at most ``max_keys`` keys, the events' own bound. Scale and
    threshold are those of OpenDP's ``make_laplace_threshold``, by its own privacy map (Rogers 2023); the noise
    is drawn by our exact sampler, so that a retried step makes the same choice. With event-time windows each
    window chooses for itself.

    Parameters
    ----------
    epsilon, delta
        What the choice may spend; δ > 0, since a key with one unit in it may be seen.

    Raises
    ------
    InvalidInputError
        For ε or δ out of range, or events that did not come through `BoundContributions`.
    ImportError
        Without OpenDP: ``pip install 'streamsketch[selection]'``.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from streamsketch import SJLT
    >>> from streamsketch.beam import BoundContributions, ReleasePerKey, SketchPerKey
    >>> projection = SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7)
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     rows = [(passenger, "AA", 17, 1) for passenger in range(100)] + [(100, "tiny", 18, 1)]
    ...     bounds = BoundContributions(projection, unit="passenger", max_keys=2, l1=30)
    ...     events = pipeline | beam.Create(rows) | bounds
    ...     keys = events | SelectKeys(epsilon=0.5, delta=1e-6)
    ...     releases = events | SketchPerKey(projection) | ReleasePerKey(epsilon=1.0, selected_keys=keys)
    """

    def __init__(self, *, epsilon: float, delta: float) -> None:
        super().__init__()
        self.epsilon, self.delta = check_budget(epsilon, delta)
        if self.delta == 0:
            raise InvalidInputError(
                "keys cannot be selected with delta = 0: a key that one unit brought may be published. Give a delta "
                "far below 1 / number of units, or name the keys: public_keys"
            )
        _opendp()

    def expand(self, events: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        bounds = applied_upstream(events)
        if bounds is None or bounds.transform.already_enforced:
            raise InvalidInputError(
                "SelectKeys counts the privacy units of each key, which only BoundContributions knows: apply it to "
                "what that transform returns"
            )
        self.neighbours = bounds.neighbours
        scale, threshold = calibrated(self.epsilon, self.delta, self.neighbours.max_keys)
        return (
            events
            | "Count units" >> beam.FlatMap(_unit_counts).with_output_types(beam.typehints.KV[Any, int])
            | "Gather counts" >> beam.GroupByKey()
            | "Keep frequent keys"
            >> beam.ParDo(_Keep(scale, threshold, secrets.token_bytes(32))).with_output_types(Any)
            | "Fix the choice" >> beam.Reshuffle()
        )

    def added_to(self, guarantee: Guarantee) -> Guarantee:
        """Return what a release for selected keys promises: ε and δ add up (Dwork and Roth 2014, Theorem 3.16)."""
        how = f"Laplace threshold for the keys, ε = {self.epsilon!r}, δ = {self.delta!r}"
        selection = Guarantee(self.epsilon, self.delta, guarantee.neighbours, how)
        return compose([guarantee, selection], populations="overlapping")

    def display_data(self) -> dict[str, Any]:
        """Show the budget in the runner's interface."""
        return {"epsilon": self.epsilon, "delta": self.delta}


def calibrated(epsilon: float, delta: float, max_keys: int) -> tuple[Fraction, int]:
    """Return the scale and the least threshold with which one unit in ``max_keys`` keys loses at most (ε, δ).

    OpenDP's privacy map has the last word on both.
    """
    scale = Fraction(math.ceil(Fraction(max_keys) / Fraction(epsilon) * _SCALE_STEPS), _SCALE_STEPS)
    check_laplace(scale)
    # max_keys · P(1 + Laplace ≥ threshold) ≤ δ, roughly; the map settles the rest
    threshold = max(1, math.floor(1 + float(scale) * math.log(max_keys / (2 * delta))))
    while threshold <= _MOST_UNITS:
        spent_epsilon, spent_delta = _privacy_map(scale, threshold, max_keys)
        if spent_epsilon > epsilon:
            scale += Fraction(1, _SCALE_STEPS)
        elif spent_delta > delta:
            threshold += 1
        else:
            return scale, threshold
    raise InvalidInputError(
        f"to select keys with epsilon={epsilon} and delta={delta} for {max_keys} keys a unit, a key would need more "
        f"than 2**32 units; allow more epsilon or delta"
    )


def _privacy_map(scale: Fraction, threshold: int, max_keys: int) -> tuple[float, float]:
    dp = _opendp()
    dp.enable_features("contrib")
    counts = dp.map_domain(dp.atom_domain(T=bool), dp.atom_domain(T="u32"))
    metric = dp.l01inf_distance(dp.absolute_distance(T="u32"))
    mechanism = dp.m.make_laplace_threshold(counts, metric, scale=float(scale), threshold=threshold)
    epsilon, delta = mechanism.map((max_keys, max_keys, 1))
    return epsilon, delta


def _opendp() -> Any:
    try:
        import opendp.prelude  # noqa: PLC0415 - an extra, and seconds to import
    except ImportError:
        raise ImportError("SelectKeys needs OpenDP: pip install 'streamsketch[selection]'") from None
    return opendp.prelude


def _unit_counts(bounded: BoundedEvents) -> Iterator[tuple[Any, int]]:
    if not isinstance(bounded, BoundedEvents):
        raise TypeError(f"SelectKeys needs what BoundContributions returns, got a {type(bounded).__name__}")
    counts = bounded.events.units_of
    for place in np.flatnonzero(counts).tolist():
        yield bounded.events.slots[place][0], int(counts[place])


class _Keep(beam.DoFn):
    """Keep a key if its noisy count of units reaches the threshold."""

    def __init__(self, scale: Fraction, threshold: int, secret: bytes) -> None:
        self._scale, self._threshold, self._secret = scale, threshold, secret

    def process(
        self,
        group: tuple[Any, Iterable[int]],
        window: BoundedWindow = beam.DoFn.WindowParam,
        pane: PaneInfo = beam.DoFn.PaneInfoParam,
    ) -> Iterator[Any]:
        if not is_the_one_pane(pane):
            return
        key, counts = group
        units = sum(counts)
        bits = repeatable_bits(self._secret, key, window, units.to_bytes(16, "little"))
        if units + int(discrete_laplace(self._scale, 1, bits)[0]) >= self._threshold:
            yield key


def selection_of(keys: beam.PCollection) -> SelectKeys:
    """Return the `SelectKeys` that a collection of keys came from."""
    applied = keys.producer if isinstance(keys, beam.PCollection) else None
    while applied is not None:
        if isinstance(applied.transform, SelectKeys):
            return applied.transform
        applied = applied.parent
    raise InvalidInputError(
        "selected_keys must be what SelectKeys returns, so that its share of epsilon and delta is known; keys known "
        "beforehand are public_keys"
    )
