"""Tables of releases that are one release: what private sketches and signs have in common."""

import datetime as dt
import itertools
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Any, ClassVar, Self, TypeVar

from streamsketch.agreement.same import check_same
from streamsketch.core.documents import TableKey
from streamsketch.core.libraries import pa, pc
from streamsketch.core.notebooks import MOST_ROWS, facts, name_of
from streamsketch.core.numbers import INT64_MAX, short
from streamsketch.data.columns import key_column
from streamsketch.errors import InvalidInputError, UnknownKeyError
from streamsketch.privacy.assertions import apart_in_tables, with_conditions
from streamsketch.privacy.neighbours import Neighbours
from streamsketch.products import Registry
from streamsketch.projections.base import Projection
from streamsketch.release.published import Published, copy_with

Row = TypeVar("Row", bound=Any)

TABLES: Registry["type[PublishedTable[Any]]"] = Registry("table")
"""The kinds of tables, by the Parquet column that holds their releases."""


class PublishedTable(Published, Mapping[TableKey, Row]):
    """Releases by key, published together as **one** release: one projection, one guarantee, which covers all keys.

    An immutable mapping in ascending order of its keys, so that the order of events shows nothing. A bound that was
    enforced holds for all keys of one data set. So the constructor adds to releases of several, whose bounds were
    enforced in each, the condition that no unit is in two of them.

    Parameters
    ----------
    releases
        The releases by key, at least one; keys of one type: text, bytes, integers, dates or times.

    Raises
    ------
    TypeError
        If a value is not a release of the table's kind.
    IncompatibleProjectionsError, IncompatibleAgreementsError
        If the projections or the agreements differ.
    InvalidInputError
        If there are none, the keys have no common type, the guarantees differ, or releases of the same data let a unit
        in ``max_keys`` sketches be in more releases than that: one guarantee does not cover them.
    """

    magic = b"PAR1"

    row_type: ClassVar[type[Any]]
    """The class of its rows."""
    column: ClassVar[str]
    """The name of the Parquet column that holds them."""

    __slots__ = ("_keys", "_rows")

    _keys: "pa.Array | None"
    _rows: dict[TableKey, Row]

    def __init__(self, releases: Mapping[TableKey, Row]) -> None:
        self._hold(releases)
        if not isinstance(releases, PublishedTable):
            self._rows = _under_condition(self._rows)

    @classmethod
    def of_one(cls, releases: Mapping[TableKey, Row]) -> Self:
        """Return the table of releases that were made, or written, as one; errors as of the constructor."""
        table = cls.__new__(cls)
        cls._hold(table, releases)
        return table

    def _hold(self, releases: Mapping[TableKey, Row]) -> None:
        rows = dict(releases)
        if not rows:
            raise InvalidInputError("a table holds at least one release, got none")
        first_key, first = next(iter(rows.items()))
        for key, release in rows.items():
            if not isinstance(release, self.row_type):
                raise TypeError(
                    f"a table holds {self.row_type.__name__} objects, got a {type(release).__name__}. Call release() "
                    f"first: raw sketches have no public format"
                )
            if (release.agreement is None) != (first.agreement is None):
                raise InvalidInputError(
                    f"a table is one release of one agreement, but one of {short(key)} and {short(first_key)} has an "
                    "agreement and the other has none. Release all keys of one table"
                )
            check_same(first, release)
            if release.guarantee is not first.guarantee and release.guarantee != first.guarantee:
                raise InvalidInputError(
                    f"a table is one release with one guarantee, got {first.guarantee} for the key {short(first_key)} "
                    f"and {release.guarantee} for the key {short(key)}. Release all keys with one guarantee, or save "
                    "them one by one"
                )
        _check_draws(rows.values(), first.guarantee.neighbours)
        names = list(rows)
        ordered = sorted_keys(names)
        self._keys = None  # Arrow loads where a table is written
        if ordered is None:
            column = key_column(names, "key")
            order = pc.sort_indices(column)
            self._keys, ordered = column.take(order), [names[place] for place in order.to_pylist()]
        self._rows = {name: rows[name] for name in ordered}

    # --- reading --------------------------------------------------------------------------------------------

    @property
    def projection(self) -> Projection:
        """The public map."""
        projection: Projection = self._first.projection
        return projection

    @property
    def agreement(self) -> str | None:
        """The fingerprint of the agreement that the data followed, in hexadecimal, if it is known."""
        agreement: str | None = self._first.agreement
        return agreement

    @property
    def guarantee(self) -> Any:
        """The guarantee of the table as one release; for ``max_keys`` it covers all keys together."""
        return self._first.guarantee

    @property
    def data_ids(self) -> tuple[bytes, ...]:
        """Random ids of the data inside, for all keys; empty if the data are unknown."""
        return tuple(sorted({data_id for release in self.rows for data_id in release.data_ids}))

    @property
    def rows(self) -> tuple[Row, ...]:
        """The releases, in the order of their keys."""
        return tuple(self._rows.values())

    @property
    def _first(self) -> Row:
        return next(iter(self._rows.values()))

    def with_agreement(self, agreement: str | None) -> Self:
        """Return the same releases with this agreement's fingerprint: you assert that the data followed it."""
        return self.of_one({key: release.with_agreement(agreement) for key, release in self.items()})

    def __getitem__(self, key: TableKey) -> Row:
        try:
            return self._rows[key]
        except KeyError:
            raise UnknownKeyError(
                f"the table has no release of {short(key)} (7 and '7' are different keys); it has "
                f"{short(list(self._rows))}"
            ) from None

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __hash__(self) -> int:
        return hash((type(self), self.rows))

    def __repr__(self) -> str:
        keys = f"{len(self):,} {'key' if len(self) == 1 else 'keys'}"
        return f"<{type(self).__name__} of {keys}, {self.projection!r}, {self.guarantee}>"

    def _repr_html_(self) -> str:
        keys = [name_of(key) for key in itertools.islice(self, MOST_ROWS)]
        more = [f"{len(self) - len(keys):,} more"] if len(self) > len(keys) else []
        rows: list[tuple[str, Any]] = [("keys", ", ".join([*keys, *more])), ("projection", repr(self.projection))]
        return facts(type(self).__name__, [*rows, ("guarantee", self.guarantee)])

    # --- exchange -------------------------------------------------------------------------------------------

    def to_arrow(self) -> "pa.Table":
        """Return the Arrow table that `save` writes, with one row per key.

        The columns are ``key``, the releases in the exchange format of WIRE.md (binary), and for people ``epsilon``,
        ``delta``, ``unit``, ``mechanism`` and ``conditions`` (a list, usually empty).
        """
        guarantee, count = self.guarantee, len(self)
        return pa.table(
            {
                "key": key_column(list(self._rows), "key") if self._keys is None else self._keys,
                self.column: pa.array([release.to_bytes() for release in self.rows], pa.binary()),
                "epsilon": pa.array([guarantee.epsilon] * count),
                "delta": pa.array([guarantee.delta] * count),
                "unit": pa.array([guarantee.neighbours.unit] * count),
                "mechanism": pa.array([str(guarantee.mechanism)] * count),
                "conditions": pa.array([list(guarantee.conditions)] * count, pa.list_(pa.string())),
            },
            metadata={"streamsketch.projection": self.projection.to_json()},
        )


