"""Bounded sketches of whole tables, without a cluster: what each unit adds is netted, clipped and added up."""

import dataclasses
import itertools
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamsketch.agreement.agreement import Agreement
from streamsketch.agreement.grids import check_fine
from streamsketch.agreement.rows_of_unit import RowsOfUnit
from streamsketch.core.documents import TableKey
from streamsketch.core.numbers import Ints
from streamsketch.core.wrong import PROJECTION, wrong_type
from streamsketch.data.calendar import EventWindows
from streamsketch.data.grid import warn_of_truncation
from streamsketch.data.tables import batches_of
from streamsketch.errors import InvalidInputError
from streamsketch.intake.events import Events
from streamsketch.intake.rows import Intake
from streamsketch.intake.units import column_events
from streamsketch.privacy.bounds import Bounds
from streamsketch.privacy.neighbours import Clip, check_neighbours
from streamsketch.projections.base import Projection
from streamsketch.sketching.bounding.cells import bounded_cells
from streamsketch.sketching.bounding.clip import MAX_LIMIT, Bounded, bounded, check_clip, summed
from streamsketch.sketching.bounding.contributions import NO_KEY, Contributions
from streamsketch.sketching.bounding.digests import RunDigests, UnitDigests
from streamsketch.sketching.bounding.grouping import GroupedEvents
from streamsketch.sketching.bounding.runs import Runs
from streamsketch.sketching.bounding.summary import BoundingSummary, check_summary
from streamsketch.sketching.keyed import public_names, warn_of_other_types
from streamsketch.sketching.sketch import Sketch
from streamsketch.sketching.table import SketchTable

if TYPE_CHECKING:
    from streamsketch.privacy.neighbours import Neighbours

Batch: TypeAlias = tuple[Any, Any, Any, Any]
"""(keys, indices, values, units), columns of equal length; see `bound_units`."""

SECRET_BYTES = 32
"""Length, in bytes, of the secret that decides which keys a unit keeps and how its values are clipped."""


