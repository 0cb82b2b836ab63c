"""SignIndex: a published collection as one matrix of codes, to find its nearest members."""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from streamsketch.agreement.same import check_same
from streamsketch.core.libraries import pa, pc
from streamsketch.core.numbers import Floats, check_int, short
from streamsketch.data.columns import key_column
from streamsketch.errors import DependentNoiseError, IncompatibleProjectionsError, InvalidInputError, WireFormatError
from streamsketch.kernels.hashing import Words
from streamsketch.products import SERVICES
from streamsketch.signs.angles import angle_at, product_curve
from streamsketch.signs.flip_check import warn_of_flips
from streamsketch.signs.hamming import Nearest, nearest_in, words_of
from streamsketch.signs.index_file import read_index, write_index
from streamsketch.signs.index_members import Content, Members
from streamsketch.signs.sketch import Signs

_MOST_SMALL = (1 << 31) - 1  # bytes of text or keys that offsets of 32 bits reach


class Angles(NamedTuple):
    """Angles to the members found, in radians: float64, (n, top) each."""

    value: Floats
    """Estimates, as `angle` makes them."""
    low: Floats
    """Lower ends of their intervals."""
    high: Floats
    """Upper ends."""
    error: Floats
    """Standard errors, of pairs named beforehand."""


class SignIndex:
    """A published collection as one matrix of codes, to search for nearest members. Immutable.

    It holds ⌈k / 64⌉ words and 8 bytes per member, in memory or mapped from a file, without Python objects, and the
    members' keys as a column, if they have any. Members are checked once. All were published alike, with one
    projection, law and guarantee.

    Parameters
    ----------
    releases
        Different releases, at least one: a mapping by key, such as a `SignTable`, whose order is kept; or any iterable,
        which is read once and whose members have only their positions. `from_files` reads large tables faster.

    Raises
    ------
    TypeError
        If a member is not a release of signs.
    InvalidInputError
        If there are no members or more than 2^32, they were not published alike, or their keys have no common type.
    IncompatibleProjectionsError, DependentNoiseError
        As in `hamming_distance`.

    Examples
    --------
    >>> import streamsketch as ss
    >>> publish = ss.signs.DPSignOPORPRR(epsilon=9, neighbours=ss.OneCoordinate(1))
    >>> people = (100 * np.sin(np.arange(1280) ** 2)).astype(int).reshape(5, 256)
    >>> projection = ss.projections.OPORP(dim=256, sketch_dim=128, seed=1)
    >>> index = SignIndex(dict(zip("abcde", publish.release_rows(projection, people))))
    >>> queries = publish.release_rows(projection, people[:2])
    >>> members = index.nearest(queries, 3)
    >>> index.keys.take(members.places[:, 0]).to_pylist()
    ['a', 'b']
    >>> index.angles(queries, members).low.shape
    (2, 3)
    """

    __slots__ = ("_content",)

    def __init__(self, releases: Iterable[Signs] | Mapping[Any, Signs]) -> None:
        members = Members()
        for release in releases.values() if isinstance(releases, Mapping) else releases:
            members.add(release)
        self._content = members.content(key_column(list(releases), "key") if isinstance(releases, Mapping) else None)

    @classmethod
    def _of(cls, content: Content) -> Self:
        index = cls.__new__(cls)
        index._content = content  # noqa: SLF001 - ours
        return index

    @classmethod
    def from_files(
        cls, paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], *, signer: object = None
    ) -> Self:
        """Return the index of releases in files, read in parts, without an object for each release.

        It equals the index of what `streamsketch.load` reads, in a fraction of the time and the memory.

        Parameters
        ----------
        paths
            Tables of published signs, whose members keep their keys and order; and files of one release each, whose key
            is the file's name without its suffix. All keys must be different and of one type.
        signer
            As in `streamsketch.load`.

        Raises
        ------
        WireFormatError, SignatureError, OSError
            As in `streamsketch.load`, for each file.
        InvalidInputError, TypeError, IncompatibleProjectionsError, DependentNoiseError
            As in `SignIndex`, and if a key is in two files or keys have two types.
        """
        members, keys = Members(), list[pa.Array]()
        rows_of = SERVICES.need("rows of signs", "files of signs are to be indexed")
        for path in [paths] if isinstance(paths, str | os.PathLike) else paths:
            with _naming(path):
                for part in rows_of(path, signer=signer):
                    members.add_rows(part.like, part.words, part.ids)
                    if keys and part.keys.type != keys[0].type:
                        raise InvalidInputError(f"keys have one type, got {keys[0].type} and {part.keys.type}")
                    keys.append(part.keys)
        return cls._of(members.content(joined_keys(keys) if keys else None))

    @property
    def first(self) -> Signs:
        """The first member, whose projection, law and guarantee all members share."""
        return self._content.first

    @property
    def keys(self) -> "pa.Array | None":
        """The members' keys as a column in their order; None if they have none."""
        return self._content.keys

    def __len__(self) -> int:
        return self._content.members

    def __repr__(self) -> str:
        return f"<SignIndex of {len(self):,} releases, {self.first.projection!r}, {self.first.guarantee}>"

    def nearest(self, queries: Sequence[Signs], top: int) -> Nearest:
        """Find the nearest members for each query by Hamming distance. If members tie, the first one wins.

        Parameters
        ----------
        queries
            n releases of the members' projection, none of them a member.
        top
            Number of members to find, from 1 to the number of members.

        Returns
        -------
        Nearest
            Positions in the collection, and Hamming distances in bits.

        Raises
        ------
        InvalidInputError
            If ``top`` is out of range, or there are no queries.
        TypeError, IncompatibleProjectionsError, DependentNoiseError
            As in `hamming_distance`.
        """
        check_int(top, "top", 1, len(self))
        rows = self._words_of(queries)
        return nearest_in(rows, self._content.blocks, len(self), top)

    def angles(
        self,
        queries: Sequence[Signs],
        nearest: Nearest,
        *,
        norm_queries: float | None = None,
        norm_members: float | None = None,
        confidence: float = 0.95,
        selected: bool = True,
    ) -> Angles:
        """Estimate the angles to the members that `nearest` returned, with intervals.

        Parameters
        ----------
        queries, nearest
            The arguments of `nearest`, and what it returned.
        norm_queries, norm_members
            ‖x‖₂ of all queries and of all members in data units, if flips depend on the cells; see `angle`.
        confidence
            In (0, 1).
        selected
            Whether intervals hold for all members together, and so for those that were found
            (`Estimate.selected_interval`). Otherwise each interval is for a pair chosen beforehand, and too low for the
            nearest of many. The estimates are those of `angle` in both cases, and are biased downwards for the nearest.
            In simulations with 100 to 1,000 members at one angle (64 to 1,024 cells, constant flips), 95 % intervals of
            the nearest member covered its angle in 97 % of cases or more, and in 10 % or fewer if not ``selected``.

        Returns
        -------
        Angles
            Angles in radians, in the shape of ``nearest``.

        Raises
        ------
        InvalidInputError
            As in `angle`, and if the confidence is out of range, or ``nearest`` is for another number of queries.
        TypeError, IncompatibleProjectionsError, DependentNoiseError
            As in `hamming_distance`.
        """
        self._words_of(queries)
        if len(nearest.distances) != len(queries):
            raise InvalidInputError(
                f"nearest holds the distances of {len(nearest.distances)} queries, and there are {len(queries)}"
            )
        warn_of_flips([*queries, self.first])
        k, out = self.first.projection.sketch_dim, np.empty((4, *nearest.distances.shape))
        estimates: dict[Any, tuple[Any, tuple[float, ...]]] = {}
        for row, (query, distances) in enumerate(zip(queries, nearest.distances.tolist(), strict=True)):
            both = product_curve(query, self.first, norm_queries, norm_members)
            for column, distance in enumerate(distances):
                key = both if isinstance(both, float) else id(both), distance
                if key not in estimates:
                    estimate = angle_at(1 - 2 * distance / k, k, both)
                    ends = (
                        estimate.selected_interval(len(self), confidence) if selected else estimate.interval(confidence)
                    )
                    # the curve stays, and so its id
                    estimates[key] = both, (estimate.value, *ends, estimate.standard_error)
                out[:, row, column] = estimates[key][1]
        return Angles(*out)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index atomically to a file that `load` maps.

        It takes ⌈k / 64⌉ words and 8 bytes per member, and the keys. The file is for the machines that search it; later
        versions can read it. To publish, use the exchange format of each release.
        """
        write_index(path, self._content)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return an index that `save` wrote. Codes and keys are mapped, and are read when they are compared.

        Do not change the file while the index is in use; `save` replaces a file and does not change it.

        Raises
        ------
        OSError
            If the file cannot be read.
        WireFormatError
            If the file is not an index, or was cut off.
        """
        return cls._of(read_index(path))

    def _words_of(self, queries: Sequence[Signs]) -> Words:
        """Return the codes of queries that may be compared with the members."""
        rows = words_of(queries)
        check_same(self.first, queries[0])
        ids = np.frombuffer(b"".join(query.release_id for query in queries), dtype="<u8")
        places = np.searchsorted(self._content.ids, ids)
        if (self._content.ids[np.minimum(places, len(self) - 1)] == ids).any():
            raise DependentNoiseError(
                "a query is a member of the index with the same flips, so no estimate between them holds; search "
                "with other releases"
            )
        return rows


