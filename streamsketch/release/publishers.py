"""How sketches are published: the protocol of every release, and additive noise on the cells, the usual mechanism."""

import dataclasses
import functools
from abc import ABC, abstractmethod
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar, cast, get_args

import numpy as np

from streamsketch.accounting import (
    Ledger,
    charge,
    charge_for,
    check_mechanism,
    check_whole_steps,
    guarantee_of,
    sensitivity_of,
)
from streamsketch.core import Ints, warn_outside
from streamsketch.data import DataIds, data_ids, matrix_of
from streamsketch.errors import BoundExceededWarning, InvalidInputError
from streamsketch.privacy import (
    BitSource,
    Bounds,
    Budget,
    Counting,
    Neighbours,
    Noise,
    NoisePlace,
    Sensitivity,
    SketchL2,
    SystemBits,
    calibration,
)
from streamsketch.projections import Projection, transform_read
from streamsketch.release.history import HistoryPart
from streamsketch.release.keys_to_release import sketches_to_release
from streamsketch.release.private_sketch import RELEASE_ID_BYTES, PrivateSketch, SketchClip
from streamsketch.release.private_table import PrivateTable
from streamsketch.release.published import with_agreement
from streamsketch.schedules import Schedule
from streamsketch.sketching import Sketch, SketchTable

PublishedT = TypeVar("PublishedT")


def warn_of_exceeded(largest: int, neighbours: Neighbours, projection: Projection) -> None:
    """Warn if the largest |value| of a sketch, in grid steps, exceeds what one unit may contribute.

    The warning depends on the data. Only the operator sees it, who may see the data; it changes no published byte. An
    error would be visible to everyone.
    """
    if isinstance(neighbours, SketchL2):  # a row of |q| moves the cells by |q| or more, and clipped cells keep to it
        exceeds = largest > neighbours.cell_steps(projection)
    else:
        exceeds = largest * projection.grid > Fraction(neighbours.bound)
    if exceeds:
        warn_outside(
            f"an event in this sketch is larger than the bound of {neighbours.bound} for one {neighbours.unit}. "
            f"Unless it is the total of several {neighbours.units}, it is not protected: clip each contribution before "
            "it is sketched, or release for a larger bound. This warning depends on the data, as does `largest` of the "
            "sketch (in grid steps): do not publish them",
            BoundExceededWarning,
        )


def numbers_of(sketch: Sketch, neighbours: Neighbours, counting: Counting | None) -> Ints:
    """Return the exact numbers that noise is added to: the cells of a sketch, and its weighted counts behind them.

    Parameters
    ----------
    sketch
        Exact, with `counts` if ``counting`` is set. The caller has checked that with `Bounds.counts_for`.
    neighbours, counting
        Of the release.

    Returns
    -------
    ndarray
        int64, (k,) or longer by `Counting.numbers`.
    """
    cells = sketch.state()
    if counting is None:
        return cells
    counts = sketch.counts
    if counts is None:
        raise InvalidInputError("the sketch has no count of units, although its guarantee states one")
    bound = neighbours.grid_steps(sketch.projection.grid) if counting.slack else 0
    return np.concatenate([cells, *counting.weighted(counts.reshape(1, -1), bound)])


class _Judged(NamedTuple):
    """What is known about data, which determines whether a guarantee's bound is enforced or asserted."""

    bounds: Bounds
    agreed: Neighbours | None
    assert_bounds: bool


def _judged(data: Sketch | SketchTable, assert_bounds: bool) -> _Judged:  # noqa: FBT001 - as its field
    return _Judged(data.bounds, None if data.agreement is None else data.agreement.neighbours, assert_bounds)


