"""The nearest other published signs of each key, by Hamming distance."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa

from streamsketch.agreement.same import check_same
from streamsketch.beam.compare.blocks import order
from streamsketch.beam.compare.nearest import Search
from streamsketch.beam.compare.results import Form, Places, check_kinds, key_column
from streamsketch.core.documents import TableKey
from streamsketch.kernels.hashing import Words
from streamsketch.release.published import check_disjoint
from streamsketch.signs.hamming import check_comparable, distances_between, words_of
from streamsketch.signs.sketch import SignSketch


class NearestSigns(Search):
    """Find each key's nearest others by Hamming distance: ``KV[key, SignSketch] → KV[key, list[(key, int)]]``.

    If all releases have one mechanism and norm, this is the order of the estimated angles. Ties go to the smaller key.
    The smallest of many noisy distances is biased downwards.

    Parameters
    ----------
    top
        How many neighbours to find for each key, or all if there are fewer.
    references
        Where to look: a mapping from keys to `SignSketch` objects or a ``KV[key, SignSketch]`` collection. By default
        the collection itself, without the key in question.
    results
        ``"estimates"``: each key with its list of (key, differing bits), nearest first. ``"rows"`` and ``"columns"``:
        dictionaries or Arrow tables of ``first``, ``second``, ``rank`` from 1 and ``hamming_distance``.

    Raises
    ------
    InvalidInputError
        If top < 1, there are no references, or ``results`` is unknown; in the workers, if a key appears twice, is not
        text, bytes or an integer, or the keys of a column have several types.
    TypeError, IncompatibleProjectionsError, DependentNoiseError
        In the workers, as in `streamsketch.signs.hamming_distance`.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from streamsketch import L1, SJLT, signs
    >>> publish = signs.DPSignLogistic(epsilon=1.0, neighbours=L1(1))
    >>> sketch = SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7).sketch()
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     rows = pipeline | beam.Create([(key, publish.release(sketch)) for key in ("x", "y")])
    ...     nearest = rows | NearestSigns(1)
    """

    def __init__(
        self,
        top: int,
        *,
        references: Mapping[TableKey, SignSketch] | beam.PCollection | None = None,
        results: Form = "estimates",
    ) -> None:
        super().__init__(top, references, results, make=_block, find=_nearest)


class _SignBlock(NamedTuple):
    """Published signs of different keys, in the keys' order."""

    shard: int
    keys: list[TableKey]
    words: Words
    sample: SignSketch
    """One of them, for what all have in common."""
    release_ids: frozenset[bytes]


def _block(shard: int, keys: list[TableKey], releases: list[SignSketch]) -> _SignBlock:
    others = sorted({type(release).__name__ for release in releases if not isinstance(release, SignSketch)})
    if others:
        raise TypeError(f"NearestSigns needs SignSketch values, got {', '.join(others)}")
    check_comparable(releases)
    ids = frozenset(release.release_id for release in releases)
    return _SignBlock(shard, keys, words_of(releases), releases[0], ids)


def _nearest(
    block: _SignBlock, others: list[_SignBlock], top: int, form: Form, kinds: list[str] | None, *, own: bool
) -> Iterator[Any]:
    """Search all blocks for a block's keys."""
    check_kinds(kinds or [])
    keys: list[TableKey] = []
    places = np.empty((len(block.keys), 0), dtype=np.intp)
    nearest = np.empty((len(block.keys), 0), dtype=np.int64)
    for other in sorted(others, key=lambda other: other.shard):
        check_same(block.sample, other.sample)
        distances = distances_between(block.words, other.words).astype(np.int64)
        if own and other.shard == block.shard:
            np.fill_diagonal(distances, -1)  # itself
        else:
            check_disjoint([block.release_ids, other.release_ids])
        nearest = np.concatenate([nearest, distances], axis=1)
        places = np.concatenate(
            [places, np.broadcast_to(len(keys) + np.arange(len(other.keys)), distances.shape)], axis=1
        )
        keys += other.keys
        nearest, places = _best(nearest, places, keys, top)
    yield from _in_form(block.keys, keys, nearest, places, form)


def _best(distances: Places, places: Places, keys: list[TableKey], top: int) -> tuple[Places, Places]:
    """Keep the ``top`` nearest of each row, ties by key; -1 marks an empty place, and goes last."""
    ranks = np.empty(len(keys), dtype=np.intp)
    ranks[sorted(range(len(keys)), key=lambda place: order(keys[place]))] = np.arange(len(keys))
    nothing = np.iinfo(np.int64).max
    best = np.lexsort((ranks[places], np.where(distances < 0, nothing, distances)))[:, :top]
    return np.take_along_axis(distances, best, axis=1), np.take_along_axis(places, best, axis=1)


def _in_form(own: list[Any], keys: list[TableKey], distances: Places, places: Places, form: Form) -> Iterator[Any]:
    if form == "estimates":
        for key, row, others in zip(own, distances.tolist(), places.tolist(), strict=True):
            yield key, [(keys[at], distance) for distance, at in zip(row, others, strict=True) if distance >= 0]
        return
    rows, columns = np.nonzero(distances >= 0)
    table = pa.table(
        {
            "first": key_column(own).take(pa.array(rows)),
            "second": key_column(keys).take(pa.array(places[rows, columns])),
            "rank": columns + 1,
            "hamming_distance": distances[rows, columns],
        }
    )
    if form == "rows":
        yield from table.to_pylist()
    elif table.num_rows:
        yield table
