"""Releases gathered in blocks, so that many are compared by one matrix product."""

import hashlib
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

import apache_beam as beam

from streamsketch.errors import InvalidInputError
from streamsketch.estimate import Estimates
from streamsketch.estimators import Block, block_of, check_comparable, distances_between
from streamsketch.release import PrivateSketch, check_disjoint, check_same_place

_SHARDS = 32


class KeyedBlock(NamedTuple):
    """Comparable releases of different keys, in the keys' order."""

    shard: int
    keys: list[Any]
    block: Block
    sample: PrivateSketch
    """One of them, for what all have in common."""
    release_ids: frozenset[bytes]


class ToBlocks(beam.PTransform):
    """Gather releases: ``KV[key, PrivateSketch] → KeyedBlock``, at most 32 of them."""

    def expand(self, releases: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        return (
            releases
            | "Assign blocks" >> beam.Map(lambda keyed: (shard_of(keyed[0]), keyed))
            | "Gather blocks" >> beam.GroupByKey()
            | "Order blocks" >> beam.MapTuple(_ordered)
        )


def gaps(rows: KeyedBlock, columns: KeyedBlock) -> Estimates:
    """Estimate squared distances between two blocks, or a block and itself: (n, m) arrays.

    Raises
    ------
    IncompatibleProjectionsError, DependentNoiseError, InvalidInputError
        As `streamsketch.pairwise`.
    """
    same = rows is columns
    if not same:
        rows.sample.projection.check_same(columns.sample.projection)
        check_same_place([rows.sample, columns.sample])
        check_disjoint([rows.release_ids, columns.release_ids])
    return distances_between(rows.block, columns.block, same=same)


def order(key: Any) -> tuple[str, Any]:
    """Return what keys of any types are sorted by."""
    return type(key).__name__, key


def shard_of(key: Any) -> int:
    """Return the block a key belongs to."""
    encoded = beam.coders.FastPrimitivesCoder().encode(key)
    return int.from_bytes(hashlib.blake2b(encoded, digest_size=4).digest(), "little") % _SHARDS


def _ordered(shard: int, members: Iterable[tuple[Any, PrivateSketch]]) -> KeyedBlock:
    ordered = sorted(members, key=lambda keyed: order(keyed[0]))
    for (key, sketch), (next_key, _) in pairwise([*ordered, (None, None)]):
        if not isinstance(sketch, PrivateSketch):
            raise TypeError(f"comparisons need PrivateSketch values, got a {type(sketch).__name__}; release first")
        if order(key) == order(next_key):
            raise InvalidInputError("a key appears twice among the sketches to compare; merge them first")
    releases = [release for _, release in ordered]
    check_comparable(releases)
    ids = frozenset().union(*(release.release_ids for release in releases))
    return KeyedBlock(shard, [key for key, _ in ordered], block_of(releases), releases[0], ids)