@dataclasses.dataclass(frozen=True)
class Calibrated(ABC, Generic[PublishedT]):
    """A publisher calibrated to one projection, for any number of its sketches.

    Parameters
    ----------
    projection
        The public map.
    guarantee
        What each release states. The caller must ensure that the drawn noise achieves it.
    """

    projection: Projection
    guarantee: Any
    _judged: _Judged | None = dataclasses.field(default=None, init=False, repr=False, compare=False)
    """The data for which `on` determined the basis of the guarantee; None if the caller stated it."""

    def release(self, sketch: Sketch, bits: BitSource | None = None) -> PublishedT:
        """Return what may be published of a sketch.

        Parameters
        ----------
        sketch
            A sketch of the projection.
        bits
            Secret and uniform; by default of the operating system's CSPRNG.

        Raises
        ------
        TypeError
            If ``sketch`` is not a `Sketch`.
        IncompatibleProjectionsError
            If it is of another projection. Never for what the sketch holds.
        InvalidInputError
            As in `on`, if the guarantee has no basis yet, or one that was determined for other data.
        """
        _check_sketch(sketch)
        self.projection.check_same(sketch.projection)
        if self.guarantee.basis is None:
            return self.on(sketch).release(sketch, bits)
        if self._judged is not None and self._judged != _judged(sketch, self._judged.assert_bounds):
            return self.on(sketch, assert_bounds=self._judged.assert_bounds).release(sketch, bits)
        (released,) = self._draw(self._exact(sketch), bits or SystemBits(), sketch.data_ids)
        released = self._described(released, sketch.bounds)
        return released if sketch.agreement is None else with_agreement(released, sketch.agreement.fingerprint)

    def release_rows(
        self, matrix: Any, *, ledger: Ledger | None = None, dataset: str | None = None
    ) -> list[PublishedT]:
        """Return a release of each row of a matrix; see `Publisher.release_rows`."""
        if self.guarantee.basis is None or self._judged is not None:
            asserted = self.with_guarantee(self.guarantee.on("asserted"))
            return asserted.release_rows(matrix, ledger=ledger, dataset=dataset)
        given = matrix_of(matrix, exact=True)
        check_whole_steps(self.projection, self.guarantee.neighbours, given.dtype)
        cells = transform_read(self.projection, given, exact=True)
        charge_for(ledger, dataset, self.guarantee, self.projection)
        return self._draw(cells, SystemBits(), None)

    def check_single(self) -> None:
        """Raise `InvalidInputError` unless what is published is a release of one sketch or table by itself."""

    def with_guarantee(self, guarantee: Any) -> Self:
        """Return a copy whose releases state another guarantee, such as one that includes key selection."""
        return dataclasses.replace(self, guarantee=guarantee)

    def on(self, data: Sketch | SketchTable, *, assert_bounds: bool = False) -> Self:
        """Return the same for these data: the guarantee states whether its bound was enforced on them, or is asserted.

        Parameters
        ----------
        data
            What is to be released.
        assert_bounds
            As in `Sketch.release`.

        Raises
        ------
        InvalidInputError
            If what is known of the data does not imply the neighbour relation (`Bounds.basis_for`).
        """
        if data.bounds.together > 1 and not (assert_bounds or self.holds_together):
            raise InvalidInputError(
                f"units were bounded over {data.bounds.together} keys together, for which {self.guarantee.mechanism} "
                "is not proven private: bound each key by itself (max_keys of the neighbours), or add noise to the "
                "cells"
            )
        known = self._known_of(data, assert_bounds)
        basis = known.bounds.basis_for(self.guarantee.neighbours, known.agreed, assert_bounds=assert_bounds)
        conditions = known.bounds.conditions if basis == "enforced" else ()
        found = self.with_guarantee(self.guarantee.on(basis, conditions))
        object.__setattr__(found, "_judged", known)
        return found

    def _known_of(self, data: Sketch | SketchTable, assert_bounds: bool) -> _Judged:  # noqa: FBT001 - as its field
        """Return what is known of data, as `on` compares it with the neighbours of the guarantee."""
        return _judged(data, assert_bounds)

    @property
    def holds_together(self) -> bool:
        """Whether the guarantee is proven for units whose bound holds for several keys together (Theory 4.2)."""
        return False

    def _exact(self, sketch: Sketch) -> Ints:
        """Return the exact numbers of which `_draw` publishes something: int64, (1, n)."""
        return sketch.state().reshape(1, -1)

    def _described(self, released: PublishedT, bounds: Bounds) -> PublishedT:
        """Return a release that states what readers must know about the data's bounds."""
        del bounds
        return released

    @abstractmethod
    def _draw(self, exact: Ints, bits: BitSource, ids: DataIds | None) -> list[PublishedT]:
        """Return a release of each row of exact numbers, (n, k); of rows of a matrix, the data have no ids yet."""


