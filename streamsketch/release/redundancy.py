"""Which of several releases are not redundant: one that can be computed from the others spends nothing."""

from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

from streamsketch.release.claims import Claim, check_claims, is_computed

_Column: TypeAlias = tuple[Any, bytes]
_Row: TypeAlias = dict[_Column, Fraction]
_Sum: TypeAlias = dict[int, Fraction]  # by the places of vectors
_Vector: TypeAlias = tuple[_Row, Claim]


class Single(Protocol):
    """One published vector: a release, or a row of a table."""

    @property
    def summed_ids(self) -> frozenset[bytes]:
        """The ids of the releases that were added up in it."""

    @property
    def data_ids(self) -> Collection[bytes]:
        """Random ids of the data, empty where they are unknown."""

    @property
    def claim(self) -> Claim:
        """The proof that the release is what its ids claim."""

    @property
    def history(self) -> Any:
        """For what is published by a schedule, which part of which history it is; None for others."""


class Release(Protocol):
    """What was published at once, under one guarantee."""

    @property
    def guarantee(self) -> Any:
        """What is guaranteed."""

    @property
    def rows(self) -> Sequence[Any]:
        """The vectors inside, each a `Single`."""


def non_redundant(releases: Sequence[Any]) -> list[int]:
    """Return the places of releases from which all others can be computed; the others are post-processing.

    A release spends nothing more if all of its vectors are linear combinations of others': a copy, a row of a table
    that is given, a sum whose parts are given, or a part whose sum and other parts are given. Ids claim this and cells
    show it: a vector that is no such combination counts, even if its ids claim it. Those of fewest parts come
    first, of these the largest guarantee, and of these the most rows, so that no forged guarantee of a sum takes the
    place of a larger; a sum with more δ than the one kept of the same parts counts as well. A table all of whose rows
    are in others of its guarantee spends nothing more either. Of the rows of a history, and ranges that were solved
    from them, the first of each guarantee stays, which is one for all of them.

    Parameters
    ----------
    releases
        Each a `Release`, or a guarantee alone, which always counts.

    Raises
    ------
    InvalidInputError
        As in `check_claims`: if ids are shown to be another release's.
    """
    check_claims(releases)
    alike_in_history = _repeated_parts(releases)
    vectors = [[] if place in alike_in_history else _vectors_of(release) for place, release in enumerate(releases)]
    places = [place for place, rows in enumerate(vectors) if rows]
    span = _Span()
    kept: list[int] = []
    for place in sorted(places, key=lambda place: _rank(releases[place])):
        if span.add(vectors[place]) or _has_more_delta(releases[place], [releases[other] for other in kept]):
            kept.append(place)
    for place in sorted(place for place in kept if len(vectors[place]) > 1):
        guarantee = releases[place].guarantee
        alike = [other for other in kept if other != place and releases[other].guarantee == guarantee]
        inside = {column for other in alike for row, _ in vectors[other] for column in row}
        if all(inside.issuperset(row) for row, _ in vectors[place]):
            others = _Span()
            for other in alike:
                others.add(vectors[other])
            if not others.add(vectors[place]):
                kept.remove(place)
    without = {place for place, rows in enumerate(vectors) if not rows}
    return sorted({*kept, *without} - alike_in_history)


def sharing_data(releases: Sequence[Any]) -> list[tuple[int, int]]:
    """Return the pairs of non-redundant releases, by place, that hold some of the same data.

    A release in two tables is published once, and shares nothing by that; nor do rows and ranges of one history.
    """
    holders: dict[bytes, dict[Any, int]] = {}
    for place in sorted({*non_redundant(releases), *_repeated_parts(releases)}):  # rows of other keys hold other data
        for row in getattr(releases[place], "rows", ()):
            what = row.summed_ids if row.history is None else (row.history.id, releases[place].guarantee)
            for data_id in row.data_ids:
                holders.setdefault(data_id, {}).setdefault(what, place)
    pairs: dict[tuple[int, int], None] = {}
    for holding in holders.values():
        first, *others = holding.values()
        pairs.update(dict.fromkeys((first, other) for other in others if other != first))
    return sorted(pairs)


def _repeated_parts(releases: Sequence[Any]) -> set[int]:
    """Return the places of parts of a history of which another with the same guarantee comes before."""
    seen: set[tuple[bytes, Any]] = set()
    repeated: set[int] = set()
    for place, release in enumerate(releases):
        rows = getattr(release, "rows", ())
        parts = [row.history for row in rows if row.data_ids]  # without, nothing is known of whose rows they are
        if parts and len(parts) == len(rows) and all(part is not None and part.id == parts[0].id for part in parts):
            key = parts[0].id, release.guarantee
            if key in seen:
                repeated.add(place)
            seen.add(key)
    return repeated


def _vectors_of(release: Any) -> list[_Vector]:
    rows: Sequence[Any] = getattr(release, "rows", ())
    if any(row.history is not None for row in rows):
        return []  # always counts, unless it is a repeated part: no cells show from which rows others were solved
    neighbours = None if not rows else release.guarantee.neighbours
    return [({(neighbours, release_id): Fraction(1) for release_id in row.summed_ids}, row.claim) for row in rows]


def _rank(release: Any) -> tuple[int, float, float, int, bool]:
    parts = max(len(row.summed_ids) for row in release.rows)
    uncounted = any(row.claim.counts is None for row in release.rows)  # as a copy that dropped its counts
    return parts, -release.guarantee.epsilon, -release.guarantee.delta, -len(release.rows), uncounted


def _has_more_delta(release: Any, kept: Sequence[Any]) -> bool:
    """Return whether a release states a larger δ than everything kept of the same parts.

    Then it is no copy of them. Its ε is never larger than theirs, as they were sorted by it.
    """
    ids = {row.summed_ids for row in release.rows}
    same = [other.guarantee.delta for other in kept if any(row.summed_ids in ids for row in other.rows)]
    return bool(release.guarantee.delta > max(same, default=1.0))


class _Span:
    """All linear combinations of some vectors, by Gaussian elimination over their ids."""

    def __init__(self) -> None:
        self._pivots: dict[_Column, tuple[_Row, _Sum]] = {}
        self._claims: list[Claim] = []

    def add(self, vectors: Iterable[_Vector]) -> bool:
        """Add vectors; return whether one of them is not shown to be a combination of those before."""
        is_new = False
        for vector, claim in vectors:
            row, of = self._reduced(dict(vector))
            if row:
                first, leading = next(iter(row.items()))
                of = {len(self._claims): 1 / leading} | {place: -factor / leading for place, factor in of.items()}
                self._pivots[first] = {column: value / leading for column, value in row.items()}, of
                self._claims.append(claim)
                is_new = True
            elif not is_computed(claim, [self._claims[place] for place in of]):
                is_new = True
        return is_new

    def _reduced(self, row: _Row) -> tuple[_Row, _Sum]:
        """Return the rest of a row after elimination, and the factors of the vectors that were subtracted."""
        of: _Sum = {}
        while (pivot := next((column for column in row if column in self._pivots), None)) is not None:
            factor = row[pivot]
            values, its = self._pivots[pivot]
            _subtract(row, values, factor)
            _subtract(of, its, -factor)
        return row, of


def _subtract(row: dict[Any, Fraction], other: dict[Any, Fraction], factor: Fraction) -> None:
    for column, value in other.items():
        if left := row.get(column, Fraction(0)) - factor * value:
            row[column] = left
        else:
            row.pop(column, None)
