"""Which keys to publish, decided privately where they cannot be named beforehand."""

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.transforms.window import BoundedWindow
from apache_beam.utils.windowed_value import PaneInfo

from streamsketch.beam.events import BoundedEvents
from streamsketch.beam.ordering import InOrder
from streamsketch.beam.repeatable import repeatable_bits
from streamsketch.beam.runs import RunSecret, label_in, run_secret
from streamsketch.beam.upstream import bounds_of
from streamsketch.beam.windows import is_the_one_pane
from streamsketch.errors import InvalidInputError
from streamsketch.privacy import Guarantee, KeyThreshold, compose, key_threshold


class SelectKeys(beam.PTransform):
    """Choose the keys that have enough units, privately: ``PCollection[BoundedEvents] → PCollection[key]``.

    For ``ReleasePerKey(selected_keys=…)``, which adds this ε and δ to its own in every guarantee. The units of each key
    are counted; the count gets discrete Laplace noise, and keys whose noisy count reaches a threshold are kept: a
    (ε, δ)-differentially private choice for one unit in at most ``max_keys`` keys, the events' own bound (Korolova
    et al. 2009; `streamsketch.privacy.key_selection`). The noise is idempotent, as that of `ReleasePerKey`:
    a retried step makes the same choice, and each run an independent one. With event-time windows each window chooses
    for itself. Keys leave in sorted order, as releases do.

    Parameters
    ----------
    epsilon, delta
        What the choice may spend; δ > 0, since a key with one unit in it may be seen.

    Raises
    ------
    InvalidInputError
        For ε or δ out of range, or events that did not come through `BoundContributions`.

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
        key_threshold(epsilon, delta, 1)  # fail before the job runs
        self.epsilon, self.delta = float(epsilon), float(delta)

    def expand(self, events: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        bounds = bounds_of(events)
        if bounds is None or bounds.transform.already_enforced:
            raise InvalidInputError(
                "SelectKeys counts the privacy units of each key, which only BoundContributions knows: apply it to "
                "what that transform returns, without a step in between"
            )
        self.neighbours = bounds.neighbours
        threshold = key_threshold(self.epsilon, self.delta, self.neighbours.max_keys)
        run = run_secret(events.pipeline)
        keep = _Keep(threshold, label_in(events.pipeline))
        return (
            events
            | "Count units" >> beam.FlatMap(_unit_counts).with_output_types(beam.typehints.KV[Any, int])
            | "Gather counts" >> beam.GroupByKey()
            | "Keep frequent keys" >> beam.ParDo(keep, run=run).with_output_types(beam.typehints.KV[Any, bool])
            | "Fix the choice" >> InOrder(bool)
            | "Kept keys" >> beam.Keys().with_output_types(Any)
        )

    def added_to(self, guarantee: Guarantee) -> Guarantee:
        """Return what a release for selected keys promises: ε and δ add up (Dwork and Roth 2014, Theorem 3.16)."""
        how = f"Laplace threshold for the keys, ε = {self.epsilon!r}, δ = {self.delta!r}"
        selection = Guarantee(self.epsilon, self.delta, guarantee.neighbours, how)
        return compose([guarantee, selection], populations="overlapping")

    def display_data(self) -> dict[str, Any]:
        """Show the budget in the runner's interface."""
        return {"epsilon": self.epsilon, "delta": self.delta}


def _unit_counts(bounded: BoundedEvents) -> Iterator[tuple[Any, int]]:
    if not isinstance(bounded, BoundedEvents):
        raise TypeError(f"SelectKeys needs what BoundContributions returns, got a {type(bounded).__name__}")
    counts = bounded.events.units_of
    for place in np.flatnonzero(counts).tolist():
        yield bounded.events.slots[place][0], int(counts[place])


class _Keep(beam.DoFn):
    """Keep a key if its noisy count of units reaches the threshold."""

    def __init__(self, threshold: KeyThreshold, label: str) -> None:
        self._threshold, self._label = threshold, label

    def process(
        self,
        group: tuple[Any, Iterable[int]],
        window: BoundedWindow = beam.DoFn.WindowParam,
        pane: PaneInfo = beam.DoFn.PaneInfoParam,
        *,
        run: RunSecret,
    ) -> Iterator[tuple[Any, bool]]:
        if not is_the_one_pane(pane):
            return
        key, counts = group
        units = sum(counts)
        bits = repeatable_bits(run.derive("keys", self._label), key, window, units.to_bytes(16, "little"))
        if self._threshold.keeps(units, bits):
            yield key, True


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