class Publisher(ABC, Generic[PublishedT]):
    """How something is published: a budget, a neighbour relation and a mechanism, for sketches of any projection.

    `Sketch.release`, Beam's transforms, the ``release`` command and the mechanisms of `streamsketch.signs` all use one.
    """

    published: ClassVar[type[Any] | None] = None
    """Type of the release of one key of a table; None if the mechanism has no guarantee for tables."""

    neighbours: Neighbours

    @abstractmethod
    def calibrated(self, projection: Projection) -> Calibrated[PublishedT]:
        """Return the publisher calibrated to a projection, without drawing noise.

        Raises
        ------
        InvalidInputError
            If the mechanism is not private for the projection, or cannot draw its noise. Every sketch of a projection
            that passes can be released, so that no refusal reveals data.
        """

    def guarantee(self, projection: Projection) -> Any:
        """Return the guarantee of a release of a sketch of ``projection``. Raises the same errors as `calibrated`."""
        return self.calibrated(projection).guarantee

    def release(
        self,
        sketch: Sketch,
        *,
        assert_bounds: bool = False,
        ledger: Ledger | None = None,
        dataset: str | None = None,
    ) -> PublishedT:
        """Return a release of a sketch, with noise from the operating system's CSPRNG.

        Parameters
        ----------
        sketch
            A sketch of a projection for which the mechanism is private.
        assert_bounds
            As in `Sketch.release`.
        ledger, dataset
            As in `Sketch.release`: the release is charged to a data set first.

        Raises
        ------
        TypeError
            If ``sketch`` is not a `Sketch`.
        InvalidInputError
            As in `calibrated` and `Calibrated.on`. What the sketch holds never causes an error.
        LedgerError
            If the release exceeds the budget that is left for the data set. Nothing is charged then.
        """
        _check_sketch(sketch)
        calibrated = self.calibrated(sketch.projection).on(sketch, assert_bounds=assert_bounds)
        warn_of_exceeded(sketch.largest, self.neighbours, sketch.projection)
        charge(ledger, dataset, calibrated.guarantee, sketch)
        return calibrated.release(sketch)

    def release_rows(
        self, projection: Projection, matrix: Any, *, ledger: Ledger | None = None, dataset: str | None = None
    ) -> list[PublishedT]:
        """Return one release for each row of a matrix, where a row is one person's vector.

        Parameters
        ----------
        projection
            The public map.
        matrix
            A matrix (n, dim) in a form that `Projection.transform` accepts. `L1` neighbours need integers, and a
            resolution of 1 or 1/n: fractions of several contributions would be truncated together.
        ledger, dataset
            As in `Sketch.release`; the rows are charged together, as one release.

        Raises
        ------
        InvalidInputError
            As in `calibrated` and `Projection.transform`, and for fractions under `L1`. Large sums cause no error: they
            are taken modulo 2^64.
        LedgerError
            If the release exceeds the budget that is left for the data set. Nothing is charged then.
        """
        return self.calibrated(projection).release_rows(matrix, ledger=ledger, dataset=dataset)

    def _by_key(
        self,
        table: SketchTable,
        public_keys: Iterable[Any] | None,
        *,
        keys_are_public: bool,
        assert_bounds: bool,
        ledger: Ledger | None,
        dataset: str | None,
    ) -> dict[Any, PublishedT]:
        """Return one release per key, as in `SketchTable.release`; a table class holds them as one release."""
        if not isinstance(table, SketchTable):
            raise TypeError(f"only a SketchTable is released as a table, got a {type(table).__name__}")
        calibrated = self.calibrated(table.projection).on(table, assert_bounds=assert_bounds)
        sketches = sketches_to_release(table, public_keys, keys_are_public=keys_are_public)
        warn_of_exceeded(table.largest, self.neighbours, table.projection)
        ids = table.data_ids.with_keys(sketches)
        charge_for(ledger, dataset, calibrated.guarantee, table.projection, ids)
        return {key: calibrated.release(sketch) for key, sketch in sketches.items()}


