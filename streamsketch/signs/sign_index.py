"""SignIndex: a published collection as one matrix of codes, to find its nearest members."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

import numpy as np

from streamsketch.agreement import check_same
from streamsketch.core import Floats, check_int, current_limits, write_whole
from streamsketch.errors import DependentNoiseError, InvalidInputError, WireFormatError
from streamsketch.kernels import COLUMNS, Words, in_blocks
from streamsketch.release import RELEASE_ID_BYTES, Encoded
from streamsketch.signs.angles import angle_at, flipped_by, product_curve
from streamsketch.signs.flip_check import warn_of_flips
from streamsketch.signs.hamming import Nearest, nearest_in, words_of
from streamsketch.signs.sketch import Signs

_MAGIC = b"SSsigns\x01"
_NUMBER_BYTES = 8
_PAGE = 4096
_MOST_MEMBERS = 1 << 32
_ROWS = 1 << 12  # put in blocks at a time, a multiple of 16
_WORD_BITS = 64


class Angles(NamedTuple):
    """Angles to the members found, in radians: float64, (n, top) each."""

    value: Floats
    """Estimates, as `angle` makes them."""
    low: Floats
    """Lower ends of their intervals."""
    high: Floats
    """Upper ends."""


class SignIndex:
    """A published collection, as one matrix of codes that is checked once, to find its nearest members. Immutable.

    It holds ⌈k / 64⌉ words and 8 bytes a member, in memory or mapped from a file, and no objects. All members were
    published alike: by one projection, law and guarantee. It has no keys: members are known by their positions.

    Parameters
    ----------
    releases
        At least one, all different: a `SignTable`, in the order of its keys, or any iterable, which is read once.

    Raises
    ------
    TypeError
        If one holds no published signs.
    InvalidInputError
        If there are none, more than 2^32, or they were not published alike.
    IncompatibleProjectionsError, DependentNoiseError
        As `hamming_distance`.

    Examples
    --------
    >>> import streamsketch as ss
    >>> publish = ss.signs.DPSignOPORPRR(epsilon=4, neighbours=ss.OneCoordinate(1))
    >>> people = np.eye(5, 64, dtype=int) * 1000 + 10
    >>> projection = ss.projections.OPORP(dim=64, sketch_dim=64, seed=1)
    >>> index = SignIndex(publish.release_rows(projection, people))
    >>> queries = publish.release_rows(projection, people[:2])
    >>> found = index.nearest(queries, 3)
    >>> found.places.shape, index.angles(queries, found).low.shape
    ((2, 3), (2, 3))
    """

    __slots__ = ("_blocks", "_count", "_first", "_ids")

    def __init__(self, releases: Iterable[Signs] | Mapping[Any, Signs]) -> None:
        each = releases.values() if isinstance(releases, Mapping) else releases
        first: Signs | None = None
        blocks, ids, waiting = bytearray(), bytearray(), []
        for release in each:
            first = release if first is None else first
            _check_alike(first, release)
            ids += release.release_id
            waiting.append(release.words)
            if len(waiting) == _ROWS:
                blocks += in_blocks(np.stack(waiting)).data.cast("B")
                waiting = []
        if first is None:
            raise InvalidInputError("an index holds at least one release, got none")
        if waiting:
            blocks += in_blocks(np.stack(waiting)).data.cast("B")
        self._count = check_int(len(ids) // RELEASE_ID_BYTES, "the number of members", 1, _MOST_MEMBERS)
        sorted_ids = np.frombuffer(ids, dtype="<u8")
        sorted_ids.sort()
        if (sorted_ids[1:] == sorted_ids[:-1]).any():
            raise DependentNoiseError("two of these are one release: each has one place in an index")
        self._first, self._ids, self._blocks = first, sorted_ids, np.frombuffer(blocks, dtype="<u8")
        for array in (self._ids, self._blocks):
            array.flags.writeable = False

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"<SignIndex of {self._count:,} releases, {self._first.projection!r}, {self._first.guarantee}>"

    def nearest(self, queries: Sequence[Signs], top: int) -> Nearest:
        """Find the nearest members for each query, by Hamming distance; ties go to the member that comes first.

        Parameters
        ----------
        queries
            n releases of the members' projection, none of them a member.
        top
            1 to the number of members.

        Returns
        -------
        Nearest
            Positions in the collection, and Hamming distances in bits.

        Raises
        ------
        InvalidInputError
            For top out of range, or no queries.
        TypeError, IncompatibleProjectionsError, DependentNoiseError
            As `hamming_distance`.
        """
        check_int(top, "top", 1, self._count)
        rows = self._words_of(queries)
        return nearest_in(rows, self._blocks, self._count, top)

    def angles(
        self,
        queries: Sequence[Signs],
        found: Nearest,
        *,
        norm_queries: float | None = None,
        norm_members: float | None = None,
        confidence: float = 0.95,
        selected: bool = True,
    ) -> Angles:
        """Estimate the angles to the members that `nearest` found, with intervals.

        Parameters
        ----------
        queries, found
            As `nearest` took and returned them.
        norm_queries, norm_members
            ‖x‖₂ of all queries and of all members in data units, as in `angle`, where flips depend on the cells.
        confidence
            In (0, 1).
        selected
            Whether intervals hold for all members together, and so for those found, whichever they are
            (`Estimate.selected_interval`). Otherwise each is that of a pair named beforehand, and too low for the
            nearest of many. The estimates are those of `angle` in both cases: for the nearest they are biased down.
            Where 100 to 1,000 members were at one angle, 95 % intervals of the nearest one covered it in 97 % of cases
            or more, and in 10 % or fewer if not ``selected`` (simulated, 64 to 1,024 cells, constant flips).

        Returns
        -------
        Angles
            In radians, of the shape of ``found``.

        Raises
        ------
        InvalidInputError
            As `angle`, for a confidence out of range, or distances of another number of queries.
        TypeError, IncompatibleProjectionsError, DependentNoiseError
            As `hamming_distance`.
        """
        self._words_of(queries)
        if len(found.distances) != len(queries):
            raise InvalidInputError(
                f"found holds the distances of {len(found.distances)} queries, and there are {len(queries)}"
            )
        warn_of_flips([*queries, self._first])
        k, out = self._first.projection.sketch_dim, np.empty((3, *found.distances.shape))
        known: dict[Any, tuple[Any, tuple[float, float, float]]] = {}
        for row, (query, distances) in enumerate(zip(queries, found.distances.tolist(), strict=True)):
            both = product_curve(query, self._first, norm_queries, norm_members)
            for column, distance in enumerate(distances):
                key = both if isinstance(both, float) else id(both), distance
                if key not in known:
                    estimate = angle_at(1 - 2 * distance / k, k, both)
                    ends = (
                        estimate.selected_interval(self._count, confidence)
                        if selected
                        else estimate.interval(confidence)
                    )
                    known[key] = both, (estimate.value, *ends)  # the curve stays, and so its id
                out[:, row, column] = known[key][1]
        return Angles(*out)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to a file that `load` maps, atomically: ⌈k / 64⌉ words and 8 bytes a member.

        The file is for the machines that search it, and may change with the version. What others read is each release
        in the exchange format.
        """
        first = self._first.to_bytes()
        numbers = b"".join(number.to_bytes(_NUMBER_BYTES, "little") for number in (self._count, len(first)))
        head = (_MAGIC + numbers + first).ljust(_start(len(first)), b"\0")
        write_whole(path, cast("Iterable[bytes]", (head, self._blocks.data, self._ids.data)))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return an index that `save` wrote: its codes are mapped, and read as they are compared.

        Leave the file as it is while the index is in use; `save` replaces a file, and does not change it.

        Raises
        ------
        OSError
            If the file cannot be read.
        WireFormatError
            If it is no such file, or is cut off.
        """
        with Path(path).open("rb") as file:
            head = file.read(len(_MAGIC) + 2 * _NUMBER_BYTES)
            count, size = (int.from_bytes(head[at : at + _NUMBER_BYTES], "little") for at in (8, 16))
            if head[:8] != _MAGIC or not 1 <= count <= _MOST_MEMBERS or size > current_limits().max_bytes:
                raise WireFormatError("head", "this is no index of signs, which SignIndex.save writes")
            first = Encoded.any_from_bytes(file.read(size))
            if not isinstance(first, Signs):
                raise WireFormatError("first member", f"it has signs, and this is a {type(first).__name__}")
            words = -(-count // COLUMNS) * COLUMNS * first.words.size
            expected, found = _start(size) + 8 * (words + count), file.seek(0, os.SEEK_END)
            if found != expected:
                raise WireFormatError(
                    "codes",
                    f"{count:,} members of {first.projection.sketch_dim} signs take {expected:,} bytes, and the file "
                    f"has {found:,}",
                )
        content: Words = np.asarray(np.memmap(path, "<u8", "r", _start(size), (words + count,)))
        blocks, ids, unused = content[:words], content[words:], first.projection.sketch_dim % _WORD_BITS
        if unused and (blocks.reshape(-1, first.words.size, COLUMNS)[:, -1] >> np.uint64(unused)).any():
            raise WireFormatError("codes", "there are bits behind the last sign, which must be 0")
        if (ids[1:] <= ids[:-1]).any():
            raise WireFormatError("ids", "they are not in order, or not different")
        index = cls.__new__(cls)
        index._first, index._count, index._blocks, index._ids = first, count, blocks, ids  # noqa: SLF001 - ours
        return index

    def _words_of(self, queries: Sequence[Signs]) -> Words:
        """Return the codes of queries that may be compared with the members."""
        rows = words_of(queries)
        check_same(self._first, queries[0])
        ids = np.frombuffer(b"".join(query.release_id for query in queries), dtype="<u8")
        places = np.searchsorted(self._ids, ids)
        if (self._ids[np.minimum(places, self._count - 1)] == ids).any():
            raise DependentNoiseError(
                "a query is a member of the index, with the same flips: no estimate holds between a release and itself"
            )
        return rows


def _start(size: int) -> int:
    """Return where codes begin behind a release of so many bytes."""
    return -(-(len(_MAGIC) + 2 * _NUMBER_BYTES + size) // _PAGE) * _PAGE


def _check_alike(first: Signs, release: Signs) -> None:
    """Raise unless two releases were published alike."""
    if not isinstance(release, Signs):
        raise TypeError(f"an index holds published signs, got a {type(release).__name__}; release first")
    check_same(first, release)
    if type(first) is not type(release) or flipped_by(first) != flipped_by(release):
        raise InvalidInputError("members of an index are published by one law: give each law an index of its own")
    if first.guarantee is not release.guarantee and first.guarantee != release.guarantee:
        raise InvalidInputError(
            f"members of an index are published with one guarantee, got {first.guarantee} and {release.guarantee}"
        )
