"""Data ids: random names by which copies, merges and releases of the same data are recognised.

Every `Sketch` and `SketchTable` is born with one. Copies, pickles and raw files inherit it, a merge has those of its
parts, and every release publishes them, so that two releases made "for disjoint populations" from shared data can be
refused. An id is drawn from the operating system's CSPRNG before there are data, so it says nothing about them.

How many sketches were merged may depend on the data (one sketch a customer, say). So every release publishes the same
number of ids, `PUBLISHED`: those of its parts, filled up with fresh random ones. A merge of more parts than that
publishes the id of the sketch that the others were merged into; the party's own raw files keep the ids of all parts.
"""

import hashlib
import os
from collections.abc import Collection, Iterable
from typing import NamedTuple

from streamsketch.encoding import canonical_bytes
from streamsketch.errors import InvalidInputError

ID_BYTES = 8
PUBLISHED = 16
"""How many ids a release of one sketch publishes."""


class DataIds(NamedTuple):
    """The ids of one sketch's data: secret in number, until `published` has hidden that."""

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

    def published(self, spare: bytes) -> tuple[bytes, ...]:
        """Return `PUBLISHED` ids, ascending, filled up from ``spare``, `SPARE_BYTES` random bytes."""
        known = self.parts if len(self.parts) <= PUBLISHED else {self.own}
        fillers = (spare[at : at + ID_BYTES] for at in range(0, len(spare), ID_BYTES))
        ids = set(known)
        while len(ids) < PUBLISHED:
            ids.add(next(fillers))
        return tuple(sorted(ids))


SPARE_BYTES = (2 * PUBLISHED) * ID_BYTES  # twice what can be needed: two equal random ids are no fault


def new() -> DataIds:
    """Return the ids of data that have yet to come."""
    own = os.urandom(ID_BYTES)
    return DataIds(own, frozenset([own]))


def from_list(ids: Iterable[bytes]) -> DataIds:
    """Return ids that were listed, ``own`` first; raise `InvalidInputError` unless they are sound."""
    own, *others = check(ids)
    return DataIds(own, frozenset([own, *others]))


def check(ids: Iterable[bytes]) -> list[bytes]:
    """Return ids as a list; raise `InvalidInputError` unless they are distinct, of `ID_BYTES` bytes, at least one."""
    found = list(ids)
    if not found or len(set(found)) < len(found) or any(len(one) != ID_BYTES for one in found):
        raise InvalidInputError(f"data ids must be distinct, of {ID_BYTES} bytes, and at least one")
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
    return hashlib.blake2b(suffix, key=one, digest_size=ID_BYTES, person=b"streamsketch.id").digest()
