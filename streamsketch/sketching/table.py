"""SketchTable: the sketches of many keys in one array."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from streamsketch.agreement.publishing import publishing
from streamsketch.core.documents import TableKey
from streamsketch.core.jit import read_only
from streamsketch.core.numbers import Cells, Ints, short
from streamsketch.core.wrong import COLUMN, MERGED_TABLE, listed, wrong_type
from streamsketch.data import data_ids
from streamsketch.data.data_ids import DataIds
from streamsketch.errors import InvalidInputError, UnknownKeyError
from streamsketch.intake.events import Events
from streamsketch.intake.rows import Intake
from streamsketch.kernels.slots import Codes, add_dense, add_to_cells, check_codes, looked_up, seen
from streamsketch.privacy.bounds import NO_DATA, UNKNOWN, Bounds
from streamsketch.projections.base import MAX_MASS, Projection
from streamsketch.sketching.encoding import agreed_by, check_array, check_disjoint, events_of, parts_of
from streamsketch.sketching.exact import ExactSums
from streamsketch.sketching.keyed import LastKeys, keyed_steps, python_keys, table_keys
from streamsketch.sketching.sketch import Sketch

if TYPE_CHECKING:
    from streamsketch.accounting.ledger import Ledger
    from streamsketch.agreement.agreement import Agreement
    from streamsketch.privacy.neighbours import Neighbours
    from streamsketch.release.private_table import PrivateTable


class SketchTable(Mapping[TableKey, Sketch]):
    """The sketches of many keys as one (n_keys, sketch_dim) int64 array: one kernel call adds a batch for all keys.

    A table is secret, exact and mergeable, like `Sketch`. Keys are text, bytes, integers or dates, of one type in each
    call. A key is added with its first event; ``table[key]`` returns a copy of its sketch. Iteration is in ascending
    order of keys, so that the order of publication depends on the keys alone, not on the order of events.

    Parameters
    ----------
    projection
        The public map, or the parties' `Agreement`.
    keys
        Keys to start with, without events.

    Examples
    --------
    >>> from streamsketch import SJLT
    >>> table = SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7).table()
    >>> table.update(["AA", "UA", "AA"], [17, 18, 19], [1, 1, 2])
    >>> list(table)
    ['AA', 'UA']
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, projection: "Projection | Agreement", keys: Iterable[object] = ()) -> None:
        self._projection, self._agreement = projection, _ = parts_of(projection, "SketchTable")
        if isinstance(keys, AbstractSet | Mapping):
            keys = list(keys)
        elif not hasattr(keys, "__len__"):
            keys = listed(keys, "the keys of a table are a column", COLUMN)
        column = table_keys(keys)
        self._slots: dict[TableKey, int] = {key: slot for slot, key in enumerate(dict.fromkeys(python_keys(column)))}
        self._sums = ExactSums(len(self._slots), projection.sketch_dim)
        self._masses = np.zeros(len(self._slots), dtype=np.int64)
        self._largest = 0
        self._ids = data_ids.new()
        self._bounds = NO_DATA
        self._last_keys = LastKeys()

    @classmethod
    def from_state(
        cls,
        projection: Projection,
        keys: Any,
        cells: Ints | ExactSums,
        masses: Ints,
        *,
        largest: int = 0,
        ids: DataIds | None = None,
        agreement: "Agreement | None" = None,
        bounds: Bounds = UNKNOWN,
    ) -> "SketchTable":
        """Return a table with copies of the given sketches, in the form that `sums` (or `cells`) and `masses` return.

        Parameters
        ----------
        projection
            The public map.
        keys
            Column of n distinct keys.
        cells
            Cells: int64, (n, sketch_dim), in grid steps; or exact sums of n keys as `sums` returns them. Cells alone
            have no counts, even if the bounds state that units were counted.
        masses
            The l1 bound of each sketch: int64, (n,), in grid steps.
        largest, ids, agreement, bounds
            As in `Sketch.from_state`.

        Raises
        ------
        InvalidInputError
            If an array has another shape or type, a key repeats, or an l1 bound is smaller than a cell allows.
        """
        keys = keys if hasattr(keys, "__len__") else listed(keys, "the keys of a table are a column", COLUMN)
        table = cls(projection, keys)
        count, sums = len(table), cells if isinstance(cells, ExactSums) else None
        cells = cells.cells if isinstance(cells, ExactSums) else cells
        wanted = {"cells": (count, projection.sketch_dim), "masses": (count,)}
        for name, array in (("cells", cells), ("masses", masses)):
            check_array(array, f"the table's {name}")
            if len(keys) != count or array.dtype != np.int64 or array.shape != wanted[name]:
                raise InvalidInputError(
                    f"{name} must be int64 of shape {wanted[name]} for {count} different keys, got {array.dtype} of "
                    f"shape {array.shape} for {len(keys)} keys"
                )
        for row, mass in zip(cells, masses, strict=True):
            Sketch.from_state(projection, row, mass, ids=table._ids)  # checks them
        if sums is None:
            bounds = bounds.without_counts()
        table._sums, table._masses = ExactSums.of(cells) if sums is None else sums.copy(), masses.copy()
        table._ids = ids or table._ids
        table._largest, table._agreement, table._bounds = largest, agreement, bounds
        return table

    # --- updating -------------------------------------------------------------------------------------------

    def update(self, keys: object, indices: object, values: object = 1) -> None:
        """Add a batch of (key, index, value) events, given as columns of equal length.

        Parameters
        ----------
        keys
            Column of keys; repeated text is cheapest as an Arrow dictionary array.
        indices, values
            As in `Sketch.update`.

        Raises
        ------
        InvalidInputError
            As in `Sketch.update`, and for keys that cannot be hashed; the table is then unchanged.
        """
        self.add_steps(*keyed_steps(self._projection, keys, indices, values, self._last_keys))

    def update_rows(
        self,
        rows: object,
        *,
        key: str | None = None,
        index: str | Sequence[str] | None = None,
        value: str | None = None,
    ) -> None:
        """Add the rows of a table to the sketches of the keys in column ``key``; see `Sketch.update_rows`."""
        added = SketchTable(self._projection)
        added._ids, added._agreement, added._bounds = self._ids, self._agreement, UNKNOWN  # with or without rows
        for events in events_of(rows, self._projection, self._agreement, key=key, index=index, value=value, keyed=True):
            added.add_events(events)
        self.merge(added)

    def add_events(self, events: Events) -> None:
        """Add a batch of rows with keys that `intake.Intake` has read. Raises the same errors as `update`."""
        distinct, codes = self._last_keys.codes_of(table_keys(events.keys))
        if events.features is None:
            self.add_steps(distinct, codes, events.indices, events.steps)
        else:
            self.add_features(distinct, codes, events.features)

    def add_features(self, distinct: Sequence[object], codes: Codes, features: Cells) -> None:
        """Add features of rows (`Features.cells`) to a table whose projection is an `Identity` of as many cells.

        Parameters
        ----------
        distinct, codes
            As in `add_steps`.
        features
            int32, (n, sketch_dim).

        Raises
        ------
        IndexError
            For a code out of range; the table is then unchanged.
        """
        self._largest = max(self._largest, self.add_whole(distinct, codes, features))

    def add_whole(self, distinct: Sequence[object], codes: Codes, rows: Cells | Ints) -> int:
        """Add rows of all cells, (n, sketch_dim), as `add_cells` adds some; return the largest |value|."""
        sums, masses, slots, places = self._with_rows(distinct, codes)
        largest = add_dense(sums.cells, masses, places, rows)
        self._sums, self._masses, self._slots = sums, masses, slots
        self._bounds = self._bounds.updated()
        return largest

    def add_steps(self, distinct: Sequence[object], codes: Codes, indices: Ints, steps: Ints) -> None:
        """Add events that are already quantised, with each key given by its position in a list.

        Parameters
        ----------
        distinct
            Distinct keys. Keys without an event are not added.
        codes, indices, steps
            Columns of integers, (n,): position in ``distinct``, index in [0, dim), value in grid steps.

        Raises
        ------
        InvalidInputError
            For an index out of range; the table is then unchanged.
        IndexError
            For a code out of range; the table is then unchanged.
        """
        sums, masses, slots, rows, codes = self._placed(distinct, codes)
        largest = self._projection.add_to_keys(sums.cells, masses, rows, codes, indices, steps)
        self._largest = max(self._largest, largest)
        self._sums, self._masses, self._slots = sums, masses, slots
        self._bounds = self._bounds.updated()

    def add_cells(self, distinct: Sequence[object], codes: Codes, cells: Ints, steps: Ints) -> None:
        """Add to the cells themselves, modulo 2^64: the contributions of units that were clipped in sketch space.

        `masses` grow by |step|, so they still bound the cells. `largest` describes updates and does not change.

        Parameters
        ----------
        distinct
            Distinct keys. Keys without a cell are not added.
        codes, cells, steps
            Columns of integers, (n,): position in ``distinct``, cell in [0, sketch_dim), and the change of that cell in
            grid steps.

        Raises
        ------
        InvalidInputError
            For a cell out of range; the table is then unchanged.
        IndexError
            For a code out of range; the table is then unchanged.
        """
        if cells.size and cells.view(np.uint64).max() >= self._projection.sketch_dim:  # negative ones are huge
            raise InvalidInputError(f"cells must be in [0, sketch_dim), here {self._projection.sketch_dim}")
        sums, masses, slots, rows = self._with_rows(distinct, codes)
        add_to_cells(sums.cells, masses, rows, cells, steps)
        self._sums, self._masses, self._slots = sums, masses, slots
        self._bounds = self._bounds.updated()

    def _with_rows(self, distinct: Sequence[object], codes: Codes) -> tuple[ExactSums, Ints, dict[TableKey, int], Ints]:
        """Return what `_placed` does, with the row of each code in place of the rows of keys and the codes."""
        sums, masses, slots, rows, codes = self._placed(distinct, codes)
        return sums, masses, slots, looked_up(rows, codes)

    def _placed(
        self, distinct: Sequence[object], codes: NDArray[Any]
    ) -> tuple[ExactSums, Ints, dict[TableKey, int], Ints, Codes]:
        """Return sums and l1 bounds with room for the keys that codes name, where each key is, its row, and the codes.

        Rows of keys that no code names are arbitrary.
        """
        codes = np.ascontiguousarray(codes, dtype=np.int32 if codes.dtype == np.int32 else np.int64)
        codes, last = read_only(codes), self._last_keys
        if distinct is last.distinct and last.rows is not None:
            check_codes(codes, len(distinct))
            return self._sums, self._masses, self._slots, last.rows, codes
        used = seen(codes, len(distinct))
        new = dict.fromkeys(
            key for key, is_used in zip(distinct, used, strict=True) if is_used and key not in self._slots
        )
        grown = len(self._slots) + len(new)
        sums, masses = self._sums, self._masses
        if grown > sums.keys:
            sums, masses = self._resized(max(grown, 2 * sums.keys))
        slots = self._slots | {key: len(self._slots) + place for place, key in enumerate(new)}
        rows = read_only(np.array([slots.get(key, 0) for key in distinct], dtype=np.int64))
        if distinct is last.distinct and not new and all(key in slots for key in distinct):
            last.rows = rows
        return sums, masses, slots, rows, codes

    def add_counts(self, distinct: Sequence[object], counts: Ints) -> None:
        """Add the counts of the units whose rows were added, before the table is marked as bounded.

        Parameters
        ----------
        distinct
            Distinct keys, each in the table or without a unit.
        counts
            As in `counts`: int64, (n, 2).
        """
        held = np.flatnonzero(counts[:, 0])
        self._sums.counts[[self._slots[distinct[place]] for place in held.tolist()]] += counts[held]

    def _resized(self, rows: int) -> tuple[ExactSums, Ints]:
        """Return copies of the sums and l1 bounds with room for ``rows`` keys."""
        used = len(self._slots)
        masses = np.zeros(rows, dtype=np.int64)
        masses[:used] = self._masses[:used]
        return self._sums.copy(rows), masses

    # --- merging --------------------------------------------------------------------------------------------

    def merge(self, other: "SketchTable", *, disjoint_units: bool = False) -> None:
        """Add another table's sketches to this one's, key by key, exactly.

        Parameters
        ----------
        other
            A table of the same projection.
        disjoint_units
            As in `Sketch.merge`. Without it, the sum allows a unit in as many keys as both tables together.

        Raises
        ------
        TypeError
            If ``other`` is not a SketchTable.
        InvalidInputError, IncompatibleProjectionsError, IncompatibleAgreementsError
            As in `Sketch.merge`; this table is then unchanged.
        """
        if not isinstance(other, SketchTable):
            raise wrong_type("only a SketchTable can be merged into a SketchTable", other, MERGED_TABLE)
        self._projection.check_same(other._projection)
        agreed = agreed_by(self._agreement, other._agreement)
        check_disjoint(self._ids, other._ids, disjoint_units=disjoint_units)
        slots = dict(self._slots)
        for key in other._slots:
            slots.setdefault(key, len(slots))
        sums, masses = self._resized(len(slots))
        places = np.fromiter((slots[key] for key in other._slots), dtype=np.int64, count=len(other))
        sums.add(other._sums, places)
        added = other._masses[: len(other)]
        masses[places] += np.minimum(added, MAX_MASS - masses[places])  # 2^63 - 1 stands for that and more
        self._sums, self._masses, self._slots = sums, masses, slots
        self._ids = self._ids.merged(other._ids)
        self._bounds = self._bounds.merged(other._bounds, keyed=True, disjoint_units=disjoint_units)
        self._agreement, self._largest = agreed, max(self._largest, other._largest)

    # --- reading --------------------------------------------------------------------------------------------

    @property
    def projection(self) -> Projection:
        """The public map."""
        return self._projection

    @property
    def agreement(self) -> "Agreement | None":
        """The agreement that all rows in it followed, if any."""
        return self._agreement

    @property
    def largest(self) -> int:
        """The largest |q| of an update of any key, in grid steps. As secret as the cells; see `Sketch.largest`."""
        return self._largest

    @property
    def bounds(self) -> Bounds:
        """The bounds that were enforced on the data of all keys and still hold; see `Sketch.bounds`."""
        return self._bounds

    @property
    def data_ids(self) -> DataIds:
        """Random ids of the data; each key's sketch has its own ids, derived from these and the key."""
        return self._ids

    @property
    def cells(self) -> Ints:
        """A copy of all exact cells, int64 of shape (n_keys, sketch_dim), in the order of the keys. Secret."""
        return self._sums.cells[self._ordered_slots()]

    def sums(self) -> ExactSums:
        """Return a copy of the exact sums of all keys, in their order: cells, and counts; see `Sketch.sums`. Secret."""
        return self._sums.of_keys(self._ordered_slots())

    def numbers(self) -> Iterator[Ints]:
        """Yield the numbers of each key in their order: `sums` one by one, as all may be too large to copy."""
        yield from (self._sums.row(slot) for slot in self._ordered_slots().tolist())

    @property
    def masses(self) -> Ints:
        """A copy of the l1 bound of each key (`Sketch.mass`), int64 of shape (n_keys,), in grid steps. Secret."""
        return self._masses[self._ordered_slots()]

    @property
    def counts(self) -> Ints | None:
        """A copy of the exact counts of each key, int64 of shape (n_keys, 2); None if units were not counted. Secret.

        The first count is the number of units that still contribute to the key after clipping. The second, under `L1`,
        is the sum of their absolute values; see `Sketch.counts`.
        """
        return self._sums.counts[self._ordered_slots()] if self._bounds.has_counts else None

    @property
    def nbytes(self) -> int:
        """The memory that the cells take, in bytes."""
        return self._sums.cells.nbytes

    def __getitem__(self, key: TableKey) -> Sketch:
        slot = self._slots.get(key)
        if slot is None:
            raise UnknownKeyError(
                f"the table has no sketch of {short(key)} (7 and '7' are different keys); sketch_of(key) returns an "
                "empty sketch for a key without events"
            )
        return self._sketch(self._sums.copy_of(slot), int(self._masses[slot]), self._largest, key)

    def sketch_of(self, key: object) -> Sketch:
        """Return a copy of a key's sketch, or an empty sketch for a key without events."""
        if key in self._slots:
            return self[key]
        return self._sketch(ExactSums(1, self._projection.sketch_dim), 0, 0, key)

    def sums_of(self, keys: Iterable[object]) -> ExactSums:
        """Return a copy of the exact sums of these keys, in their order: zeros for keys without events. **Secret**."""
        slots = np.array([self._slots.get(key, -1) for key in keys], dtype=np.int64)
        if not self._slots:
            return ExactSums(slots.size, self._projection.sketch_dim)
        taken = self._sums.of_keys(np.maximum(slots, 0))
        taken.cells[slots < 0], taken.counts[slots < 0] = 0, 0
        return taken

    def _sketch(self, sums: ExactSums, mass: int, largest: int, key: object) -> Sketch:
        facts = self._ids.of_key(key), self._agreement, self._bounds
        return Sketch._of_sums(self._projection, sums, mass, largest, *facts)

    def __iter__(self) -> Iterator[Any]:
        return iter(sorted(self._slots, key=_rank))

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, key: object) -> bool:
        return key in self._slots

    def _ordered_slots(self) -> NDArray[np.int64]:
        return np.fromiter((self._slots[key] for key in self), dtype=np.int64, count=len(self))

    def copy(self) -> "SketchTable":
        """Return an independent copy."""
        duplicate = SketchTable(self._projection)
        duplicate._slots = dict(self._slots)
        duplicate._sums, duplicate._masses = self._resized(len(self._slots))
        duplicate._ids, duplicate._agreement, duplicate._largest = self._ids, self._agreement, self._largest
        duplicate._bounds = self._bounds
        return duplicate

    def with_facts(self, *, ids: DataIds, agreement: "Agreement | None", bounds: Bounds) -> "SketchTable":
        """Return a copy that states these ids, agreement and bounds; see `Sketch.with_facts`."""
        duplicate = self.copy()
        duplicate._ids, duplicate._agreement, duplicate._bounds = ids, agreement, bounds
        return duplicate

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> "SketchTable":
        return self.copy()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SketchTable):
            return NotImplemented
        return (
            self._projection == other._projection
            and self._slots.keys() == other._slots.keys()
            and all(
                np.array_equal(self._sums.cells[slot], other._sums.cells[other._slots[key]])
                for key, slot in self._slots.items()
            )
        )

    def __getstate__(self) -> dict[str, Any]:
        saved = vars(self.copy())  # without spare rows
        del saved["_last_keys"]
        return saved

    def __setstate__(self, saved: dict[str, Any]) -> None:
        self.__dict__.update(saved)
        self._last_keys = LastKeys()
        self._sums, self._masses = self._resized(len(self._slots))  # what a pickle brings may be shared or read-only

    def __repr__(self) -> str:
        return f"<SketchTable, secret, of {len(self)} keys, {self._projection!r}>"

    # --- publishing -----------------------------------------------------------------------------------------

    def release(  # noqa: PLR0913 - a release is asked for by keyword
        self,
        *,
        epsilon: float | None = None,
        neighbours: "Neighbours | None" = None,
        delta: float | None = None,
        mechanism: str | None = None,
        public_keys: Iterable[object] | None = None,
        keys_are_public: bool = False,
        assert_bounds: bool = False,
        again: bool = False,
        ledger: "Ledger | None" = None,
        dataset: str | None = None,
    ) -> "PrivateTable":
        """Return a release of the table, which may leave the party: the cells of every key plus exact discrete noise.

        The release as a whole is (ε, δ)-differentially private for ``neighbours``. Their ``max_keys`` states how many
        keys one unit may touch, each by the bound at most; the noise of each key is calibrated to all of them
        (Theory 4.2). For theorems, and for counts of units, see `Sketch.release`. Every call is one more release of
        the same data.

        Parameters
        ----------
        epsilon, delta, mechanism
            As in `Sketch.release`, for the table as a whole.
        neighbours
            The change to hide: ``L1(bound, max_keys=m)`` or ``OneCoordinate(bound, max_keys=m)``. A unit in more keys,
            or with more than the bound in one of them, must be clipped before it reaches the table.
        public_keys
            The keys to release, chosen without looking at the data. A key without data is released as noise alone. Data
            of other keys are left out.
        keys_are_public
            Your assertion that the keys in the table are public, instead of ``public_keys``; a condition of the
            guarantee.
        assert_bounds, again
            As in `Sketch.release`.
        ledger, dataset
            As in `Sketch.release`. The table is charged as one release.

        Raises
        ------
        InvalidInputError
            If neither or both of ``public_keys`` and ``keys_are_public`` are given, if there is no key, or if the keys
            have no common type; and as in `Sketch.release`.

        Examples
        --------
        >>> from streamsketch import L1, SJLT
        >>> table = SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7).table()
        >>> table.update(["AA", "UA"], [17, 18])
        >>> one_sale = L1(1, unit="sale", max_keys=2)
        >>> list(table.release(epsilon=1.0, neighbours=one_sale, public_keys=["UA", "DL", "AA"]))
        ['AA', 'DL', 'UA']
        """
        noise = publishing().noise_asked(
            self.bounds, self.agreement, epsilon=epsilon, delta=delta, mechanism=mechanism, neighbours=neighbours
        )
        released: PrivateTable = noise.release_table(
            self,
            public_keys=public_keys,
            keys_are_public=keys_are_public,
            assert_bounds=assert_bounds,
            again=again,
            ledger=ledger,
            dataset=dataset,
        )
        return released


