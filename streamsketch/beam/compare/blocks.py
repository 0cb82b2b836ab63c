"""Releases gathered in blocks, so that many are compared by one matrix product."""

import hashlib
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import apache_beam as beam

from streamsketch.agreement.same import check_same
from streamsketch.core.documents import TableKey
from streamsketch.data.columns import plain_key
from streamsketch.errors import InvalidInputError
from streamsketch.estimation.blocks import Block, block_of, check_comparable
from streamsketch.estimation.estimate_arrays import Estimates
from streamsketch.estimation.measures import By, compare_blocks
from streamsketch.release.private_sketch import PrivateSketch
from streamsketch.release.published import check_disjoint, check_same_place

Make: TypeAlias = Callable[[int, list[Any], list[Any]], Any]

_SHARDS = 32


class KeyedBlock(NamedTuple):
    """Comparable releases of different keys, in the keys' order."""

    shard: int
    keys: list[TableKey]
    block: Block
    sample: PrivateSketch
    """One of them, for what all have in common."""
    release_ids: frozenset[bytes]


class Gather(beam.PTransform):
    """Gather releases of different keys in at most 32 blocks: ``KV[key, release] → block``.

    Parameters
    ----------
    make
        A function of a shard, keys in their order and the releases of each, which returns a block of them.

    Raises
    ------
    InvalidInputError
        In the workers, if a key appears twice, or is not text, bytes or an integer.
    """

    def __init__(self, make: Make) -> None:
        super().__init__()
        self._make = make

    def expand(self, releases: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        make = self._make
        return (
            releases
            | "Check keys" >> beam.MapTuple(lambda key, release: (plain_key(key, "keys"), release))
            | "Assign blocks" >> beam.Map(lambda keyed: (shard_of(keyed[0]), keyed))
            | "Gather blocks" >> beam.GroupByKey()
            | "Order blocks" >> beam.MapTuple(lambda shard, members: _ordered(shard, members, make))
        )


def gaps(rows: KeyedBlock, columns: KeyedBlock, by: By) -> Estimates:
    """Compare two blocks, or a block and itself: (n, m) arrays.

    Raises
    ------
    IncompatibleProjectionsError, DependentNoiseError, InvalidInputError
        As in `streamsketch.pairwise`.
    """
    same = rows is columns
    if not same:
        check_same(rows.sample, columns.sample)
        check_same_place([rows.sample, columns.sample])
        check_disjoint([rows.release_ids, columns.release_ids])
    return compare_blocks(rows.block, columns.block, by, same=same)


def order(key: TableKey) -> tuple[str, Any]:
    """Return what keys of any types are sorted by."""
    return type(key).__name__, key


def shard_of(key: TableKey) -> int:
    """Return the block a key belongs to."""
    encoded = beam.coders.FastPrimitivesCoder().encode(key)
    return int.from_bytes(hashlib.blake2b(encoded, digest_size=4).digest(), "little") % _SHARDS


def keyed_block(shard: int, keys: list[TableKey], releases: list[PrivateSketch]) -> KeyedBlock:
    """Return a block of comparable private sketches."""
    others = sorted({type(release).__name__ for release in releases if not isinstance(release, PrivateSketch)})
    if others:
        raise TypeError(f"comparisons need PrivateSketch values, got a {' and a '.join(others)}; release first")
    check_comparable(releases)
    ids = frozenset().union(*(release.release_ids for release in releases))
    return KeyedBlock(shard, keys, block_of(releases), releases[0], ids)


def _ordered(shard: int, members: Iterable[tuple[Any, Any]], make: Make) -> Any:
    ordered = sorted(members, key=lambda keyed: order(keyed[0]))
    keys = [key for key, _ in ordered]
    if any(order(key) == order(following) for key, following in pairwise(keys)):
        raise InvalidInputError(
            "a key appears twice among the releases to compare; merge its sketches and release it once"
        )
    return make(shard, keys, [release for _, release in ordered])
