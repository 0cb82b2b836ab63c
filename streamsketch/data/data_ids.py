"""Data ids: random names by which copies, merges and releases of the same data are recognised.

Every `Sketch` and `SketchTable` is born with one. Copies, pickles and raw files inherit it, a merge has those of its
parts, and every release publishes a hash of each, so that two releases made "for disjoint populations" from shared data
can be refused. An id is drawn from the operating system's CSPRNG before there are data, so it says nothing about them.

How many sketches were merged may depend on the data (one sketch a customer, say). So every release publishes the same
number of ids, `PUBLISHED`: those of its parts, filled up with hashes of the id of the sketch that the others were
merged into. The ids themselves stay secret, so nobody can tell the two apart; and a second release of the same sketch
publishes the same ids, so what both have in common does not tell them apart either. A merge of more parts than
`PUBLISHED` publishes nothing of the other parts; the party's own raw files keep the ids of all.

What two releases have in common does tell how many of up to `PUBLISHED` merged sketches are in both, where they are of
different sketches, or more was merged in between.
"""

import hashlib
import os
from collections.abc import Collection, Iterable
from typing import NamedTuple

from streamsketch.data.keys import canonical_bytes
from streamsketch.errors import InvalidInputError

ID_BYTES = 8
"""Length of a published id."""

SECRET_BYTES = 16
"""Length of an id inside a sketch, of which the published ones are hashes."""

PUBLISHED = 16
"""How many ids a release of one sketch publishes."""


class DataIds(NamedTuple):
    """The ids of one sketch's data, secret: they would tell which of the published ones are of parts, and how many."""

    own: bytes
    """Of the sketch that others were merged into."""
    parts: frozenset[bytes]
    """Of all data in the sketch, ``own`` included."""

    def merged(self, other: "DataIds") -> "DataIds":
        """Return the ids of a sketch that another one was merged into."""
        return self if other.parts <= self.parts else DataIds(self.own, self.parts | other.parts)

    def of_key(self, key: object) -> "DataIds":
        """Return the ids of one key's data in a table: other keys of the table have others."""
        suffix = canonical_bytes(key)
        return DataIds(_derived(self.own, suffix), frozenset(_derived(one, suffix) for one in self.parts))

    def published(self) -> tuple[bytes, ...]:
        """Return `PUBLISHED` ids, ascending: as many for any number of parts, the same in every release."""
        known = self.parts if len(self.parts) <= PUBLISHED else {self.own}
        ids = {_published(one, b"") for one in known}
        number = 0
        while len(ids) < PUBLISHED:
            number += 1
            ids.add(_published(self.own, b"%d" % number))
        return tuple(sorted(ids))


def new() -> DataIds:
    """Return the ids of data that have yet to come."""
    own = os.urandom(SECRET_BYTES)
    return DataIds(own, frozenset([own]))


def from_list(ids: Iterable[bytes]) -> DataIds:
    """Return ids that were listed, ``own`` first; raise `InvalidInputError` unless they are sound."""
    own, *others = _distinct(ids, SECRET_BYTES)
    return DataIds(own, frozenset([own, *others]))


def check(ids: Iterable[bytes]) -> list[bytes]:
    """Return published ids as a list.

    Raises
    ------
    InvalidInputError
        Unless they are distinct, of `ID_BYTES` bytes, and at least one.
    """
    return _distinct(ids, ID_BYTES)


def _distinct(ids: Iterable[bytes], length: int) -> list[bytes]:
    found = list(ids)
    if not found or len(set(found)) < len(found) or any(len(one) != length for one in found):
        raise InvalidInputError(f"data ids must be distinct, of {length} bytes, and at least one")
    return found


def shared(several: Iterable[Collection[bytes]]) -> bool:
    """Return whether an id is in two of the given collections."""
    seen: set[bytes] = set()
    for ids in several:
        if not seen.isdisjoint(ids):
            return True
        seen.update(ids)
    return False


def _derived(one: bytes, suffix: bytes) -> bytes:
    return hashlib.blake2b(suffix, key=one, digest_size=SECRET_BYTES, person=b"streamsketch.id").digest()


def _published(one: bytes, number: bytes) -> bytes:
    return hashlib.blake2b(number, key=one, digest_size=ID_BYTES, person=b"streamsketch.pub").digest()
