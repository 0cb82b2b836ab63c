"""Choose privately which keys to publish, if they cannot be listed in advance."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import numpy as np

from streamsketch.beam.intake.bound import BoundedEvents
from streamsketch.beam.run.bits import BitsOf
from streamsketch.beam.run.known import known_of, noted, with_known
from streamsketch.beam.run.once import PublishOnce
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.budget import Budget
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.key_selection import KeyThreshold, key_threshold
from streamsketch.privacy.mechanism import KeySelection, Mechanism


def selection_of(keys: beam.PCollection) -> Guarantee:
    """Return what the choice of keys by `SelectKeys` guarantees; raise `InvalidInputError` for other keys."""
    guarantee = noted(keys)
    if not isinstance(guarantee, Guarantee):
        raise InvalidInputError(
            "selected_keys must be the output of SelectKeys, so that its share of epsilon and delta is known; pass "
            "keys that you know in advance as public_keys"
        )
    return guarantee


class SelectKeys(beam.PTransform):
    """Choose the keys that have enough units, privately: ``PCollection[BoundedEvents] → PCollection[key]``.

    It is for ``ReleasePerKey(selected_keys=…)``, which adds this ε and δ to every guarantee. The units of each key are
    counted, each count gets discrete Laplace noise, and keys whose noisy count reaches a threshold are kept. The choice
    is (ε, δ)-differentially private for one unit in as many keys as `BoundContributions` lets it keep, each bounded by
    itself or all together (Korolova et al. 2009; `streamsketch.privacy.key_selection`). The noise is idempotent, as in
    `ReleasePerKey`: a retried step makes the same choice, and each run an independent one. With event-time windows,
    each window chooses its own keys. Keys leave in sorted order, as releases do.

    Parameters
    ----------
    epsilon, delta
        The privacy loss of the choice. δ must be positive, because a key with a single unit may be published.

    Raises
    ------
    InvalidInputError
        If ε or δ is out of range, the events did not come through `BoundContributions`, or their bounds allow a unit in
        any number of keys.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from streamsketch import L1, SJLT, Agreement
    >>> from streamsketch.beam import BoundContributions, ReleasePerKey, RowsToBatches, SketchPerKey
    >>> from streamsketch.release import AdditiveNoise
    >>> projection = SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7)
    >>> neighbours = L1(30, unit="passenger", max_keys=2)
    >>> agreement = Agreement.of(projection, key="carrier", index="day", unit="passenger", neighbours=neighbours)
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     rows = [("AA", 17, passenger) for passenger in range(100)] + [("tiny", 18, 100)]
    ...     batches = pipeline | beam.Create(rows) | RowsToBatches(agreement, ["carrier", "day", "passenger"])
    ...     events = batches | BoundContributions(agreement)
    ...     keys = events | SelectKeys(epsilon=0.5, delta=1e-6)
    ...     noise = AdditiveNoise(epsilon=1.0, neighbours=neighbours)
    ...     releases = events | SketchPerKey(agreement) | ReleasePerKey(noise, selected_keys=keys)
    """

    def __init__(self, *, epsilon: float, delta: float) -> None:
        super().__init__()
        self._budget = Budget(epsilon, delta).warn_if_weak()
        key_threshold(self._budget, 1)  # fail before the job runs

    def expand(self, events: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        bounds = known_of(events).bounds
        neighbours = bounds.neighbours if bounds.is_enforced else None
        if neighbours is None:
            raise InvalidInputError(
                "SelectKeys counts the privacy units of each key, which only BoundContributions knows; apply it "
                "directly to the output of BoundContributions"
            )
        most = max(neighbours.max_keys, bounds.together)  # keys of one unit, whose counts it moves
        draw = KeepSelected(key_threshold(self._budget, most))
        kept, _ = (
            events
            | "Count units" >> beam.FlatMap(_unit_counts).with_output_types(beam.typehints.KV[Any, int])
            | "Keep frequent keys" >> PublishOnce(draw, "keys")
        )
        keys = kept | "Kept keys" >> beam.Keys().with_output_types(Any)
        mechanism = Mechanism((KeySelection(self._budget),))
        return with_known(keys, Guarantee.of(self._budget, neighbours, mechanism, basis="enforced"))

    def display_data(self) -> dict[str, Any]:
        """Show the budget in the runner's interface."""
        return self._budget.to_dict()


def _unit_counts(bounded: BoundedEvents) -> Iterator[tuple[Any, int]]:
    if not isinstance(bounded, BoundedEvents):
        raise TypeError(f"SelectKeys needs the output of BoundContributions, got a {type(bounded).__name__}")
    counts = bounded.events.units_of
    for place in np.flatnonzero(counts).tolist():
        yield bounded.events.slots[place][0], int(counts[place])


@dataclasses.dataclass(frozen=True)
class KeepSelected:
    """Keep a key if its noisy count of units reaches the threshold."""

    threshold: KeyThreshold

    published = bool
    summed = int

    def opens(self, _: int) -> bool:
        """Return True: every key is drawn for."""
        return True

    def draw(self, total: int, bits_of: BitsOf, *_: Any) -> Iterator[bool]:
        """Yield True if a key with so many units is kept."""
        if self.threshold.keeps(total, bits_of(total.to_bytes(16, "little"))):
            yield True
