"""Data ids: random identifiers by which copies, merges and releases of the same data are recognised.

Every `Sketch` and `SketchTable` gets an id when it is created. Copies, pickles and raw files inherit it, a merge has
the ids of its parts, and every release publishes a hash of each. So two releases "of disjoint populations" that share
data can be refused. An id comes from the operating system's CSPRNG before there are data, so it reveals nothing about
them.

The number of merged sketches may depend on the data, as with one sketch for each customer. So every release publishes
the same number of ids, `PUBLISHED`: those of its parts, padded with hashes of the id of the sketch that the others were
merged into. As the ids themselves stay secret, the two kinds cannot be distinguished; and as every release of a sketch
publishes the same ids, comparing releases does not help. A merge of more parts than `PUBLISHED` publishes nothing about
the other parts. The party's own sketches and raw files keep all ids. Its ledger enters their hashes, so it recognises
each part and each sum, whichever was charged first.

The ids that two releases share do reveal how many of up to `PUBLISHED` merged sketches are in both, if the releases are
of different sketches or if more was merged in between.
"""

import hashlib
import os
import struct
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from streamsketch.core.concealed import concealed
from streamsketch.data.canonical import canonical_bytes
from streamsketch.errors import InvalidInputError
from streamsketch.kernels.blake2b import digest_under_keys

ID_BYTES = 8
"""Length of a published id, in bytes."""

SECRET_BYTES = 16
"""Length of a secret id inside a sketch, in bytes; published ids are hashes of these."""

PUBLISHED = 16
"""Number of ids that a release of one sketch publishes."""

_PUBLISHED_PERSON = b"streamsketch.pub"
_NUMBERS = [b"", *(b"%d" % number for number in range(1, PUBLISHED))]  # of the ids of data without other parts
_PUBLISHED_IDS = struct.Struct(f"{ID_BYTES}s" * PUBLISHED)
_FEW = 32  # keys for which no kernel is compiled


@concealed
class DataIds(NamedTuple):
    """The secret ids of one sketch's data. They would reveal which published ids belong to parts, and how many."""

    own: bytes
    """The id of the sketch that others were merged into."""
    parts: frozenset[bytes]
    """The ids of all data in the sketch, ``own`` included."""
    related: frozenset[bytes] = frozenset()
    """Ids of the tables that these data are a key of, or of the keys of this table. Only a ledger uses them."""

    def merged(self, other: "DataIds") -> "DataIds":
        """Return the ids of this sketch after a merge of ``other`` into it."""
        if other.parts <= self.parts and other.related <= self.related:
            return self
        return DataIds(self.own, self.parts | other.parts, self.related | other.related)

    def of_key(self, key: object) -> "DataIds":
        """Return the ids of one key's data in a table; they differ from those of other keys."""
        suffix = canonical_bytes(key)
        own = _derived(self.own, suffix)
        others = (_derived(part, suffix) for part in self.parts if part != self.own)
        return DataIds(own, frozenset([own, *others]), self.parts | self.related)

    def with_keys(self, keys: Iterable[object]) -> "DataIds":
        """Return the ids of a table, related to those of its keys."""
        return self._replace(related=self.related.union(*(self.of_key(key).parts for key in keys)))

    def published(self) -> tuple[bytes, ...]:
        """Return `PUBLISHED` ids, ascending: whatever the number of parts, and the same in every release."""
        parts = self.parts if len(self.parts) <= PUBLISHED else {self.own}
        ids = {published_id(part, b"") for part in parts}
        number = 0
        while len(ids) < PUBLISHED:
            number += 1
            ids.add(published_id(self.own, b"%d" % number))
        return tuple(sorted(ids))

    def published_of_keys(self, keys: Iterable[object]) -> list[tuple[bytes, ...]]:
        """Return what `published` of each key's ids (`of_key`) returns: for many keys in less time."""
        keys = list(keys)
        if len(keys) < _FEW or len(self.parts) > 1:
            return [self.of_key(key).published() for key in keys]
        owns = b"".join(_derived(self.own, canonical_bytes(key)) for key in keys)
        words = np.frombuffer(owns, dtype="<u8").reshape(-1, 2).astype(np.uint64)
        ids = np.sort(digest_under_keys(words, _PUBLISHED_PERSON, _NUMBERS).byteswap(), axis=1)  # as bytes are sorted
        # two ids of a key are equal in one of 10^17, where `published` has another one and a release refuses them
        return list(_PUBLISHED_IDS.iter_unpack(ids.byteswap().astype("<u8").tobytes()))

    def entered(self) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
        """Return the ids that a ledger enters with data: `published`, and `further`."""
        return self.published(), self.further()

    def further(self) -> tuple[bytes, ...]:
        """Return ids of all parts, ascending, where `published` leaves some out; else none. For a ledger alone.

        They are padded to a power of 2, as `published` are: a ledger tells the number of parts to a factor of 2.
        """
        if len(self.parts) <= PUBLISHED:
            return ()
        ids, size, number = {published_id(part, b"") for part in self.parts}, 1 << (len(self.parts) - 1).bit_length(), 0
        while len(ids) < size:
            number += 1
            ids.add(published_id(self.own, b"further %d" % number))
        return tuple(sorted(ids))

    def recognised(self) -> frozenset[bytes]:
        """Return all ids under which these data or a part of them may be published: secret, as they count the parts."""
        return frozenset([*self.published(), *(published_id(part, b"") for part in self.parts | self.related)])


def new() -> DataIds:
    """Return new ids, for an empty sketch."""
    own = os.urandom(SECRET_BYTES)
    return DataIds(own, frozenset([own]))


def from_list(ids: Iterable[bytes]) -> DataIds:
    """Return the ids of a list with ``own`` first; raise `InvalidInputError` if one repeats or has a wrong length."""
    own, *others = _distinct(ids, SECRET_BYTES)
    return DataIds(own, frozenset([own, *others]))


def check(ids: Iterable[bytes]) -> list[bytes]:
    """Return published ids as a list.

    Raises
    ------
    InvalidInputError
        If there are none, one repeats, or one is not `ID_BYTES` bytes long.
    """
    return _distinct(ids, ID_BYTES)


def _distinct(ids: Iterable[bytes], length: int) -> list[bytes]:
    listed = list(ids)
    if not listed or len(set(listed)) < len(listed) or set(map(len, listed)) != {length}:
        raise InvalidInputError(f"data ids must be distinct, {length} bytes long, and at least one")
    return listed


def _derived(data_id: bytes, suffix: bytes) -> bytes:
    return hashlib.blake2b(suffix, key=data_id, digest_size=SECRET_BYTES, person=b"streamsketch.id").digest()


def published_id(data_id: bytes, number: bytes) -> bytes:
    """Return the id that is published for one of several data ids."""
    return hashlib.blake2b(number, key=data_id, digest_size=ID_BYTES, person=_PUBLISHED_PERSON).digest()