def bound(
    rows: Any,
    agreement: Agreement,
    *,
    clip: Clip | None = None,
    public_keys: Iterable[TableKey] | None = None,
    summary: BoundingSummary | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> Sketch | SketchTable:
    """Return the exact, secret sketch of a table, with each privacy unit clipped to the agreed bound.

    Rows are cast to the agreed types, the rows of one unit are summed by key and index, and what exceeds the agreed
    bound is clipped, exactly, in integers. So a release for ``agreement.neighbours`` protects every unit, whatever its
    rows hold (Theory 4.2). `bound_units` describes the sketches, the use of a secret and the memory needed.

    Parameters
    ----------
    rows
        A pandas or polars data frame, an Arrow table or reader, a DuckDB relation, or any other table with Arrow's C
        stream. Lazy ones are read batch by batch.
    agreement
        An agreement with a unit column and neighbours of type `L1`, `L2` or `SketchL2`.
    clip
        As in `bound_units`; by default the agreed way, else ``"scale"``.
    public_keys, summary, folder
        As in `bound_units`. Rows that the agreement drops because a value is missing count in ``rows_blank``.

    Returns
    -------
    SketchTable or Sketch
        A table of sketches by key if the agreement has a key column, else one sketch.

    Raises
    ------
    TypeError
        If ``agreement`` is not an Agreement, or ``rows`` is not a table.
    InvalidInputError
        If the agreement has no unit column or no bound; and as in `Intake.batches` and `bound_units`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from streamsketch import L1, SJLT, Agreement
    >>> projection = SJLT(sketch_dim=64, sparsity=4, seed=7)
    >>> five = L1(5, unit="customer")
    >>> agreement = Agreement(projection, index="item", value="sold", unit="customer", neighbours=five)
    >>> rows = pa.table({"item": ["tea", "tea", "jam"], "sold": [80995, -80995, 8], "customer": ["Ann", "Ann", "Bob"]})
    >>> bound(rows, agreement).mass
    5
    """
    options: dict[str, Any] = {"clip": clip, "public_keys": public_keys, "summary": summary, "folder": folder}
    intake = Intake(agreement)
    batches = batches_of(rows, intake.names, lenient=intake.lenient)
    return bound_batches(lambda bounded: bounded.numbered(batches), agreement, **options)


def bound_batches(  # noqa: PLR0913 - those of bound, and how windows are made
    read: Callable[[Intake], Iterable[Events]],
    agreement: Agreement,
    *,
    table: SketchTable | None = None,
    clip: Clip | None = None,
    public_keys: Iterable[object] | None = None,
    summary: BoundingSummary | None = None,
    folder: str | os.PathLike[str] | None = None,
    windows: EventWindows | None = None,
    time: str | None = None,
    time_format: str | None = None,
) -> Sketch | SketchTable:
    """Return the sketch of what ``read`` reads by an intake, batches with the agreed columns; as `bound`.

    They are added to an empty ``table`` of the projection; by default to one that names the agreement. With
    ``windows``, of the times in another column (as in `Intake`), each pair of key and window is a key of its own. The
    ``max_keys`` of the neighbours then limits these pairs, so the guarantee covers all windows together.
    """
    if agreement.unit is None or agreement.neighbours is None:
        missing = "column of units (unit=…)" if agreement.unit is None else "bound (neighbours=L1(…))"
        raise InvalidInputError(f"the agreement has no {missing}, so no bound on one unit is known")
    if public_keys is not None and windows is None:
        public_keys = agreement.keys_of(public_keys)
    intake = Intake(agreement, bounded=True, time=time, time_format=time_format, windows=windows)
    options: dict[str, Any] = {"public_keys": public_keys, "summary": summary, "folder": folder}
    options |= {"clip": agreement.clip_of(clip), "conditions": intake.conditions, "rows": agreement.rows_rule}
    table = SketchTable(agreement) if table is None else table
    events = read(intake)
    if windows is not None:
        events = (some.keyed_by(windows) for some in events)
    _add_bounded(table, events, agreement.neighbours, **options)
    return table if agreement.key is not None or windows is not None else table.sketch_of(NO_KEY)


def bound_units(
    batches: Iterable[Batch],
    projection: Projection,
    *,
    neighbours: "Neighbours",
    max_keys: int | None = None,
    clip: Clip = "scale",
    public_keys: Iterable[object] | None = None,
    summary: BoundingSummary | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> SketchTable:
    """Return exact sketches by key, with each privacy unit clipped to the bound of ``neighbours``.

    Values are truncated to the projection's grid, values of 2**62 steps or more are clipped to one step less, and a
    unit's rows are summed by key and index, modulo 2**64. Then a unit keeps at most ``max_keys`` keys, which a secret
    chooses, and the rest is clipped to the bound, exactly, in integers. So removing all rows of one unit changes the
    table by no more than a release for ``neighbours`` hides (Theory 4.2), whatever those rows hold.

    Equal rows give equal sketches if no unit exceeds its bounds. Otherwise a secret that each call draws decides which
    keys a unit keeps, how scaled values are rounded (each by less than a grid step), and which values ``"cut"`` keeps.
    With the same secret, `streamsketch.beam.BoundContributions` gives the same bits on a cluster.

    A malformed row (a null, NaN, an infinity, an index out of range, text that is not UTF-8, empty text as the unit) is
    dropped, because an error would reveal one unit's data. A column of a wrong type is an error. In a list, a field of
    a wrong type makes its row malformed; it is an error only if no row has a field of the right type. Beyond a million
    rows, events go to files that are grouped by unit and deleted at the end. So memory does not grow with the number of
    rows, only with the number of keys and with the number of different (key, index) pairs of one unit.

    Parameters
    ----------
    batches
        Tuples ``(keys, indices, values, units)`` of columns of equal length: Arrow arrays, NumPy arrays, lists or
        Series. ``keys`` may be None for a single stream, which gets the key ``""``. ``indices`` may be a tuple of
        columns. ``values`` may be None if each event counts 1.
    projection
        The public map.
    neighbours
        The neighbour relation of the later release: ``L1(bound, unit=…, max_keys=m)``, `L2` or `SketchL2`.
    max_keys
        How many keys a unit keeps. The default is the ``max_keys`` of ``neighbours``, with each key clipped to the
        bound by itself. It may be larger if ``neighbours`` is an `L1` with ``max_keys=1``: the bound then holds for all
        keys **together**, at the noise of a unit with one key. That is proved for noise added to cells and for
        `signs.DPSignLogistic`; other sign mechanisms refuse such a table. Under `L2` it is refused here: ``L2(bound/√m,
        max_keys=m)`` has the ℓ2 sensitivity that one ball for m keys would have, and states its ℓ1 sensitivity.
        `SketchL2` always bounds all keys of a unit together, and a unit keeps as many as its ``max_keys``.
    clip
        ``"scale"`` shrinks a unit's whole vector. ``"cut"`` keeps some of its values (`L1`). ``"equal"`` also lengthens
        vectors that are shorter than the bound, so that each unit counts the same (`SketchL2`). ``"average"`` is only
        for features, in `bound`: each cell of a unit's sum in a key is divided by the number of its rows there, to the
        nearest integer, halves away from zero, and units beyond the bound are then scaled (`SketchL2`). Under `L2` and
        `SketchL2` each scaled value or cell is truncated, so the resolution must be fine enough for small ones.
    public_keys
        Rows of other keys are dropped before a unit's keys are chosen.
    summary
        A `BoundingSummary` that this call adds to. Secret, for the operator.
    folder
        Folder for temporary files, by default the system's. They need 40 bytes per row, or with features 24 bytes and 2
        for each feature. Only their owner can read them.

    Raises
    ------
    InvalidInputError
        For other neighbours, bounds out of range, keys clipped together under `L2`, and columns of different lengths or
        of wrong types.
    OSError
        If temporary files cannot be written.

    Examples
    --------
    >>> from streamsketch import L1, SJLT
    >>> projection = SJLT(sketch_dim=64, sparsity=4, seed=7)
    >>> bought = (["DE", "DE", "FR"], ["tea", "tea", "jam"], [80995, -80995, 8], ["Ann", "Ann", "Bob"])
    >>> table = bound_units([bought], projection, neighbours=L1(5, unit="customer"))
    >>> {key: table[key].mass for key in table}
    {'FR': 5}
    """
    if not isinstance(projection, Projection):
        raise wrong_type("bound_units needs a Projection", projection, PROJECTION)
    if clip == "average":
        raise InvalidInputError(
            "clip='average' divides features by the number of a unit's rows, and these are rows of an index: use "
            "bound(rows, agreement) with an agreement with features"
        )
    bounds: dict[str, Any] = {"max_keys": max_keys, "clip": clip, "public_keys": public_keys}
    table = SketchTable(projection)
    _add_bounded(table, _events(batches, projection), neighbours, summary=summary, folder=folder, **bounds)
    return table


def _add_bounded(  # noqa: PLR0913 - those of bound
    table: SketchTable,
    batches: Iterable[Events],
    neighbours: "Neighbours",
    *,
    max_keys: int | None = None,
    clip: Clip = "scale",
    public_keys: Iterable[object] | None = None,
    summary: BoundingSummary | None = None,
    folder: str | os.PathLike[str] | None = None,
    conditions: Collection[str] = (),
    rows: RowsOfUnit | None = None,
) -> None:
    """Add what the bounds leave of whole units to a table that is empty; as `bound_units`.

    ``conditions`` are those for the bounds to hold, as they are once everything was read; ``rows`` as in `UnitBounds`.
    """
    check_summary(summary)
    options: dict[str, Any] = {"max_keys": max_keys, "clip": clip, "public_keys": public_keys, "rows": rows}
    bounds = UnitBounds(table.projection, neighbours, **options)
    counts, secret = BoundingSummary(), os.urandom(SECRET_BYTES)
    with GroupedEvents(folder) as events:
        for part in bounds.read(batches, secret, counts):
            events.add(part)
        for group in events.groups():
            bounds.add_to(table, group, secret, counts)
    if counts.rows_truncated:
        warn_of_truncation(table.projection.grid)
    bounds.mark(table, conditions)
    if summary is not None:
        summary.merge(counts)


def _events(batches: Iterable[Batch], projection: Projection) -> Iterator[Events]:
    """Yield the valid rows of columns of any type."""
    for keys, indices, values, units in batches:
        index = list(indices) if isinstance(indices, tuple) else [indices]
        yield from column_events(projection, units, keys, index, values)


class UnitBounds:
    """What one privacy unit may add to a table, ready to be applied to events that are read and clipped in two steps.

    Parameters
    ----------
    projection, neighbours, max_keys, clip, public_keys
        As in `bound_units`, with its errors.
    rows
        Which rows of a unit count, as its agreement says (`Agreement.rows_rule`).
    """

    def __init__(
        self,
        projection: Projection,
        neighbours: "Neighbours",
        *,
        max_keys: int | None = None,
        clip: Clip = "scale",
        public_keys: Iterable[object] | None = None,
        rows: RowsOfUnit | None = None,
    ) -> None:
        check_clip(clip)
        limit = _limit(projection, neighbours, clip)
        self.averaged = clip == "average"
        """Whether rows of features are counted beside them (`Contributions.of`)."""
        kept, together = _kept_keys(neighbours, max_keys)
        self._projection, self._in_cells = projection, neighbours.of_sketches
        self._bounds: dict[str, Any] = {"max_keys": kept, "limit": limit}
        if self._in_cells:
            self._bounds |= {"projection": projection, "equal": clip == "equal", "averaged": self.averaged}
            self._bounds["first"] = rows is not None and rows.which == "first"
        else:
            self._bounds |= {"clip": clip, "together": together, "squared": neighbours.norm == "l2"}
        self._public = None if public_keys is None else frozenset(public_names(public_keys))
        counted = neighbours.counted and not together
        self._enforced = Bounds(neighbours, clip, kept if together else 1, counted=counted)

    def read(self, batches: Iterable[Events], secret: bytes, summary: BoundingSummary) -> Iterator[Contributions]:
        """Yield the events of batches, of public keys if any are named; count what is dropped."""
        digests, held = UnitDigests(secret), dict[type, Any]()  # a key of each type
        for batch in batches:
            summary.note(batch, self._projection)
            contributions = Contributions.of(batch, digests, averaged=self.averaged)
            wanted = self._wanted(contributions, held)
            if wanted is not None:
                summary.rows_of_other_keys += int((~wanted).sum())
                contributions = contributions.rows(wanted)
            yield contributions if self._in_cells else contributions.one_by_one()
        warn_of_other_types(self._public or (), held.values())

    def read_runs(
        self, events: Events, ends: Ints, secrets: Sequence[bytes], summaries: Sequence[BoundingSummary]
    ) -> list[Contributions] | None:
        """Return what `read` yields of each run of the rows of a batch, with a secret and a summary for each.

        The events of a run share no memory with the others. None if it is not known which rows were left out
        (`Events.by_rows`, which also describes ``ends``); nothing was counted then.
        """
        runs, places = events.by_rows(ends), events.places(ends)
        if runs is None or places is None:
            return None
        for run, summary in zip(runs, summaries, strict=True):
            summary.note(run, self._projection)
        contributions = Contributions.of(events, RunDigests(secrets, places), averaged=self.averaged)
        held = dict[type, Any]()
        wanted = self._wanted(contributions, held)
        if wanted is not None:
            kept = np.append(0, np.cumsum(wanted))[places]
            for summary, lost in zip(summaries, (np.diff(places) - np.diff(kept)).tolist(), strict=True):
                summary.rows_of_other_keys += lost
            contributions, places = contributions.rows(wanted), kept
        warn_of_other_types(self._public or (), held.values())
        parts = (contributions.rows(np.arange(start, stop)) for start, stop in itertools.pairwise(places.tolist()))
        return [part if self._in_cells else part.one_by_one() for part in parts]

    def _wanted(self, events: Contributions, held: dict[type, Any]) -> NDArray[np.bool_] | None:
        """Return which events have a public key, bool, (n,), None if all have; add a key of each type to ``held``."""
        if self._public is None or not len(events):
            return None
        held |= {type(key): key for key, _ in events.slots}
        wanted = np.array([key in self._public for key, _ in events.slots], dtype=bool)
        return None if wanted.all() else wanted[events.codes]

    def add_to(self, table: SketchTable, events: Contributions | Runs, secret: bytes, summary: BoundingSummary) -> None:
        """Add what the bounds leave of whole units, read with the same secret, to a table of the projection."""
        step = self._projection.cell_unit if self._in_cells else float(self._projection.grid)
        for left in self.clipped_parts(events, secret):
            keys = [key for key, _ in left.slots]
            if left.steps.ndim > 1:
                table.add_whole(keys, left.codes, left.steps)
            else:
                add = table.add_cells if left.in_cells else table.add_steps
                add(keys, left.codes, left.indices, left.steps)
            if self._enforced.counted:
                table.add_counts(keys, left.counts)
            summary.add(left.tally, step)

    @property
    def indices(self) -> int:
        """How many indices events may have: one more than the projection, of numbers of rows, where these count."""
        return self._projection.dim + self.averaged

    @property
    def enforced(self) -> Bounds:
        """The bounds that hold for the sum of clipped units."""
        return self._enforced

    def clipped_parts(self, events: Contributions | Runs, secret: bytes, *, totals: bool = True) -> Iterator[Bounded]:
        """Yield what the bounds leave of whole units, read with the same secret: each unit in one part.

        There is one part, or, in cells, as many as keep the memory bounded. ``totals`` is as in `bounded`; norms of
        cells are known without.
        """
        if self._in_cells:
            yield from bounded_cells(events, secret=secret, **self._bounds)
        else:
            yield bounded(events, secret=secret, totals=totals, **self._bounds)

    def mark(self, table: SketchTable, conditions: Collection[str] = ()) -> None:
        """Mark a table as holding only units that `add_to` clipped, each added once, under conditions."""
        bounds = dataclasses.replace(self._enforced, conditions=tuple(sorted(conditions)))
        table._bounds = bounds  # noqa: SLF001 - which only what clips may claim


def unit_totals(
    batches: Iterable[Batch],
    projection: Projection,
    *,
    norm: Literal["l1", "l2"] = "l1",
    together: bool = False,
    folder: str | os.PathLike[str] | None = None,
) -> NDArray[np.float64]:
    """Return how much each privacy unit would add without a bound, for `bounding.choose_bound`. **Secret**.

    Parameters
    ----------
    batches, projection, folder
        As in `bound_units`.
    norm
        ``"l1"`` for Σ|x| over a unit's sums by key and index, which `L1` bounds; ``"l2"`` for √Σx² over all its keys,
        which is on average the norm of its sketches, which `SketchL2` bounds.
    together
        Whether to sum over all keys of a unit. By default its largest key counts, because each key is clipped by
        itself.

    Returns
    -------
    ndarray
        float64, (n_units,), in data units. The order has no meaning.

    Raises
    ------
    InvalidInputError, OSError
        As in `bound_units`.

    Examples
    --------
    >>> from streamsketch import SJLT
    >>> projection = SJLT(sketch_dim=64, sparsity=4, seed=7)
    >>> unit_totals([(["DE", "DE"], ["tea", "jam"], [3, -4], ["Ann", "Ann"])], projection)
    array([7.])
    """
    return totals_of(_events(batches, projection), projection, norm=norm, together=together, folder=folder)


def totals_of(
    batches: Iterable[Events],
    projection: Projection,
    *,
    norm: Literal["l1", "l2"] = "l1",
    together: bool = False,
    folder: str | os.PathLike[str] | None = None,
) -> NDArray[np.float64]:
    """Return what `unit_totals` does, of rows that `Intake` reads to be bounded."""
    if norm not in ("l1", "l2"):
        raise InvalidInputError(f"norm must be 'l1' or 'l2', got {norm!r:.40}")
    totals: list[NDArray[np.float64]] = [np.empty(0)]
    digests = UnitDigests(os.urandom(SECRET_BYTES))
    with GroupedEvents(folder) as events:
        for batch in batches:
            events.add(Contributions.of(batch, digests).one_by_one())
        for group in events.groups():
            unit_sums = summed(group)
            if unit_sums.unit_ends.size:
                pair_of = np.repeat(np.arange(unit_sums.pair_ends.size), np.diff(unit_sums.pair_ends, prepend=0))
                sizes = np.abs(unit_sums.steps.astype(np.float64)) ** (2 if norm == "l2" else 1)
                sums = np.bincount(pair_of, sizes, unit_sums.pair_ends.size).astype(np.float64)
                merge = np.add if together or norm == "l2" else np.maximum
                sums = merge.reduceat(sums, np.append(0, unit_sums.unit_ends[:-1]))
                totals.append(np.sqrt(sums) if norm == "l2" else sums)
    return np.concatenate(totals) * float(projection.grid)


def _limit(projection: Projection, neighbours: "Neighbours", clip: Clip) -> int:
    """Return the bound in grid steps, squared for `L2`."""
    check_neighbours(neighbours)
    if neighbours.clips:
        neighbours.check_clip(clip)
    check_fine(projection, neighbours)
    steps = neighbours.clip_steps(projection)
    if neighbours.of_sketches:
        return steps
    if steps >= MAX_LIMIT:
        bits = 62 if neighbours.norm == "l1" else 31
        raise InvalidInputError(f"the bound must be below 2**{bits} grid steps of {projection.grid}, got {neighbours}")
    return steps


def _kept_keys(neighbours: "Neighbours", max_keys: int | None) -> tuple[int, bool]:
    """Return how many keys a unit keeps, and whether the bound holds for all of them together."""
    if max_keys is None or max_keys == neighbours.max_keys:
        return neighbours.max_keys, False
    if neighbours.of_sketches:
        raise InvalidInputError(
            "SketchL2 bounds all keys of a unit together and has a max_keys of its own: got "
            f"max_keys={max_keys!r:.40} and {neighbours!r}. Pass only SketchL2(bound, max_keys=…)"
        )
    if type(max_keys) is not int or max_keys < 1 or neighbours.max_keys != 1:
        raise InvalidInputError(
            f"max_keys must be the max_keys of the neighbours, {neighbours.max_keys}; each key is then clipped by "
            f"itself. If the neighbours have max_keys=1, it may be larger; all keys are then clipped together. Got "
            f"{max_keys!r:.40}"
        )
    # m keys in one ball move sums of absolute values by √m times what one key does
    if not neighbours.clips_keys_together:
        raise InvalidInputError(
            f"only L1 clips several keys together, got {neighbours!r} and max_keys={max_keys}. Laplace noise and "
            f"signs depend on the l1 distance, which is larger by √{max_keys} under one l2 bound for {max_keys} keys. "
            f"Use L2(bound, max_keys={max_keys}) with 1/√{max_keys} of the bound, which needs no more Gaussian noise"
        )
    return max_keys, True