def sketch(rows: object, agreement: "Agreement") -> Sketch | SketchTable:
    """Return the exact, secret sketch of a table's rows, or one sketch per key if the agreement has a key column.

    Columns are cast to the agreed types. Nothing is clipped: what a unit contributes must already be within the agreed
    bound. `streamsketch.bound` clips.

    Parameters
    ----------
    rows
        A pandas or polars data frame, an Arrow table, a DuckDB relation, or any other table with Arrow's C stream.
    agreement
        The columns, their types and order.

    Returns
    -------
    SketchTable or Sketch
        A table if the agreement has a key column, else one sketch.

    Raises
    ------
    TypeError, InvalidInputError
        As in `streamsketch.intake.Intake.batches`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from streamsketch import SJLT, Agreement
    >>> projection = SJLT(sketch_dim=64, sparsity=4, seed=7)
    >>> agreement = Agreement(projection, index={"item": "integer"}, key="shop", value="sold")
    >>> table = sketch(pa.table({"shop": ["N", "S"], "item": ["007", "8"], "sold": [3, 2]}), agreement)
    >>> table == sketch(pa.table({"shop": ["N", "S"], "item": [7, 8], "sold": [3.0, 2.0]}), agreement)
    True
    """
    agreement = Intake(agreement).agreement  # checks the type
    started: Sketch | SketchTable = Sketch(agreement) if agreement.key is None else SketchTable(agreement)
    started.update_rows(rows)
    return started


def _rank(key: object) -> tuple[str, Any]:
    """Return a sort key for keys of all types: text by code point, bytes bytewise, numbers and dates by size."""
    return type(key).__name__, key
