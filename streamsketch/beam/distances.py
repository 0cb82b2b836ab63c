"""Squared distances between the releases of a collection, and to those of another."""

from collections.abc import Iterator, Mapping
from typing import Any

import apache_beam as beam
import numpy as np

from streamsketch.beam.blocks import KeyedBlock, ToBlocks, gaps, order
from streamsketch.beam.results import Form, check_form, in_form, taken
from streamsketch.beam.runners import refuse_broken_runner
from streamsketch.errors import InvalidInputError
from streamsketch.release import PrivateSketch


class PairwiseDistances(beam.PTransform):
    """Estimate all squared distances: ``KV[key, PrivateSketch] → KV[(key, key), Estimate]``.

    Each unordered pair of keys appears once, the smaller key first (keys of different types in order of their type
    names). Keys are text, bytes or integers, each once. The work is one matrix product for each two of 32 blocks; all
    releases pass through every worker as a side input, 8 bytes a cell.

    Parameters
    ----------
    results
        ``"estimates"``: pairs of keys with an `Estimate`. ``"rows"``: dictionaries of the two keys, the estimate, its
        standard error and 95 % interval, for sinks that take rows. ``"columns"``: the same as Arrow tables of
        `comparison_schema`, the form for many keys, as ``WriteToParquetBatched`` takes them.

    Raises
    ------
    InvalidInputError
        For another form; in the workers for a key that appears twice, and as `streamsketch.pairwise`.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from streamsketch import L1, SJLT
    >>> x, y = (SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7).sketch() for _ in range(2))
    >>> sketches = [(key, sketch.release(epsilon=1.0, neighbours=L1(1))) for key, sketch in (("x", x), ("y", y))]
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     distances = pipeline | beam.Create(sketches) | PairwiseDistances()
    """

    def __init__(self, *, results: Form = "estimates") -> None:
        super().__init__()
        check_form(results)
        self._results = results

    def expand(self, releases: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        refuse_broken_runner(releases.pipeline)
        blocks = releases | ToBlocks()
        return (
            blocks
            | "Spread blocks" >> beam.Reshuffle()
            | "Compare blocks" >> beam.FlatMap(_pairs, beam.pvalue.AsList(blocks), self._results)
        )


class DistancesTo(beam.PTransform):
    """Estimate squared distances to a fixed set: ``KV[key, PrivateSketch] → KV[(key, reference key), Estimate]``.

    Parameters
    ----------
    references
        What to compare with: a mapping from keys to `PrivateSketch` objects or a ``KV[key, PrivateSketch]`` collection.
    results
        As in `PairwiseDistances`; ``first`` is the collection's key, ``second`` the reference's.

    Raises
    ------
    InvalidInputError
        For no references or another form; in the workers as `PairwiseDistances`.

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
        self, references: Mapping[Any, PrivateSketch] | beam.PCollection, *, results: Form = "estimates"
    ) -> None:
        super().__init__()
        check_form(results)
        self._references = references_of(references)
        self._results = results

    def expand(self, releases: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        refuse_broken_runner(releases.pipeline)
        return (
            releases
            | ToBlocks()
            | "Spread blocks" >> beam.Reshuffle()
            | "Compare blocks" >> beam.FlatMap(_all, blocks_of(self._references, releases.pipeline), self._results)
        )


def references_of(references: Any) -> list[tuple[Any, PrivateSketch]] | beam.PCollection:
    """Return references as a collection or a list; raise `InvalidInputError` if there are none."""
    if isinstance(references, beam.PCollection):
        return references
    if not isinstance(references, Mapping) or not references:
        raise InvalidInputError(
            "references must be a mapping from keys to PrivateSketch objects with at least one of them, or a "
            f"collection of such pairs, got {'none' if isinstance(references, Mapping) else type(references).__name__}"
        )
    return list(references.items())


def blocks_of(references: list[tuple[Any, PrivateSketch]] | beam.PCollection, pipeline: beam.Pipeline) -> Any:
    """Return references as blocks, as a side input."""
    if isinstance(references, list):
        references = pipeline | "References" >> beam.Create(references)
    return beam.pvalue.AsList(references | "Reference blocks" >> ToBlocks())


def _pairs(block: KeyedBlock, blocks: list[KeyedBlock], form: Form) -> Iterator[Any]:
    """Compare a block with itself and with those after it."""
    for other in blocks:
        if other.shard > block.shard:
            yield from _compared(block, other, form, sort=True)
    rows, columns = np.triu_indices(len(block.keys), 1)
    yield from in_form(block.keys, rows, columns, taken(gaps(block, block), rows, columns), form)


def _all(block: KeyedBlock, references: list[KeyedBlock], form: Form) -> Iterator[Any]:
    for other in references:
        yield from _compared(block, other, form, sort=False)


def _compared(block: KeyedBlock, other: KeyedBlock, form: Form, *, sort: bool) -> Iterator[Any]:
    """Compare all of a block with all of another; ``sort`` puts the smaller key of a pair first."""
    rows, columns = (places.ravel() for places in np.indices((len(block.keys), len(other.keys))))
    estimates = taken(gaps(block, other), rows, columns)
    keys = [*block.keys, *other.keys]
    first, second = rows, columns + len(block.keys)
    if sort:
        ranks = np.empty(len(keys), dtype=np.intp)
        ranks[sorted(range(len(keys)), key=lambda place: order(keys[place]))] = np.arange(len(keys))
        swapped = ranks[first] > ranks[second]
        first, second = np.where(swapped, second, first), np.where(swapped, first, second)
    yield from in_form(keys, first, second, estimates, form)
