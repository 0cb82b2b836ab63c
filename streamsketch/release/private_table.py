"""PrivateTable: the sketches of many keys as one release."""

from collections.abc import Mapping

from streamsketch.core.documents import TableKey
from streamsketch.core.libraries import pa
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.guarantee import Guarantee, Populations
from streamsketch.release.composition import compose
from streamsketch.release.history import HistoryPart
from streamsketch.release.private_sketch import PrivateSketch
from streamsketch.release.published_table import TABLES, PublishedTable


class PrivateTable(PublishedTable[PrivateSketch]):
    """Private sketches by key, published together as **one** release, whose guarantee covers all keys.

    `SketchTable.release` makes one. The constructor makes one from single releases; where bounds were enforced in each,
    it adds the condition that no unit is in two of their data sets. It is an immutable mapping in ascending order of
    its keys.

    Parameters
    ----------
    releases
        The releases by key, at least one. Keys have one type: text, bytes, integers, dates or times.

    Raises
    ------
    TypeError
        If a value is not a `PrivateSketch`.
    IncompatibleProjectionsError
        If the projections differ.
    InvalidInputError
        If there is no release, the keys have no common type, or the guarantees differ; if releases of the same data
        allow a unit to be in more than ``max_keys`` of them, because one guarantee does not cover that; if the releases
        belong to different histories, or to different windows of one.

    Examples
    --------
    >>> from streamsketch import L1, SJLT, squared_distance
    >>> table = SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7).table()
    >>> table.update(["UA", "AA"], [17, 18])
    >>> released = table.release(epsilon=1.0, neighbours=L1(1, unit="sale", max_keys=2), keys_are_public=True)
    >>> list(released), released.guarantee.epsilon
    (['AA', 'UA'], 1.0)
    >>> squared_distance(released["AA"], released["UA"]).standard_error > 0
    True
    """

    row_type = PrivateSketch
    column = "sketch"

    __slots__ = ()

    def _hold(self, releases: Mapping[TableKey, PrivateSketch]) -> None:
        super()._hold(releases)
        first, *others = self.rows
        for other in others:
            if other.history != first.history:
                raise InvalidInputError(
                    f"a table is of one part of one history, or of none, got {_named(first)} and {_named(other)}. Save "
                    f"these one by one"
                )

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the table as one release, which covers all keys together."""
        return self._first.guarantee

    @property
    def history(self) -> HistoryPart | None:
        """The part of a history that all rows are, if they are published by a schedule; else None."""
        return self._first.history

    @property
    def _is_row(self) -> bool:
        return self.history is not None and self.history.is_row

    def to_arrow(self) -> "pa.Table":
        """Return the Arrow table that `save` writes, with one row per key.

        It has the columns of `PublishedTable.to_arrow`. If units were counted, it also has, for people, ``units`` and
        ``units_error`` (estimate and standard error), and if totals were published, ``total`` and ``total_error``.
        These are null in a row without counts, such as a multiple. Rows of a schedule have no estimates.
        """
        table, rows = super().to_arrow(), () if self._is_row else self.rows
        for name, numbers in (("units", 1), ("total", 2)):
            has_counts = [row.counts is not None and row.counts.size >= numbers for row in rows]
            if any(has_counts):
                estimates = [
                    getattr(row, name) if has_count else None for row, has_count in zip(rows, has_counts, strict=True)
                ]
                for column, field in ((name, "value"), (f"{name}_error", "standard_error")):
                    values = [None if estimate is None else getattr(estimate, field) for estimate in estimates]
                    table = table.append_column(column, pa.array(values, pa.float64()))
        return table

    def combine(self, other: "PrivateTable", *, populations: Populations) -> "PrivateTable":
        """Return the release of both tables' streams together, key by key; noise cumulants add up.

        Parameters
        ----------
        other
            A table of the same keys and projection, with independent noise.
        populations
            ``"disjoint"`` if no privacy unit is in both tables, else ``"overlapping"``; see `streamsketch.compose`.

        Raises
        ------
        TypeError
            If ``other`` is not a PrivateTable.
        InvalidInputError
            If the keys differ, or ``populations`` is ``"disjoint"`` although the tables share data.
        IncompatibleProjectionsError, DependentNoiseError, SketchOverflowError
            As in `PrivateSketch.combine`.
        """
        if not isinstance(other, PrivateTable):
            raise TypeError(f"only a PrivateTable combines with a PrivateTable, got a {type(other).__name__}")
        if self.keys() != other.keys():
            raise InvalidInputError(
                f"tables combine key by key and must have the same keys, but {len(self.keys() ^ other.keys())} keys "
                "are in only one of them. Release both for the same public keys"
            )
        compose([self, other], populations=populations)  # of all keys, where a row sees its own
        return self.of_one({key: mine.combine(other[key], populations=populations) for key, mine in self.items()})


TABLES.enter(PrivateTable.column, PrivateTable)


def _named(release: PrivateSketch) -> str:
    part = release.history
    return "no history" if part is None else f"{part} of history {part.id.hex()}"
