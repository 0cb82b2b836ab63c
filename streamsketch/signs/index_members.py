"""What an index of published signs holds, put together of releases or of rows of codes."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streamsketch.agreement.same import check_same
from streamsketch.core.numbers import check_int
from streamsketch.errors import DependentNoiseError, InvalidInputError
from streamsketch.kernels.hashing import Words
from streamsketch.kernels.popcount import COLUMNS, in_blocks
from streamsketch.release.private_sketch import RELEASE_ID_BYTES
from streamsketch.signs.sign_gains import flipped_by
from streamsketch.signs.sketch import Signs

if TYPE_CHECKING:
    from streamsketch.core.libraries import pa

MOST_MEMBERS = 1 << 32


class Content(NamedTuple):
    """A collection that was checked."""

    first: Signs
    """The first member, as which all were published."""
    members: int
    blocks: Words
    """The codes, as `in_blocks` returns them."""
    ids: Words
    """The release ids as little-endian numbers, ascending."""
    keys: "pa.Array | None"
    """In the order of the codes."""


class Members:
    """What an index holds, while it is put together: releases one by one, or rows of codes.

    Parameters
    ----------
    rows
        How many are put in blocks at a time.
    """

    def __init__(self, rows: int = 1 << 12) -> None:
        self._most = rows
        self.first: Signs | None = None
        self.blocks, self.ids = bytearray(), bytearray()
        self._rows: list[Words] = []
        self._waiting = 0

    def add(self, release: Signs) -> None:
        """Add a release; raise unless it was published as the first one."""
        if self.first is None:
            self.first = release
        _check_alike(self.first, release)
        self._extend(release.words[None], release.release_id)

    def add_rows(self, like: Signs, words: Words, ids: bytes) -> None:
        """Add the codes of n releases that were published as ``like``, uint64, (n, ⌈k / 64⌉), and their n ids."""
        self.first = like if self.first is None else self.first
        _check_alike(self.first, like)
        self._extend(words, ids)

    def _extend(self, words: Words, ids: bytes) -> None:
        self.ids += ids
        self._rows.append(words)
        self._waiting += len(words)
        if self._waiting >= self._most:
            self._to_blocks(self._waiting // COLUMNS * COLUMNS)

    def _to_blocks(self, count: int) -> None:
        rows = np.concatenate(self._rows)
        self.blocks += in_blocks(rows[:count]).data.cast("B")
        self._rows, self._waiting = [rows[count:]], len(rows) - count

    def content(self, keys: "pa.Array | None") -> Content:
        """Return all that was added, with the keys of as many.

        Raises
        ------
        InvalidInputError
            If there are none, or more than 2^32.
        DependentNoiseError
            If one release is there twice.
        """
        if self.first is None:
            raise InvalidInputError("an index needs at least one release, got none")
        if self._waiting:
            self._to_blocks(self._waiting)
        count = check_int(len(self.ids) // RELEASE_ID_BYTES, "the number of members", 1, MOST_MEMBERS)
        ids, blocks = (np.frombuffer(part, dtype="<u8") for part in (self.ids, self.blocks))
        ids.sort()
        if (ids[1:] == ids[:-1]).any():
            raise DependentNoiseError("two of these are the same release; add each release to an index once")
        for array in (ids, blocks):
            array.flags.writeable = False
        return Content(self.first, count, blocks, ids, keys)


def _check_alike(first: Signs, release: Signs) -> None:
    """Raise unless two releases were published alike."""
    if not isinstance(release, Signs):
        raise TypeError(f"an index holds published signs, got a {type(release).__name__}; release first")
    if release.projection is not first.projection or release.agreement != first.agreement:
        check_same(first, release)
    if type(first) is not type(release) or flipped_by(first) != flipped_by(release):
        raise InvalidInputError(
            "all members of an index must be published by one law; make a separate index for each law"
        )
    if first.guarantee is not release.guarantee and first.guarantee != release.guarantee:
        raise InvalidInputError(
            f"members of an index are published with one guarantee, got {first.guarantee} and {release.guarantee}"
        )
