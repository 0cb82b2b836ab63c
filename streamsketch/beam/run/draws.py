"""What draws of a key's sketch have in common."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from apache_beam.metrics import Metrics
from apache_beam.transforms.window import BoundedWindow

from streamsketch.beam.intake.keys import METRICS
from streamsketch.beam.intake.sketch import merged
from streamsketch.beam.run.repeatable import data_id
from streamsketch.beam.run.runs import RunSecret
from streamsketch.data import from_list
from streamsketch.privacy import BitSource, Guarantee
from streamsketch.projections import Projection
from streamsketch.sketching import Sketch


class KeyedDraw(ABC):
    """What is drawn of a key's sketch, with data ids that are functions of the run, names and where data came from.

    Parameters
    ----------
    projection, guarantee
        Of all sketches.
    sources
        Labels of the steps that the data come from.
    count
        Whether keys without data are counted.
    """

    summed = Sketch
    published: type[Any]

    def __init__(self, projection: Projection, guarantee: Guarantee, sources: Sequence[str], *, count: bool) -> None:
        self._projection, self._guarantee, self._sources, self._count = projection, guarantee, sources, count

    def is_first(self, _: list[Sketch]) -> bool:
        """Return whether nothing was published before of these values, as far as they tell."""
        return True

    def total(self, values: Iterable[Sketch]) -> Sketch:
        """Return the sum."""
        total = merged(values)
        self._projection.check_same(total.projection)
        return total

    def named(self, total: Sketch) -> tuple[bytes, ...]:
        """Return what the draw depends on beside key and window."""
        public = total.projection.to_json(), self._guarantee.to_json()
        return (*(text.encode() for text in public), total.state().astype("<i8").tobytes())

    @abstractmethod
    def draw(self, total: Sketch, bits: BitSource, key: Any, window: BoundedWindow, run: RunSecret) -> Iterator[Any]:
        """Yield what is published."""

    def _with_ids(self, total: Sketch, key: Any, window: BoundedWindow, run: RunSecret) -> Sketch:
        id_key = run.derive("data ids", "")  # of all transforms, so that they give the same data the same ids
        ids = from_list(data_id(id_key, source, key, window) for source in self._sources)
        return Sketch.from_state(total.projection, total.state(), total.mass, ids=ids)

    def _note(self, total: Sketch) -> None:
        Metrics.counter(METRICS, "releases").inc()
        if self._count and total.mass == 0:
            Metrics.counter(METRICS, "keys_without_data").inc()
