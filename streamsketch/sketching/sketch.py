"""Sketch: one stream's exact, secret state."""

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from streamsketch.agreement.publishing import publishing
from streamsketch.core.numbers import Ints
from streamsketch.core.wrong import MERGED, wrong_type
from streamsketch.data import data_ids
from streamsketch.data.data_ids import DataIds
from streamsketch.kernels.slots import add_dense
from streamsketch.privacy.bounds import NO_DATA, UNKNOWN, Bounds
from streamsketch.projections.base import MAX_MASS, Projection
from streamsketch.sketching.encoding import agreed_by, check_disjoint, check_state, encode_batch, events_of, parts_of
from streamsketch.sketching.exact import ExactSums

if TYPE_CHECKING:
    from streamsketch.accounting.ledger import Ledger
    from streamsketch.agreement.agreement import Agreement
    from streamsketch.intake.events import Events
    from streamsketch.privacy.neighbours import Neighbours
    from streamsketch.release.private_sketch import PrivateSketch

_INTEGERS = frozenset({int, *(np.dtype(code).type for code in np.typecodes["AllInteger"])})
_BUFFER = 1024  # single events wait here, so that a kernel call serves many


class Sketch:
    """One stream's sketch ``y = A x̃``: exact int64 cells, mergeable, and **secret**.

    A merge is exact and independent of order, so splitting a stream over any number of workers gives the same bits. The
    state is never printed and has no public byte format: publish what `release` returns. Copies, pickles and
    comparisons are exact. Do not use a sketch in several threads at once.

    Parameters
    ----------
    projection
        The public map, shared by all parties, or their `Agreement`.

    Examples
    --------
    >>> from streamsketch import SJLT
    >>> projection = SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7)
    >>> one, other = projection.sketch(), projection.sketch()
    >>> one.update(17, 3)
    >>> other.update([17, 99], [-3, 1])
    >>> one.merge(other)
    >>> single = projection.sketch()
    >>> single.update(99)
    >>> one == single
    True
    """

    __slots__ = (
        *("_agreement", "_bounds", "_dim", "_ids", "_indices", "_largest"),
        *("_mass", "_pending", "_projection", "_state", "_sums", "_values"),
    )
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, projection: "Projection | Agreement") -> None:
        projection, agreement = parts_of(projection, "Sketch")
        self._restore(projection, ExactSums(1, projection.sketch_dim), 0, 0, data_ids.new(), agreement, NO_DATA)

    def _restore(
        self,
        projection: Projection,
        sums: ExactSums,
        mass: int,
        largest: int,
        ids: DataIds,
        agreement: "Agreement | None",
        bounds: Bounds = UNKNOWN,
    ) -> None:
        self._projection = projection
        self._agreement = agreement
        self._bounds = bounds
        self._ids = ids
        self._dim = projection.dim
        self._sums = sums
        self._state: Ints = sums.cells[0]  # a view
        self._mass = mass
        self._largest = largest
        self._pending = 0
        self._indices = self._values = memoryview(bytearray())

    def _fit_buffer(self, slots: int) -> None:
        """Give the buffer room for ``slots`` events, or none if values must be quantised first."""
        if self._projection.grid != 1:
            slots = 0
        if slots != len(self._indices):
            self._indices = memoryview(array("Q", bytes(8 * slots)))
            self._values = memoryview(array("i", bytes(4 * slots)))

    @classmethod
    def from_state(
        cls,
        projection: Projection,
        state: Ints | ExactSums,
        mass: int,
        *,
        largest: int = 0,
        ids: DataIds | None = None,
        agreement: "Agreement | None" = None,
        bounds: Bounds = UNKNOWN,
    ) -> "Sketch":
        """Return a sketch with a copy of the given cells.

        Parameters
        ----------
        projection
            The public map.
        state
            Cells: int64, (sketch_dim,), in grid steps; or exact sums of one key as `sums` returns them. Cells alone
            have no counts, even if the bounds state that units were counted.
        mass
            The l1 bound Σ|q| of the updates in ``state``, in grid steps; 2^63 - 1 represents all larger ones.
        largest
            The largest |q| of the updates, in grid steps, as far as it is known.
        ids, agreement, bounds
            Ids of the data, by default new ones; the agreement that the updates followed, if any; and the bounds that
            were enforced on the updates, by default none.

        Raises
        ------
        TypeError
            If ``state`` is not a NumPy array.
        InvalidInputError
            If ``state`` is not int64 of shape (sketch_dim,), or ``mass`` is smaller than a cell allows.
        """
        mass = check_state(projection, state, mass)
        if isinstance(state, ExactSums):
            sums = state.copy()
        else:
            sums, bounds = ExactSums.of(state), bounds.without_counts()
        return cls._of_sums(projection, sums, mass, largest, ids or data_ids.new(), agreement, bounds)

    @classmethod
    def _of_sums(cls, *state: Any) -> "Sketch":
        """Return the sketch of what `_restore` takes; the sums are neither checked nor copied."""
        sketch = cls.__new__(cls)
        sketch._restore(*state)
        return sketch

    # --- updating -------------------------------------------------------------------------------------------

    def update(self, indices: Any, values: Any = 1) -> None:
        """Add one event or a batch of events to the stream.

        Parameters
        ----------
        indices
            One integer in [0, dim), or a one-dimensional array, list or Arrow column of them. Text, bytes, dates and
            times are hashed (dim must then be 2^60); times without a zone count as UTC. For tuples, pass
            ``projection.indices_of(…)`` of their parts as columns; a tuple itself is read as a list of indices.
        values
            One number for all, or one for each index: integers, floats or decimals in data units, positive or negative.
            Each becomes trunc(value / resolution), so fractions need a resolution below 1. If part of a value is lost,
            a `TruncationWarning` informs the operator. A float is taken at its exact binary value: 0.29 on a grid of
            1/100 is 28 steps, ``Decimal("0.29")`` is 29.

        Raises
        ------
        InvalidInputError
            For an index out of range, NaN, infinities, a value of 2^63 grid steps or more, nulls, wrong types or
            lengths that differ. The sketch is then unchanged.

        Notes
        -----
        Cells are sums modulo 2^64. A sum that exceeds 63 bits is not refused: a single event could then decide whether
        there is a release. It costs accuracy but no privacy (Theory 4.2). The party sees it in `mass`.
        """
        if type(indices) is int and type(values) is int:
            try:
                pending = self._pending
                self._indices[pending] = indices  # raises ValueError outside [0, 2^64)
                self._values[pending] = values  # raises ValueError outside 32 bits
                if indices < self._dim:
                    self._pending = pending + 1
                    return
            except IndexError:  # the buffer is full, or not there yet
                self._flush()
                self._fit_buffer(_BUFFER)
                if len(self._indices):
                    self.update(indices, values)
                    return
            except ValueError:
                pass
        elif type(indices) in _INTEGERS and type(values) in _INTEGERS:
            self.update(int(indices), int(values))
            return
        encoded, quantised = encode_batch(self._projection, indices, values)
        self.add_steps(encoded, quantised)

    def add_steps(self, indices: Ints, steps: Ints) -> None:
        """Add events that are already encoded and quantised: two C-contiguous int64 arrays of shape (n,).

        Raises
        ------
        InvalidInputError
            For an index outside [0, dim); the sketch is then unchanged.
        """
        if self._pending:
            self._flush()
        added, largest = self._projection.add_to(self._state, indices, steps)
        if self._bounds is not UNKNOWN:
            self._bounds = self._bounds.updated()
        self._mass = min(self._mass + added, MAX_MASS)
        self._largest = largest if largest > self._largest else self._largest  # noqa: FURB136 - a call takes longer

    def add_events(self, events: "Events") -> None:
        """Add a batch of rows that `intake.Intake` has read. Raises the same errors as `add_steps`."""
        if events.features is None:
            self.add_steps(events.indices, events.steps)
            return
        if self._pending:
            self._flush()
        mass = np.zeros(1, dtype=np.int64)
        slots = np.zeros(len(events), dtype=np.int64)
        largest = add_dense(self._sums.cells, mass, slots, events.features)
        if self._bounds is not UNKNOWN:
            self._bounds = self._bounds.updated()
        self._mass = min(self._mass + int(mass[0]), MAX_MASS)
        self._largest = max(self._largest, largest)

    def update_rows(self, rows: Any, *, index: str | Sequence[str] | None = None, value: str | None = None) -> None:
        """Add the rows of a table of pandas, polars, Arrow, DuckDB, or any other library with Arrow's C stream.

        Parameters
        ----------
        rows
            The table; lazy ones are read batch by batch.
        index
            Name of the column of indices, or several names for tuples. Leave it out if the sketch has an agreement,
            which gives the columns and the types that they are cast to.
        value
            Name of the column of values; by default each row counts 1. Also leave it out if the sketch has an
            agreement.

        Raises
        ------
        TypeError
            If ``rows`` is not such a table.
        InvalidInputError
            For missing columns, and as in `update`. After any error the sketch is unchanged.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from streamsketch import CountSketch
        >>> sketch = CountSketch(sketch_dim=64, seed=7).sketch()
        >>> sketch.update_rows(pa.table({"item": ["milk", "pears"], "sold": [3, 2]}), index="item", value="sold")
        """
        added = Sketch(self._projection)
        added._ids, added._agreement, added._bounds = self._ids, self._agreement, UNKNOWN  # with or without rows
        for events in events_of(rows, self._projection, self._agreement, index=index, value=value):
            added.add_events(events)
        self.merge(added)

    def _flush(self) -> None:
        if self._pending:
            indices = np.frombuffer(self._indices, dtype=np.int64, count=self._pending)
            values = np.frombuffer(self._values, dtype=np.int32, count=self._pending).astype(np.int64)
            self._pending = 0
            self.add_steps(indices, values)

    # --- merging --------------------------------------------------------------------------------------------

    def merge(self, other: "Sketch", *, disjoint_units: bool = False) -> None:
        """Add another stream's sketch to this one, exactly.

        Parameters
        ----------
        other
            A sketch of the same projection.
        disjoint_units
            Your assertion that no privacy unit is in both. The bounds that were enforced on both then stay as they are,
            and the guarantee of a release lists the assertion as a condition. Without it the two bounds add up
            (`bounds`).

        Raises
        ------
        TypeError
            If ``other`` is not a Sketch.
        InvalidInputError
            If ``disjoint_units`` is set although the two share data, as copies do. Their data ids show it.
        IncompatibleProjectionsError, IncompatibleAgreementsError
            If the projections or the agreements differ; this sketch is then unchanged. If ``other`` has no agreement,
            the sum has none either, and there is no error.
        """
        self._combine(other, 1, disjoint_units=disjoint_units)

    def _combine(self, other: "Sketch", sign: int, *, disjoint_units: bool = False) -> None:
        if not isinstance(other, Sketch):
            raise wrong_type("only a Sketch of the same projection can be merged into a Sketch", other, MERGED)
        self._projection.check_same(other._projection)
        agreed = agreed_by(self._agreement, other._agreement)
        check_disjoint(self._ids, other._ids, disjoint_units=disjoint_units)
        self._flush()
        other._flush()
        self._bounds = self._bounds.merged(other._bounds, keyed=False, disjoint_units=disjoint_units)
        self._agreement = agreed
        self._largest = max(self._largest, other._largest)
        self._sums.add(other._sums, sign=sign)
        self._mass = min(self._mass + other._mass, MAX_MASS)
        self._ids = self._ids.merged(other._ids)

    def __iadd__(self, other: "Sketch") -> Self:
        self._combine(other, 1)
        return self

    def __isub__(self, other: "Sketch") -> Self:
        self._combine(other, -1)
        return self

    def __add__(self, other: "Sketch") -> "Sketch":
        total = self.copy()
        total._combine(other, 1)
        return total

    def __sub__(self, other: "Sketch") -> "Sketch":
        total = self.copy()
        total._combine(other, -1)
        return total

    # --- reading --------------------------------------------------------------------------------------------

    @property
    def projection(self) -> Projection:
        """The public map."""
        return self._projection

    @property
    def agreement(self) -> "Agreement | None":
        """The agreement that all rows in the sketch follow, or None."""
        return self._agreement

    def state(self) -> Ints:
        """Return a copy of the exact cells ``A x̃``, which are secret.

        This is a method, as in `PanPrivateSketch`, so that no tool that lists attributes reads the secret.

        Returns
        -------
        ndarray
            int64, (sketch_dim,), in grid steps.
        """
        self._flush()
        return self._state.copy()

    def sums(self) -> ExactSums:
        """Return a copy of the exact sums: the cells, and the counts of all that was merged. Secret.

        Whether these counts are complete is in the bounds, which an engine may hold elsewhere; see `counts`.
        """
        self._flush()
        return self._sums.copy()

    @property
    def mass(self) -> int:
        """The l1 bound Σ|q| over all updates, in grid steps. It is as secret as the cells, and saturates at 2^63 - 1.

        No cell exceeds ``mass`` times the map's largest entry. If that product is 2^63 or more, cells may have wrapped
        around.
        """
        self._flush()
        return self._mass

    @property
    def largest(self) -> int:
        """The largest |q| of an update, in grid steps. Secret; `release` warns if it exceeds the bound."""
        self._flush()
        return self._largest

    @property
    def bounds(self) -> Bounds:
        """The bounds that were enforced on the data and still hold.

        `release` refuses neighbours that they do not imply.

        `bound` and `bound_units` enforce bounds. Bounds add up in a sum or a difference of two sketches, unless
        ``merge(…, disjoint_units=True)`` asserts that no unit is in both. After any other update no bounds hold.
        """
        self._flush()
        return self._bounds

    @property
    def counts(self) -> Ints | None:
        """A copy of the exact counts, int64 of shape (2,), modulo 2^64; None if units were not counted. Secret.

        The first count is the number of units that still contribute after clipping. The second, under `L1`, is the sum
        of the absolute values that these units contribute, in grid steps. `bound` and `bound_units` count units. A
        merge with ``disjoint_units=True`` adds the counts up; any other update, sum or difference drops them.
        """
        self._flush()
        return self._sums.counts[0].copy() if self._bounds.has_counts else None

    @property
    def data_ids(self) -> DataIds:
        """Random ids of the data, which copies, pickles and merges inherit (see `streamsketch.data.data_ids`)."""
        return self._ids

    def copy(self) -> "Sketch":
        """Return an independent copy."""
        duplicate = type(self).__new__(type(self))
        duplicate.__setstate__(self.__getstate__())
        return duplicate

    def with_facts(self, *, ids: DataIds, agreement: "Agreement | None", bounds: Bounds) -> "Sketch":
        """Return a copy that states these ids, agreement and bounds, as an engine does that holds them elsewhere."""
        sums = self.sums()
        return Sketch.from_state(
            self._projection, sums, self._mass, largest=self._largest, ids=ids, agreement=agreement, bounds=bounds
        )

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> "Sketch":
        return self.copy()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sketch):
            return NotImplemented
        self._flush()
        other._flush()
        return self._projection == other._projection and np.array_equal(self._state, other._state)

    def __getstate__(self) -> tuple[Any, ...]:
        self._flush()
        return self._projection, self._sums, self._mass, self._largest, self._ids, self._agreement, self._bounds

    def __setstate__(self, saved: tuple[Any, ...]) -> None:
        projection, sums, *others = saved
        self._restore(projection, sums.copy(), *others)

    def __repr__(self) -> str:
        return f"<Sketch, secret, of {self._projection!r}>"

    # --- publishing -----------------------------------------------------------------------------------------

    def release(
        self,
        *,
        epsilon: float | None = None,
        neighbours: "Neighbours | None" = None,
        delta: float | None = None,
        mechanism: str | None = None,
        assert_bounds: bool = False,
        again: bool = False,
        ledger: "Ledger | None" = None,
        dataset: str | None = None,
    ) -> "PrivateSketch":
        """Return a private release: the cells plus exact discrete noise from the operating system's CSPRNG.

        The result is (ε, δ)-differentially private for ``neighbours``: for ``"laplace"`` with δ = 0 (Dwork and Roth
        2014, Theorem 3.6, on the integer lattice; Stausholm 2021, Lemma 1), for ``"gaussian"`` by the analytic
        calibration of Balle and Wang 2018, Theorem 8, extended to the lattice (Theory 3). Every call is another
        release of the same data, and the privacy losses add up (`streamsketch.compose`). If the agreement has
        ``counting``, and units were counted (`counts`), the release also holds noisy counts of units
        (`PrivateSketch.units`).

        Parameters
        ----------
        epsilon
            Privacy loss bound in nats, > 0. An agreement with terms states it, with δ and the mechanism; leave it out.
        neighbours
            The neighbour relation, that is, the change of the stream to hide: ``L1(bound)``, ``SketchL2(bound)`` or
            ``OneCoordinate(bound)``; by default that to which the data were bounded, or that of their agreement.
            Contributions beyond the bound must be clipped before the rows are sketched, or, for `SketchL2`, while they
            are sketched. `streamsketch.bound` does both.
        delta
            In [0, 1), by default 0.
        mechanism
            ``"laplace"`` or ``"gaussian"``; ``"auto"`` for Laplace if δ < exp(-Δ1²/Δ2²) and otherwise Gaussian
            (Stausholm 2021, Note 5); or ``"least-variance"`` for the smaller predicted variance of a squared distance
            between close streams. The rule of ``"auto"`` ignores constants. For an `SJLT` of sparsity 8 and ε = 1, it
            takes Laplace noise for δ < 3.4e-4, although Gaussian noise gives a smaller standard error from δ = 2e-7 on:
            by a factor of 1.2 at δ = 1e-6 and of 2.4 at 3e-4. `streamsketch.plan` chooses by the least error, and
            `PrivateSketch.explain` shows which noise would be better, and by which factor.
        assert_bounds
            Your assertion that the data keep to ``neighbours`` although another bound is known for them (`bounds`, or
            the bound of their agreement). The guarantee states whether its bound was enforced or is asserted.
        again
            Whether a further release of the same data is meant. Otherwise a second release of them in this process is
            warned of (`ReleasedAgainWarning`), before it is charged and drawn.
        ledger, dataset
            A `streamsketch.Ledger`, and the ledger's name for the data set that was sketched. The release is charged to
            that data set's budget before noise is drawn.

        Returns
        -------
        PrivateSketch
            The release, which may leave the party.

        Raises
        ------
        InvalidInputError
            If ε or δ is out of range, for Gaussian noise with δ = 0, or if the noise is too wide for exact 64-bit
            sampling. If neither the bounds enforced on the data nor their agreement imply ``neighbours``. If the sketch
            is new and its agreement names units: its release would show that it has no rows. If readers would refuse
            the release for its size (`Limits`). If ε or the neighbours are left out and nothing states them.
        IncompatibleAgreementsError
            If the agreement has terms, and the release would keep to others.
        LedgerError
            If the release exceeds the budget that is left for the data set. Nothing is charged then.

        Examples
        --------
        >>> from streamsketch import L1, SJLT
        >>> basket = SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7).sketch()
        >>> basket.update([17, 18], [3, 1])
        >>> basket.release(epsilon=1.0, neighbours=L1(1)).guarantee.epsilon
        1.0
        """
        noise = publishing().noise_asked(
            self.bounds, self.agreement, epsilon=epsilon, delta=delta, mechanism=mechanism, neighbours=neighbours
        )
        released: PrivateSketch = noise.release(
            self, assert_bounds=assert_bounds, again=again, ledger=ledger, dataset=dataset
        )
        return released
