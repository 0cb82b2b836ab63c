"""Squared distances or cosines between the releases of a collection, and to those of another."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import apache_beam as beam
import numpy as np

from streamsketch.beam.compare.blocks import Gather, KeyedBlock, Make, gaps, keyed_block, order
from streamsketch.beam.compare.results import Form, check_form, check_kinds, in_form, kinds_of, taken
from streamsketch.beam.run.runner import refuse_broken_runner
from streamsketch.core.documents import TableKey
from streamsketch.data.columns import plain_key
from streamsketch.errors import InvalidInputError
from streamsketch.estimation.measures import By, check_by
from streamsketch.release.private_sketch import PrivateSketch

References: TypeAlias = list[tuple[Any, Any]] | beam.PCollection


class PairwiseDistances(beam.PTransform):
    """Estimate all squared distances: ``KV[key, PrivateSketch] → KV[(key, key), Estimate]``.

    Each unordered pair of keys appears once, the smaller key first (keys of different types in order of their type
    names). Keys are text, bytes or integers, each once. The work is one matrix product for each pair of 32 blocks. All
    releases pass through every worker as a side input, with 8 bytes per cell.

    Parameters
    ----------
    results
        ``"estimates"``: pairs of keys with an `Estimate`. ``"rows"``: dictionaries of the two keys, the estimate, its
        standard error and 95 % interval, for sinks that take rows. ``"columns"``: the same as Arrow tables of
        `comparison_schema`, the form for many keys, as ``WriteToParquetBatched`` takes them. In rows and columns, the
        keys of a column are of one type, integers of 64 bits.
    by
        As in `streamsketch.pairwise`. What is NaN there is null in rows and columns, such as cosines of a stream below
        the noise floor.

    Raises
    ------
    InvalidInputError
        If ``results`` or ``by`` is unknown; in the workers, if a key has another type or appears twice, and as in
        `streamsketch.pairwise`.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from streamsketch import L1, SJLT
    >>> x, y = (SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7).sketch() for _ in range(2))
    >>> sketches = [(key, sketch.release(epsilon=1.0, neighbours=L1(1))) for key, sketch in (("x", x), ("y", y))]
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     distances = pipeline | beam.Create(sketches) | PairwiseDistances()
    """

    def __init__(self, *, results: Form = "estimates", by: By = "distance") -> None:
        super().__init__()
        check_form(results)
        check_by(by)
        self._results: Form = results
        self._by: By = by

    def expand(self, releases: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        refuse_broken_runner(releases.pipeline)
        blocks = releases | Gather(keyed_block)
        return (
            blocks
            | "Spread blocks" >> beam.Reshuffle()
            | "Compare blocks" >> beam.FlatMap(_pairs, beam.pvalue.AsList(blocks), self._results, self._by)
        )


class DistancesTo(beam.PTransform):
    """Estimate squared distances to a fixed set: ``KV[key, PrivateSketch] → KV[(key, reference key), Estimate]``.

    Parameters
    ----------
    references
        The references: a mapping from keys to `PrivateSketch` objects, or a ``KV[key, PrivateSketch]`` collection.
    results, by
        As in `PairwiseDistances`; ``first`` is the collection's key, ``second`` the reference's.

    Raises
    ------
    InvalidInputError
        If there are no references, a reference's key has another type, or ``results`` or ``by`` is unknown; in the
        workers, as in `PairwiseDistances`.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from streamsketch import L1, SJLT
    >>> x, y = (SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7).sketch() for _ in range(2))
    >>> known = {"y": y.release(epsilon=1.0, neighbours=L1(1))}
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     new = pipeline | beam.Create([("x", x.release(epsilon=1.0, neighbours=L1(1)))])
    ...     distances = new | DistancesTo(known)
    """

    def __init__(
        self,
        references: Mapping[TableKey, PrivateSketch] | beam.PCollection,
        *,
        results: Form = "estimates",
        by: By = "distance",
    ) -> None:
        super().__init__()
        check_form(results)
        check_by(by)
        self._references = references_of(references)
        self._results: Form = results
        self._by: By = by

    def expand(self, releases: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        refuse_broken_runner(releases.pipeline)
        blocks = releases | Gather(keyed_block)
        references = blocks_of(self._references, releases.pipeline, keyed_block)
        return (
            blocks
            | "Spread blocks" >> beam.Reshuffle()
            | "Compare blocks"
            >> beam.FlatMap(_all, references, self._results, key_kinds(blocks, self._results), by=self._by)
        )


def references_of(references: Any) -> References:
    """Return references as a collection or a list; raise `InvalidInputError` if there are none."""
    if isinstance(references, beam.PCollection):
        return references
    if not isinstance(references, Mapping) or not references:
        raise InvalidInputError(
            "references must be a mapping from keys to releases with at least one entry, or a PCollection of such "
            f"pairs, got {'none' if isinstance(references, Mapping) else type(references).__name__}"
        )
    return [(plain_key(key, "keys of references"), release) for key, release in references.items()]


def blocks_of(references: References, pipeline: beam.Pipeline, make: Make) -> Any:
    """Return references as blocks, as a side input."""
    if isinstance(references, list):
        references = pipeline | "References" >> beam.Create(references)
    return beam.pvalue.AsList(references | "Reference blocks" >> Gather(make))


def key_kinds(blocks: beam.PCollection, form: Form) -> beam.pvalue.AsList | None:
    """Return the types of all keys as a side input, if they are to make a column: a worker sees some of them."""
    if form == "estimates":
        return None
    return beam.pvalue.AsList(blocks | "Types of keys" >> beam.FlatMap(lambda block: kinds_of(block.keys)))


def _pairs(block: KeyedBlock, blocks: list[KeyedBlock], form: Form, by: By) -> Iterator[Any]:
    """Compare a block with itself and with those after it."""
    for other in sorted(blocks, key=lambda other: other.shard):
        if other.shard > block.shard:
            yield from _compared(block, other, form, by, sort=True)
    rows, columns = np.triu_indices(len(block.keys), 1)
    estimates = taken(gaps(block, block, by), rows, columns)
    yield from in_form((block.keys, block.keys), rows, columns, estimates, form, by)


def _all(
    block: KeyedBlock, references: list[KeyedBlock], form: Form, kinds: list[str] | None, *, by: By
) -> Iterator[Any]:
    if kinds is not None:
        check_kinds(kinds)
        check_kinds(kind for other in references for kind in kinds_of(other.keys))
    for other in sorted(references, key=lambda other: other.shard):
        yield from _compared(block, other, form, by, sort=False)


def _compared(block: KeyedBlock, other: KeyedBlock, form: Form, by: By, *, sort: bool) -> Iterator[Any]:
    """Compare all of a block with all of another; ``sort`` puts the smaller key of a pair first."""
    rows, columns = (places.ravel() for places in np.indices((len(block.keys), len(other.keys))))
    estimates = taken(gaps(block, other, by), rows, columns)
    if not sort:
        yield from in_form((block.keys, other.keys), rows, columns, estimates, form, by)
        return
    keys = [*block.keys, *other.keys]
    ranks = np.empty(len(keys), dtype=np.intp)
    ranks[sorted(range(len(keys)), key=lambda place: order(keys[place]))] = np.arange(len(keys))
    first, second = rows, columns + len(block.keys)
    swapped = ranks[first] > ranks[second]
    first, second = np.where(swapped, second, first), np.where(swapped, first, second)
    yield from in_form((keys, keys), first, second, estimates, form, by)