@contextlib.contextmanager
def _naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Name a file in the errors of reading it."""
    try:
        yield
    except WireFormatError as error:
        raise WireFormatError(f"{os.fspath(path)}: {error.where}", error.problem) from None
    except (InvalidInputError, IncompatibleProjectionsError) as error:
        raise type(error)(f"{os.fspath(path)}: {error}") from None


def joined_keys(parts: "list[pa.Array]", most_small: int = _MOST_SMALL) -> "pa.Array":
    """Return the keys of several files as one column.

    Parameters
    ----------
    parts
        The keys of each file, of one type.
    most_small
        Up to how many bytes offsets have 32 bits; those of more text or bytes have 64.

    Raises
    ------
    InvalidInputError
        If a key is there twice.
    """
    larger = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
    if sum(part.nbytes for part in parts) > most_small and parts[0].type in larger:
        parts = [part.cast(larger[part.type]) for part in parts]
    keys: pa.Array = pa.concat_arrays(parts)
    if pc.count_distinct(keys).as_py() < len(keys):
        counts = pc.value_counts(keys)
        repeated = counts.field("counts").to_numpy() > 1
        twice = counts.field("values")[int(np.argmax(repeated))]
        raise InvalidInputError(f"the keys of an index are different, and {short(twice.as_py())} is there twice")
    return keys