def _check_sketch(sketch: Sketch) -> None:
    if not isinstance(sketch, Sketch):
        raise TypeError(f"only a Sketch can be released, got a {type(sketch).__name__}")


def _unit_over(unit: str, schedule: Schedule) -> str:
    """Return the text of the unit in a schedule's guarantee, which states in how many windows it may be, if not all.

    Raises
    ------
    InvalidInputError
        If ``unit`` already states a number of windows, and the schedule has another one.
    """
    if schedule.is_unit(unit):
        return unit
    if f" of {schedule.horizon} windows" in unit:
        raise InvalidInputError(
            f"the unit is {unit!r}, and the noise of the schedule is for a unit{schedule.unit_text('')}: name the unit "
            f"alone, or pass a schedule with this max_windows and gap"
        )
    return schedule.unit_text(unit)


def _over_windows(known: Neighbours, schedule: Schedule, unit: str) -> Neighbours:
    """Return the relation for all windows of a unit, from the relation ``known`` that holds in each window.

    Its unit is ``unit``, from the publisher, if both name the same one: that text may state the length of windows.
    """
    if isinstance(known, SketchL2):
        known = dataclasses.replace(known.in_windows(schedule.most), max_keys=known.max_keys)
    own = _unit_over(known.unit, schedule)
    same = schedule.is_unit(unit) and unit.startswith(f"{known.unit} in ")
    return dataclasses.replace(known, unit=unit if same else own)


