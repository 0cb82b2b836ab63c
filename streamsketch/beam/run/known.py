"""The public facts about collections of secret data: their projection, their agreement and their bounds.

They are an attribute of the ``PCollection`` that a transform returns, so they are known while the pipeline is built.
Any other step loses them, because it may move events to other keys or windows, or duplicate them.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import apache_beam as beam

from streamsketch.agreement.agreement import Agreement
from streamsketch.data.windows import Tumbling
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.bounds import UNKNOWN, Bounds
from streamsketch.privacy.neighbours import Neighbours
from streamsketch.projections.base import Projection

_ATTRIBUTE = "_streamsketch_known"
_VERSIONS = "_streamsketch_versions"
_ONE_RELEASE = "releases"
_STEP = "passed a step that may move events to other keys or windows, or duplicate them"


class Span(NamedTuple):
    """The stretches of time to which bounds apply, to each by itself.

    Parameters
    ----------
    unit
        The privacy unit, without the stretch.
    stretches
        Their length and the start of one of them, in microseconds.
    max_windows
        The number of windows of a stretch that a unit may be in; None if each stretch is one window.
    """

    unit: str
    stretches: Tumbling
    max_windows: int | None = None


@dataclasses.dataclass(frozen=True)
class Known:
    """The public facts about bounded events or exact sketches.

    Parameters
    ----------
    projection
        The public map, if it is known.
    bounds
        The bounds that were enforced on them.
    neighbours
        The neighbour relation passed to the bounding transform; `bounds` has the same relation for one window or
        period.
    span
        The stretch of time to which the bounds apply; None if they apply to all time together, or if nothing was
        enforced.
    agreement
        The agreement that the rows were cast by, if any.
    late
        Whether the data arrived after their window was published. Late data are never published.
    """

    projection: Projection | None = None
    bounds: Bounds = UNKNOWN
    neighbours: Neighbours | None = None
    span: Span | None = None
    agreement: Agreement | None = None
    late: bool = False


def with_known(collection: beam.PCollection, facts: Any) -> beam.PCollection:
    """Note the public facts about a step's output, and return the output."""
    setattr(collection, _ATTRIBUTE, facts)
    return collection


def known_of(collection: beam.PCollection) -> Known:
    """Return the public facts about a collection.

    After a step that is not ours, the only fact is that the bounds of its input no longer hold.
    """
    facts = noted(collection)
    if isinstance(facts, Known):
        return facts
    for above in _above(collection, set()):
        before = noted(above)
        if isinstance(before, Known) and before.bounds.is_enforced:
            return Known(bounds=dataclasses.replace(before.bounds, ended=_STEP))
    return Known()


def noted(collection: Any) -> Any:
    """Return what `with_known` noted about a collection, or None."""
    return getattr(collection, _ATTRIBUTE, None)


def with_versions(collection: beam.PCollection, versioned: beam.PCollection) -> beam.PCollection:
    """Note the collection of the same releases with their versions, ``KV[key, (release, version)]``."""
    setattr(collection, _VERSIONS, versioned)
    return collection


def versions_of(collection: beam.PCollection) -> beam.PCollection | None:
    """Return what `with_versions` noted about a collection, or None."""
    return getattr(collection, _VERSIONS, None)


def as_one_release(releases: beam.PCollection) -> beam.PCollection:
    """Note that a collection is one release, whose guarantee covers all of it, and return it."""
    return with_known(releases, _ONE_RELEASE)


def is_one_release(releases: beam.PCollection) -> bool:
    """Return whether all that is in a collection comes from one release, whatever its steps since."""
    origins = _origins(releases)
    return len(origins) == 1 and all(noted(origin) is _ONE_RELEASE for origin in origins)


def refuse_bounded(events: beam.PCollection) -> None:
    """Raise `InvalidInputError` for events that were bounded before, because they no longer name their units."""
    if noted(events) is not None:
        raise InvalidInputError(
            "these events have already been bounded and no longer name their units; apply BoundContributions once, "
            "to the rows"
        )


def sources_of(collection: beam.PCollection) -> list[str]:
    """Return the sorted labels of the steps that the data of sketches came from, a function of the graph alone.

    These are the steps without input, whatever happened to their output later: a branch that was filtered, or bounded
    in another way, still holds some of the same data.

    Raises
    ------
    InvalidInputError
        If some of the data arrived late.
    """
    labels = set()
    for above in _above(collection, set()):
        facts, producer = noted(above), above.producer
        if isinstance(facts, Known) and facts.late:
            raise InvalidInputError(
                "late data must not be released, because their window has already been released; use them for "
                "monitoring only"
            )
        if producer is not None and not _inputs(producer):
            labels.add(f"{producer.full_label}\0{above.tag or ''}")
    return sorted(labels)


def _origins(collection: beam.PCollection) -> set[beam.PCollection]:
    """Return the releases that a collection was made from, and the collections without input."""
    inputs = [] if collection.producer is None else _inputs(collection.producer)
    if noted(collection) is _ONE_RELEASE or not inputs:
        return {collection}
    return {origin for parent in inputs for origin in _origins(parent)}


def _above(collection: beam.PCollection, seen: set[Any]) -> Iterator[beam.PCollection]:
    """Yield a collection, and all collections that it was made from."""
    yield collection
    if collection.producer is None or collection.producer in seen:
        return
    seen.add(collection.producer)
    for parent in _inputs(collection.producer):
        yield from _above(parent, seen)


def _inputs(producer: Any) -> list[beam.PCollection]:
    return [parent for parent in producer.main_inputs.values() if isinstance(parent, beam.PCollection)]
