"""The nearest other releases of each release in a collection."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import apache_beam as beam
import numpy as np

from streamsketch.beam.compare.blocks import Gather, KeyedBlock, Make, gaps, keyed_block
from streamsketch.beam.compare.distances import blocks_of, key_kinds, references_of
from streamsketch.beam.compare.results import Form, check_form, check_kinds, key_column, table_of, taken
from streamsketch.beam.run.runner import refuse_broken_runner
from streamsketch.core.documents import TableKey
from streamsketch.core.numbers import check_int
from streamsketch.estimation.estimate_arrays import Estimates
from streamsketch.estimation.measures import MEASURES, By, check_by
from streamsketch.release.private_sketch import PrivateSketch


class Search(beam.PTransform):
    """Find each key's nearest others: what searches of every kind of release share.

    Parameters
    ----------
    top, references, results
        As in `NearestNeighbours`.
    make
        What makes a block, for `Gather`.
    find
        A function of a block, all blocks, ``top``, ``results``, the types of all keys and whether the block is one of
        the others, which yields what was found for the block's keys.
    options
        More arguments of that function.

    Raises
    ------
    InvalidInputError
        For top < 1, empty references or another form.
    """

    def __init__(
        self,
        top: int,
        references: Mapping[TableKey, Any] | beam.PCollection | None,
        results: Form,
        *,
        make: Make,
        find: Callable[..., Iterator[Any]],
        **options: Any,
    ) -> None:
        super().__init__()
        check_int(top, "top", 1)
        check_form(results)
        self._top, self._results, self._make, self._find = top, results, make, find
        self._options = options
        self._references = None if references is None else references_of(references)

    def expand(self, releases: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        refuse_broken_runner(releases.pipeline)
        blocks, own = releases | Gather(self._make), self._references is None
        if self._references is None:
            others = beam.pvalue.AsList(blocks)
        else:
            others = blocks_of(self._references, releases.pipeline, self._make)
        kinds = key_kinds(blocks, self._results)
        search = beam.FlatMap(self._find, others, self._top, self._results, kinds, own=own, **self._options)
        return blocks | "Spread blocks" >> beam.Reshuffle() | "Search blocks" >> search


class NearestNeighbours(Search):
    """Find each release's nearest others: ``KV[key, PrivateSketch] → KV[key, list[(key, Estimate)]]``.

    Neighbours are ranked by their estimates, by default of squared distance. So noise decides the order of neighbours
    whose intervals overlap, and the smallest of many estimates is biased downwards. Intervals allow for that: all
    intervals of one key together contain the true values in 95 % of cases.

    Parameters
    ----------
    top
        How many neighbours to find for each key, or all if there are fewer.
    references
        Where to look: a mapping from keys to `PrivateSketch` objects or a ``KV[key, PrivateSketch]`` collection. By
        default the collection itself, without the release in question.
    results
        ``"estimates"``: each key with its list, nearest first. ``"rows"`` and ``"columns"`` as in `PairwiseDistances`,
        with a ``rank`` from 1 and intervals from `Estimate.selected_interval`. Call it on estimates, too; the number of
        candidates is that of all references, or of all other keys. If the cells are too few, an interval has no finite
        end.
    by
        As in `PairwiseDistances`. The nearest have the smallest distances or the largest cosines. Keys below the noise
        floor, by cosine or profile, and keys of too few units, by mean, have no neighbours and are no key's neighbour.

    Raises
    ------
    InvalidInputError
        If top < 1, there are no references, or ``results`` or ``by`` is unknown; in the workers, as in
        `PairwiseDistances`.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from streamsketch import L1, SJLT
    >>> x, y = (SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7).sketch() for _ in range(2))
    >>> sketches = [(key, sketch.release(epsilon=1.0, neighbours=L1(1))) for key, sketch in (("x", x), ("y", y))]
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     nearest = pipeline | beam.Create(sketches) | NearestNeighbours(1)
    """

    def __init__(
        self,
        top: int,
        *,
        references: Mapping[TableKey, PrivateSketch] | beam.PCollection | None = None,
        results: Form = "estimates",
        by: By = "distance",
    ) -> None:
        check_by(by)
        super().__init__(top, references, results, make=keyed_block, find=_nearest, by=by)


def _nearest(
    block: KeyedBlock, others: list[KeyedBlock], top: int, form: Form, kinds: list[str] | None, *, own: bool, by: By
) -> Iterator[Any]:
    """Search all blocks for a block's keys, keeping the best so far."""
    check_kinds(kinds or [])
    best = _Best(len(block.keys), top, by)
    for other in sorted(others, key=lambda other: other.shard):  # so that ties fall alike on every runner
        if own and other.shard == block.shard:
            estimates = gaps(block, block, by)
            itself = np.eye(len(block.keys), dtype=bool)
        else:
            estimates = gaps(block, other, by)
            itself = np.zeros(estimates.value.shape, dtype=bool)
        best.add(other.keys, estimates, itself)
    yield from best.results(block.keys, form)


class _Best:
    """The nearest found so far for n keys: arrays (n, up to ``top``), nearest first."""

    def __init__(self, count: int, top: int, by: By) -> None:
        self._top = top
        self._by: By = by
        self._sign = MEASURES[by].sign
        self._keys: list[Any] = []
        self._candidates = 0  # of each key, itself left out
        nothing = np.empty((count, 0))
        self._places = np.empty((count, 0), dtype=np.intp)
        self._estimates = Estimates(nothing, nothing, nothing)

    def add(self, keys: list[TableKey], estimates: Estimates, excluded: np.ndarray[Any, np.dtype[np.bool_]]) -> None:
        rows = np.arange(len(excluded))[:, None]
        self._candidates += len(keys) - int(excluded.any())
        excluded = excluded | np.isnan(estimates.value)
        distances = np.where(excluded, np.inf, self._sign * estimates.value)
        closest = np.argpartition(distances, min(self._top, len(keys)) - 1, axis=1)[:, : self._top]
        places = np.where(excluded[rows, closest], -1, len(self._keys) + closest)
        self._keys += keys
        so_far = self._estimates
        places = np.concatenate([self._places, places], axis=1)
        parts = [part[rows, closest] for part in estimates.parts()]
        if self._places.shape[1]:
            before = so_far.parts()
            parts = [np.concatenate(pair, axis=1) for pair in zip(before, parts, strict=True)]
        best = np.lexsort((places, np.where(places < 0, np.inf, self._sign * parts[0])))[:, : self._top]
        self._places = places[rows, best]
        self._estimates = estimates.with_parts(*(part[rows, best] for part in parts))

    def results(self, keys: list[TableKey], form: Form) -> Iterator[Any]:
        filled = self._places >= 0
        if form == "estimates":
            for row, key in enumerate(keys):
                places = self._places[row, filled[row]].tolist()
                yield key, [(self._keys[place], self._estimates[row, at]) for at, place in enumerate(places)]
            return
        rows, columns = np.nonzero(filled)
        estimates = taken(self._estimates, rows, columns)
        table = table_of(
            key_column(keys).take(rows),
            key_column(self._keys).take(self._places[rows, columns]),
            estimates,
            self._by,
            ranks=columns + 1,
            candidates=max(self._candidates, 1),
        )
        if form == "rows":
            yield from table.to_pylist()
        elif table.num_rows:
            yield table
