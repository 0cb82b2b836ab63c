"""What is known of the data that reach a release: which bounds were enforced, and that nothing undid them since."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import apache_beam as beam

from streamsketch.beam.bounding import BoundContributions
from streamsketch.beam.sketching import SketchPerKey
from streamsketch.errors import InvalidInputError
from streamsketch.privacy import L1
from streamsketch.projections import Projection


class AppliedBounds(NamedTuple):
    """A `BoundContributions` in a pipeline, and the neighbour relation that holds for what it returned."""

    transform: BoundContributions
    neighbours: L1


def bounds_of(collection: beam.PCollection) -> AppliedBounds | None:
    """Return the `BoundContributions` that a collection came from, directly or through `SketchPerKey`, else None.

    Any other step in between may move events to other keys or windows, or double them, and the bounds would not hold.

    Raises
    ------
    InvalidInputError
        For what came late.
    """
    applied = _outermost(collection, (BoundContributions, SketchPerKey))
    if applied is None:
        return None
    refuse_late(collection)
    (events,) = applied.main_inputs.values()
    if isinstance(applied.transform, SketchPerKey):
        return bounds_of(events)
    return AppliedBounds(applied.transform, applied.transform.neighbours(events))


def bounds_above(collection: beam.PCollection) -> bool:
    """Return whether some of a collection's data came through a `BoundContributions`, whatever was done since.

    Raises
    ------
    InvalidInputError
        If some of it came late.
    """
    return any(_bounds_above(collection, set()))


def projection_of(collection: beam.PCollection) -> Projection | None:
    """Return the projection of what comes straight from `SketchPerKey` or `BoundContributions`, else None."""
    applied = _outermost(collection, (BoundContributions, SketchPerKey))
    return None if applied is None else applied.transform.projection


def sources_of(collection: beam.PCollection) -> list[str]:
    """Return the labels of the steps that the data of sketches came from, sorted: a function of the graph alone.

    Those are the steps without input, whatever was done with their output since: a branch that was filtered, or bounded
    in another way, holds some of the same data.
    """
    return sorted(set(_sources(collection, set())))


def refuse_late(collection: beam.PCollection) -> None:
    """Raise `InvalidInputError` for an output of late data."""
    enclosing = collection.producer
    while enclosing is not None:
        if collection.tag is not None and getattr(enclosing.transform, "late_tag", None) == collection.tag:
            raise InvalidInputError("late data must not be released: the window they belong to has been")
        enclosing = enclosing.parent


def _outermost(collection: beam.PCollection, kinds: tuple[type, ...]) -> Any:
    """Return the applied transform of one of these kinds that a collection is the output of."""
    enclosing = collection.producer
    while enclosing is not None:
        if isinstance(enclosing.transform, kinds) and collection in enclosing.outputs.values():
            return enclosing
        enclosing = enclosing.parent
    return None


def _bounds_above(collection: beam.PCollection, seen: set[Any]) -> Iterator[bool]:
    refuse_late(collection)
    producer = enclosing = collection.producer
    while enclosing is not None:  # the steps inside a BoundContributions have it as a parent
        if isinstance(enclosing.transform, BoundContributions):
            yield True
            return
        enclosing = enclosing.parent
    if producer is None or producer in seen:
        return
    seen.add(producer)
    for given in producer.main_inputs.values():
        if isinstance(given, beam.PCollection):
            yield from _bounds_above(given, seen)


def _sources(collection: beam.PCollection, seen: set[Any]) -> Iterator[str]:
    producer = collection.producer
    if producer is None or producer in seen:
        return
    seen.add(producer)
    above = [given for given in producer.main_inputs.values() if isinstance(given, beam.PCollection)]
    if not above:
        yield _name(collection)
    for given in above:
        yield from _sources(given, seen)


def _name(collection: beam.PCollection) -> str:
    """Return a name for a collection that is its own in its pipeline."""
    label = "" if collection.producer is None else collection.producer.full_label
    return f"{label}\0{collection.tag or ''}"
