"""What is public about collections of secret data: their projection, agreement, and the bounds that hold for them.

It is an attribute of the ``PCollection`` that a transform returns, so it is known while the pipeline is built, and any
other step loses it: that step may move events to other keys or windows, or double them.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import apache_beam as beam

from streamsketch.agreement import Agreement
from streamsketch.errors import InvalidInputError
from streamsketch.intake import Tumbling
from streamsketch.privacy import UNKNOWN, Bounds, Neighbours
from streamsketch.projections import Projection

_ATTRIBUTE = "_streamsketch_known"
_STEP = "passed a step that may move events to other keys or windows, or double them"


class Span(NamedTuple):
    """The stretch of time that bounds are for, each stretch by itself.

    Parameters
    ----------
    unit
        The privacy unit, without the stretch.
    stretches
        In microseconds.
    max_windows
        In how many windows of a stretch a unit may be; None where each stretch is one window.
    """

    unit: str
    stretches: Tumbling
    max_windows: int | None = None


@dataclasses.dataclass(frozen=True)
class Known:
    """What is known of bounded events or of exact sketches.

    Parameters
    ----------
    projection
        The public map, if it is known.
    bounds
        What was enforced on them.
    given
        The relation that the bounding transform was given: `bounds` has it for one window or period.
    span
        What stretch of time the bounds are for; None if for all time together, or if nothing was enforced.
    agreement
        The agreement that the rows were cast by, if any.
    late
        Whether they are data that came after their window was published, which never are.
    """

    projection: Projection | None = None
    bounds: Bounds = UNKNOWN
    given: Neighbours | None = None
    span: Span | None = None
    agreement: Agreement | None = None
    late: bool = False


def with_known(collection: beam.PCollection, known: Any) -> beam.PCollection:
    """Note what is known of a step's output, and return it."""
    setattr(collection, _ATTRIBUTE, known)
    return collection


def known_of(collection: beam.PCollection) -> Known:
    """Return what is known of a collection: after a step of your own, that bounds of its inputs no longer hold."""
    known = noted(collection)
    if isinstance(known, Known):
        return known
    for above in _above(collection, set()):
        before = noted(above)
        if isinstance(before, Known) and before.bounds.is_enforced:
            return Known(bounds=dataclasses.replace(before.bounds, ended=_STEP))
    return Known()


def noted(collection: Any) -> Any:
    """Return what `with_known` noted of a collection, or None."""
    return getattr(collection, _ATTRIBUTE, None)


def refuse_bounded(events: beam.PCollection) -> None:
    """Raise `InvalidInputError` for events that were bounded before: they have no units any more to bound them by."""
    if noted(events) is not None:
        raise InvalidInputError(
            "these events have already been bounded and no longer name their units; apply BoundContributions once, "
            "to the rows"
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
    found = set()
    for above in _above(collection, set()):
        known, producer = noted(above), above.producer
        if isinstance(known, Known) and known.late:
            raise InvalidInputError(
                "late data must not be released, because their window has already been released; use them for "
                "monitoring only"
            )
        if producer is not None and not _inputs(producer):
            found.add(f"{producer.full_label}\0{above.tag or ''}")
    return sorted(found)


def _above(collection: beam.PCollection, seen: set[Any]) -> Iterator[beam.PCollection]:
    """Yield a collection and those that it was made of; of a step's outputs one alone."""
    yield collection
    if collection.producer is None or collection.producer in seen:
        return
    seen.add(collection.producer)
    for given in _inputs(collection.producer):
        yield from _above(given, seen)


def _inputs(producer: Any) -> list[beam.PCollection]:
    return [given for given in producer.main_inputs.values() if isinstance(given, beam.PCollection)]