@dataclasses.dataclass(frozen=True)
class CalibratedNoise(Calibrated[PrivateSketch]):
    """Noise for the sketches of one projection.

    Parameters
    ----------
    projection, guarantee
        As in `Calibrated`.
    noise
        Distribution of each noise, in grid steps of its place.
    noise_place
        As in `PrivateSketch`. Anywhere but at the output, `published` takes what was drawn before the map.
    layers
        How many noises each published cell holds.
    """

    noise: Noise
    noise_place: NoisePlace = "output"
    layers: int = 1

    @property
    def schedule(self) -> Schedule | None:
        """The schedule for whose rows the noise is; None for single releases."""
        schedule: Schedule | None = self.guarantee.mechanism.schedule
        return schedule

    @property
    def holds_together(self) -> bool:
        """True, because noise on all cells of all keys hides a change of all of them together."""
        return True

    @property
    def counting(self) -> Counting | None:
        """What is counted beside the cells."""
        counting: Counting | None = self.guarantee.mechanism.counting
        return counting

    def on(self, data: Sketch | SketchTable, *, assert_bounds: bool = False) -> Self:
        """Return the same for these data; as `Calibrated.on`.

        Raises
        ------
        InvalidInputError
            Also if counts are to be published but units were not counted, which depends on how the data were
            processed, never on the data themselves; and for the rows of a schedule, which `Releaser` makes.
        """
        self.check_single()
        return self.on_window(data, assert_bounds=assert_bounds)

    def check_single(self) -> None:
        """Raise `InvalidInputError` if this is the noise of a schedule's rows, which are sums of windows."""
        if self.schedule is not None:
            raise InvalidInputError(
                f"{self.schedule} publishes rows, which are weighted sums of windows, not a single sketch or table: "
                "add each window to streamsketch.continual.Releaser(publisher, projection), or pass all windows to "
                "streamsketch.continual.release"
            )

    def on_window(self, data: Sketch | SketchTable, *, assert_bounds: bool = False) -> Self:
        """Return the same for the data of one window, or of single releases; as `on`."""
        if self.counting is not None and not data.bounds.counts_for(self.guarantee.neighbours):
            raise InvalidInputError(
                f"there is no count of the {self.guarantee.neighbours.units} in these data. streamsketch.bound counts "
                f"units while it bounds them, to neighbours of the same kind and each key by itself; rows added later "
                f"drop the count. Bound all rows in this way, or release without counting"
            )
        return super().on(data, assert_bounds=assert_bounds)

    def _known_of(self, data: Sketch | SketchTable, assert_bounds: bool) -> _Judged:  # noqa: FBT001 - as its field
        known, schedule = super()._known_of(data, assert_bounds), self.schedule
        if schedule is None:
            return known
        unit = self.guarantee.neighbours.unit
        bounds, agreed = known.bounds, known.agreed
        if bounds.neighbours is not None:
            bounds = dataclasses.replace(bounds, neighbours=_over_windows(bounds.neighbours, schedule, unit))
        agreed = None if agreed is None else _over_windows(agreed, schedule, unit)
        return known._replace(bounds=bounds, agreed=agreed)

    def release_rows(
        self, matrix: Any, *, ledger: Ledger | None = None, dataset: str | None = None
    ) -> list[PrivateSketch]:
        """Return a release of each row of a matrix; see `Publisher.release_rows`."""
        self.check_single()
        if self.counting is not None:
            raise InvalidInputError("counting is not supported for rows of a matrix; release them without counting")
        return super().release_rows(matrix, ledger=ledger, dataset=dataset)

    def published(
        self,
        noisy: Ints,
        bits: BitSource,
        ids: DataIds | Iterable[bytes] | None,
        counts: Ints | None = None,
        history: HistoryPart | None = None,
    ) -> PrivateSketch:
        """Return a release of cells and counts that already contain their noise; without ids, the data are new.

        Parameters
        ----------
        noisy
            Cells: int64, (k,).
        bits
            For the id of the release.
        ids
            Of the data; or published ones.
        counts, history
            As in `PrivateSketch`.
        """
        known = (ids or data_ids.new()).published() if ids is None or isinstance(ids, DataIds) else ids
        return PrivateSketch(
            self.projection,
            noisy,
            self.noise.cumulants.times(self.layers),
            self.guarantee,
            noise_place=self.noise_place,
            release_ids=[bits.read(RELEASE_ID_BYTES)],
            data_ids=known,
            counts=counts,
            history=history,
        )

    def _exact(self, sketch: Sketch) -> Ints:
        return numbers_of(sketch, self.guarantee.neighbours, self.counting).reshape(1, -1)

    def _described(self, released: PrivateSketch, bounds: Bounds) -> PrivateSketch:
        stated, enforced = self.guarantee.neighbours, bounds.neighbours
        is_known = self.guarantee.basis == "enforced" and bounds.counted  # no unit was added twice
        is_length = isinstance(stated, SketchL2) and enforced is not None and stated.bound == enforced.bound
        if is_known and is_length and bounds.clip in get_args(SketchClip):
            return released.with_clip(cast("SketchClip", bounds.clip))
        return released

    def _draw(self, exact: Ints, bits: BitSource, ids: DataIds | None) -> list[PrivateSketch]:
        self.check_single()
        return [self._row_of(row, bits, ids) for row in self._noisy(exact, bits)]

    def drawn(
        self, exact: Ints, bits: BitSource, ids: Iterable[bytes], history: HistoryPart, bounds: Bounds
    ) -> PrivateSketch:
        """Return a row of a schedule, with noise.

        Parameters
        ----------
        exact
            Its numbers, the cells and what is counted beside them: int64, (n,).
        bits
            Secret and uniform.
        ids
            Published ids of the data.
        history
            Which row it is.
        bounds
            Of its data.
        """
        (noisy,) = self._noisy(exact.reshape(1, -1), bits)
        return self._described(self._row_of(noisy, bits, ids, history), bounds)

    def _noisy(self, exact: Ints, bits: BitSource) -> Ints:
        drawn = self.noise.sample(exact.size, bits).reshape(exact.shape)
        # modulo 2^64, as all sums of cells: that costs accuracy past 2^63, and no privacy (Theory 4.2)
        noisy: Ints = np.add(exact, drawn)
        return noisy

    def _row_of(
        self, noisy: Ints, bits: BitSource, ids: DataIds | Iterable[bytes] | None, history: HistoryPart | None = None
    ) -> PrivateSketch:
        cells = self.projection.sketch_dim
        return self.published(noisy[:cells], bits, ids, noisy[cells:] if noisy.size > cells else None, history)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdditiveNoise(Publisher[PrivateSketch]):
    """A mechanism that adds exact discrete noise to each cell; `Sketch.release` uses it.

    The release is (ε, δ)-differentially private for ``neighbours``; sources as in `Sketch.release`.

    Parameters
    ----------
    epsilon, delta, neighbours, mechanism
        As in `Sketch.release`.
    counting
        The weights of a count of units, and of slack, which are published beside the cells in the same draw. The data's
        units must be bounded to neighbours of this kind. By default nothing is counted.
    schedule
        The schedule of windows of time, if readers are to read any range of them. The noise is that of the schedule's
        rows. The guarantee covers all rows together, for one unit in as many windows as the schedule allows.
        ``neighbours`` bound what a unit adds to each window, or, for `SketchL2`, to all of them together.
        `streamsketch.continual.Releaser` makes the rows.

    Raises
    ------
    InvalidInputError, TypeError
        As in `Sketch.release`, except that `calibrated` reports noise too wide to sample; and for counting under
        neighbours for which it is not proven (`Counting`).

    Examples
    --------
    >>> from streamsketch import L1, SJLT
    >>> projection = SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7)
    >>> publish = AdditiveNoise(epsilon=1.0, neighbours=L1(1, unit="sale"))
    >>> print(publish.guarantee(projection))
    ε = 1, δ = 0 for one sale of at most 1 (L1), by discrete Laplace, scale 4
    >>> publish.release(projection.sketch()).values.shape
    (64,)
    """

    published = PrivateSketch

    epsilon: float
    neighbours: Neighbours
    delta: float = 0.0
    mechanism: str = "auto"
    counting: Counting | None = None
    schedule: Schedule | None = None

    def __post_init__(self) -> None:
        check_mechanism(self.neighbours, self.budget.warn_if_weak(), self.mechanism)
        if self.counting is not None:
            if not isinstance(self.counting, Counting):
                raise TypeError(f"counting must be a streamsketch.Counting, got a {type(self.counting).__name__}")
            self.counting.check_for(self.neighbours)
        if not isinstance(self.schedule, Schedule | None):
            raise TypeError(f"schedule must be a streamsketch.continual.Schedule, got a {type(self.schedule).__name__}")

    @functools.cached_property
    def budget(self) -> Budget:
        """ε and δ together."""
        return Budget(self.epsilon, self.delta)

    def calibrated(self, projection: Projection) -> CalibratedNoise:
        """Return the noise for a projection's sketches; raise `InvalidInputError` if it is too wide to sample."""
        sensitivity = sensitivity_of(projection, self.neighbours, self.counting, self.schedule)
        return self.calibrated_to(projection, sensitivity)

    def release_table(
        self,
        table: SketchTable,
        *,
        public_keys: Iterable[Any] | None = None,
        keys_are_public: bool = False,
        assert_bounds: bool = False,
        ledger: Ledger | None = None,
        dataset: str | None = None,
    ) -> PrivateTable:
        """Return one release of all keys of a table. Parameters and errors are those of `SketchTable.release`."""
        keys: dict[str, Any] = {"public_keys": public_keys, "keys_are_public": keys_are_public}
        rows = self._by_key(table, **keys, assert_bounds=assert_bounds, ledger=ledger, dataset=dataset)
        return PrivateTable(rows)

    def calibrated_to(
        self, projection: Projection, sensitivity: Sensitivity, *, noise_place: NoisePlace = "output"
    ) -> CalibratedNoise:
        """Return the noise for a given sensitivity, which need not be that of cells and counts."""
        layers, stated = sensitivity.layers, self.neighbours
        noise = calibration.choose(sensitivity, self.budget, self.mechanism)
        if self.schedule is not None:
            stated = dataclasses.replace(stated, unit=_unit_over(stated.unit, self.schedule))
        guarantee = guarantee_of(
            noise,
            self.budget,
            stated,
            layers=layers,
            place=noise_place,
            counting=self.counting,
            schedule=self.schedule,
        )
        return CalibratedNoise(projection, guarantee, noise, noise_place, layers)
