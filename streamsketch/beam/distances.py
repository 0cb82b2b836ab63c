"""All squared distances between the sketches of a collection."""

import hashlib
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, TypeAlias

import apache_beam as beam

from streamsketch.errors import InvalidInputError
from streamsketch.estimate import Estimate
from streamsketch.estimators import Block, block_of, check_comparable, distances_between
from streamsketch.release import PrivateSketch

_SHARDS = 32

KeyedBlock: TypeAlias = tuple[int, list[Any], list[Any]]


class PairwiseDistances(beam.PTransform):
    """Estimate all squared distances: ``KV[key, PrivateSketch] → KV[(key, key), Estimate]``.

    Each unordered pair of keys appears once, the smaller key first (keys of different types in order of their type
    names). Keys are text, bytes or integers, each once. The work is one matrix product for each two of 32 blocks; all
    sketches pass through every worker as a side input, 8 bytes a cell.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from streamsketch import L1, SJLT
    >>> x, y = (SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=7).sketch() for _ in range(2))
    >>> sketches = [(key, sketch.release(epsilon=1.0, neighbours=L1(1))) for key, sketch in (("x", x), ("y", y))]
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     distances = pipeline | beam.Create(sketches) | PairwiseDistances()
    """

    def expand(self, sketches: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        blocks = (
            sketches
            | "Assign blocks" >> beam.Map(lambda keyed: (_shard(keyed[0]), keyed))
            | "Gather blocks" >> beam.GroupByKey()
            | "Order blocks" >> beam.MapTuple(_ordered)
        )
        return (
            blocks
            | "Spread blocks" >> beam.Reshuffle()
            | "Compare blocks" >> beam.FlatMap(_compare, beam.pvalue.AsList(blocks))
        )


def _shard(key: Any) -> int:
    encoded = beam.coders.FastPrimitivesCoder().encode(key)
    return int.from_bytes(hashlib.blake2b(encoded, digest_size=4).digest(), "little") % _SHARDS


def _ordered(shard: int, members: Iterable[tuple[Any, PrivateSketch]]) -> KeyedBlock:
    ordered = sorted(members, key=lambda keyed: _order(keyed[0]))
    for (key, sketch), (next_key, _) in pairwise([*ordered, (None, None)]):
        if not isinstance(sketch, PrivateSketch):
            raise TypeError(
                f"PairwiseDistances needs PrivateSketch values, got a {type(sketch).__name__}; release first"
            )
        if _order(key) == _order(next_key):
            raise InvalidInputError("a key appears twice among the sketches to compare; merge them first")
    return shard, [key for key, _ in ordered], [sketch for _, sketch in ordered]


def _order(key: Any) -> tuple[str, Any]:
    return type(key).__name__, key


def _compare(block: KeyedBlock, blocks: list[KeyedBlock]) -> Iterator[tuple[tuple[Any, Any], Estimate]]:
    """Compare a block with itself and with those after it."""
    shard, keys, sketches = block
    check_comparable(sketches)
    mine = block_of(sketches)
    for other_shard, other_keys, other_sketches in blocks:
        if other_shard < shard:
            continue
        same = other_shard == shard
        if not same:
            check_comparable([*sketches, *other_sketches])
        theirs = mine if same else block_of(other_sketches)
        yield from _pairs((keys, mine), (other_keys, theirs), same=same)


def _pairs(
    rows: tuple[list[Any], Block], columns: tuple[list[Any], Block], *, same: bool
) -> Iterator[tuple[tuple[Any, Any], Estimate]]:
    estimates = distances_between(rows[1], columns[1], same=same)
    for i, first in enumerate(rows[0]):
        for j, second in enumerate(columns[0]):
            if same and j <= i:
                continue
            pair = (first, second) if _order(first) <= _order(second) else (second, first)
            yield pair, estimates[i, j]