def _under_condition(rows: dict[TableKey, Row]) -> dict[TableKey, Row]:
    """Return releases that state, if they may be of several data sets that were bounded apart, that these are so."""
    data = [{*release.data_ids} for release in rows.values()]
    is_one = len(data) == 1 or (data[0] and all(ids == data[0] for ids in data))
    return rows if is_one else {key: stated_apart(release) for key, release in rows.items()}


def stated_apart(release: Row) -> Row:
    """Return a row of a table of several data sets: an enforced bound holds for all of them under a condition."""
    guarantee = release.guarantee
    if guarantee.basis != "enforced":
        return release
    return copy_with(release, _guarantee=with_conditions(guarantee, apart_in_tables(guarantee.neighbours.unit)))


def sorted_keys(names: list[Any]) -> list[Any] | None:
    """Return keys in ascending order, as Arrow sorts them, without Arrow; None for keys whose order only Arrow knows.

    Examples
    --------
    >>> sorted_keys(["b", "Ä", "a"]), sorted_keys([True, False])
    (['a', 'b', 'Ä'], None)
    """
    kinds = set(map(type, names))
    if kinds == {str} and all(name.isascii() or name.isprintable() for name in names):
        return sorted(names, key=lambda name: name.encode())
    if kinds == {int} and min(names) >= -INT64_MAX and max(names) <= INT64_MAX:
        return sorted(names)
    if kinds in ({bytes}, {dt.date}):
        return sorted(names)
    if kinds == {dt.datetime} and len({time.tzinfo for time in names}) == 1 and names[0].tzinfo in (None, dt.UTC):
        return sorted(names)
    return None


def _are_apart(releases: Collection[Any]) -> bool:
    """Return whether all releases have data ids, and no two share one: the usual case, in little time."""
    ids = [release.data_ids for release in releases]
    return all(ids) and len(set(itertools.chain(*ids))) == sum(map(len, ids))


def _check_draws(releases: Collection[Any], neighbours: Neighbours) -> None:
    """Raise `InvalidInputError` if, by the data ids, one unit may be in more releases than the neighbours allow.

    That is ``max_keys``, each of them moved by the bound. A bound on all sketches together, `SketchL2`, is for one
    release of each.
    """
    if _are_apart(releases):
        return
    holders: dict[bytes, set[frozenset[bytes]]] = defaultdict(set)
    draws: dict[frozenset[bytes], set[frozenset[bytes]]] = defaultdict(set)
    for release in releases:
        summed = release.summed_ids
        for data_id in release.data_ids:
            holders[data_id].add(summed)
        if release.data_ids:
            draws[frozenset(release.data_ids)].add(summed)
    most = max(map(len, holders.values()), default=0)
    if neighbours.of_sketches:
        if max([most, *map(len, draws.values())]) > 1:
            raise InvalidInputError(
                f"releases of this table hold some of the same data, and its guarantee, for {neighbours}, is for one "
                f"release of each sketch. Release the keys of one SketchTable, or save these one by one"
            )
        return
    max_keys = neighbours.max_keys
    # one unit may be in max_keys sketches, and so in every release of each of these
    most = max(most, sum(sorted(map(len, draws.values()), reverse=True)[:max_keys]))
    if most > max_keys:
        raise InvalidInputError(
            f"releases of this table hold some of the same data, so that one unit may be in {most} of them, and its "
            f"guarantee covers a unit in at most {max_keys} (max_keys). Release the keys of one SketchTable, or save "
            f"these one by one"
        )
