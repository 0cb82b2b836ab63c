"""What is drawn of a key's sketch."""

import functools
from collections.abc import Iterator, Sequence
from typing import Any

from apache_beam.metrics import Metrics
from apache_beam.transforms.window import BoundedWindow

from streamsketch.agreement import Agreement
from streamsketch.beam.intake.keys import METRICS
from streamsketch.beam.run.coders import counts_of
from streamsketch.beam.run.once import BitsOf, data_id
from streamsketch.beam.run.runs import RunSecret
from streamsketch.data import from_list
from streamsketch.privacy import UNKNOWN, BitSource, Bounds, Guarantee
from streamsketch.projections import Projection
from streamsketch.release import Calibrated, Publisher
from streamsketch.sketching import Sketch


class KeyedDraw:
    """What a publisher draws of a key's sketch, with data ids that are functions of the run, names and sources.

    Parameters
    ----------
    publisher
        What draws.
    projection, guarantee
        Of all sketches, and what each release states.
    sources
        Labels of the steps that the data come from.
    agreement
        What the data follow, if anything. Releases state it.
    bounds
        What was enforced on the data, and still holds.
    opened
        Whether windows are opened by empty sketches.
    count
        Whether keys without data are counted.
    """

    summed = Sketch

    def __init__(
        self,
        publisher: Any,
        projection: Projection,
        guarantee: Guarantee,
        sources: Sequence[str],
        agreement: Agreement | None = None,
        bounds: Bounds = UNKNOWN,
        *,
        opened: bool = False,
        count: bool = False,
    ) -> None:
        self._publisher, self._projection, self._guarantee = publisher, projection, guarantee
        self._sources, self._opened, self._count = sources, opened, count
        self._agreement, self._bounds = agreement, bounds

    @property
    def published(self) -> type[Any]:
        """Type of what is published."""
        found: type[Any] = self._publisher.published
        return found

    @property
    def _context(self) -> tuple[bytes, ...]:
        """What the draw depends on beside key, window, projection, guarantee, cells and counts."""
        return ()

    def opens(self, value: Sketch) -> bool:
        """Return whether a sketch may open its window: an empty one, where windows end again after a restore."""
        return not self._opened or value.mass == 0

    def draw(self, total: Sketch, bits_of: BitsOf, key: Any, window: BoundedWindow, run: RunSecret) -> Iterator[Any]:
        """Yield what is published."""
        public = [text.encode() for text in (total.projection.to_json(), self._guarantee.to_json())]
        exact, counts = [total.state()], counts_of(total)
        exact += [counts] if self._guarantee.mechanism.counting is not None else []
        bits = bits_of(*public, *(part.astype("<i8").tobytes() for part in exact), *self._context)
        self._projection.check_same(total.projection)
        id_key = run.derive("data ids", "")  # of all transforms, so that they give the same data the same ids
        ids = from_list(data_id(id_key, source, key, window) for source in self._sources)
        known: dict[str, Any] = {"ids": ids, "agreement": self._agreement, "bounds": self._bounds, "counts": counts}
        yield self._drawn(Sketch.from_state(total.projection, total.state(), total.mass, **known), bits, key)
        Metrics.counter(METRICS, "releases").inc()
        if self._count and total.mass == 0:
            Metrics.counter(METRICS, "keys_without_data").inc()

    def _drawn(self, sketch: Sketch, bits: BitSource, _key: Any) -> Any:
        return self._calibrated.release(sketch, bits)

    @functools.cached_property
    def _calibrated(self) -> Calibrated[Any]:
        publisher: Publisher[Any] = self._publisher
        return publisher.calibrated(self._projection).with_guarantee(self._guarantee)
