"""Collections of secret data, with what is public about them: their projection, and the bounds that hold for them."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import apache_beam as beam

from streamsketch.agreement import Agreement
from streamsketch.errors import InvalidInputError
from streamsketch.intake import Tumbling
from streamsketch.privacy import L1
from streamsketch.projections import Projection


class Span(NamedTuple):
    """The stretch of time that bounds are for, each stretch by itself.

    Parameters
    ----------
    unit
        The privacy unit, without the stretch.
    stretches
        In microseconds.
    """

    unit: str
    stretches: Tumbling


class MarkedCollection(beam.PCollection):
    """A step's output that says more of itself than Beam knows; what other steps make of it says nothing.

    It is the same node of the graph as the collection that it is made of: equal to it, and in its place.
    """

    def __init__(self, collection: beam.PCollection) -> None:
        self.__dict__ = collection.__dict__


class SecretCollection(MarkedCollection):
    """Bounded events or exact sketches: what `BoundContributions` and `SketchPerKey` return.

    Every other step returns a plain ``PCollection``: it may move events to other keys or windows, or double them, and
    then no bound holds.

    Parameters
    ----------
    collection
        The step's output.
    projection
        The public map.
    neighbours
        What one privacy unit contributes at most, to all keys together; None if nobody said.
    enforced
        Whether `BoundContributions` clipped to that, rather than somebody asserting it.
    agreement
        The agreement that the rows were cast by, if any.
    late
        Whether it is of data that came after their window was published, which never are.
    span
        What stretch of time the neighbours are for; None if for all time together, or if nobody said.
    """

    def __init__(
        self,
        collection: beam.PCollection,
        projection: Projection,
        neighbours: L1 | None = None,
        *,
        enforced: bool = False,
        agreement: Agreement | None = None,
        late: bool = False,
        span: Span | None = None,
    ) -> None:
        super().__init__(collection)
        self.projection, self.neighbours, self.enforced, self.late = projection, neighbours, enforced, late
        self.agreement, self.span = agreement, span


def refuse_bounded(events: beam.PCollection) -> None:
    """Raise `InvalidInputError` for events that were bounded before: they have no units any more to bound them by."""
    if isinstance(events, SecretCollection):
        raise InvalidInputError(
            "these events were bounded before, and no longer say whose they are: none of them would be left. Bound the "
            "rows themselves, once"
        )


def sources_of(collection: beam.PCollection) -> list[str]:
    """Return the labels of the steps that the data of sketches came from, sorted: a function of the graph alone.

    Those are the steps without input, whatever was done with their output since: a branch that was filtered, or bounded
    in another way, holds some of the same data.

    Raises
    ------
    InvalidInputError
        If some of the data came late.
    """
    return sorted(set(_sources(collection, set())))


def _sources(collection: beam.PCollection, seen: set[Any]) -> Iterator[str]:
    if isinstance(collection, SecretCollection) and collection.late:
        raise InvalidInputError("late data must not be released: the window they belong to has been")
    producer = collection.producer
    if producer is None or producer in seen:
        return
    seen.add(producer)
    above = [given for given in producer.main_inputs.values() if isinstance(given, beam.PCollection)]
    if not above:
        yield f"{producer.full_label}\0{collection.tag or ''}"
    for given in above:
        yield from _sources(given, seen)
