"""How sketches are published: the protocol of every release."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np

from streamsketch.accounting import (
    Ledger,
    charge,
    charge_for,
    check_whole_steps,
)
from streamsketch.core import Ints, warn_outside
from streamsketch.data import DataIds, matrix_of
from streamsketch.errors import BoundExceededWarning, InvalidInputError
from streamsketch.privacy import (
    BitSource,
    Bounds,
    Counting,
    Neighbours,
    SystemBits,
)
from streamsketch.projections import Projection, transform_read
from streamsketch.release.keys_to_release import sketches_to_release
from streamsketch.release.published import with_agreement
from streamsketch.sketching import Sketch, SketchTable

PublishedT = TypeVar("PublishedT")


def warn_of_exceeded(largest: int, neighbours: Neighbours, projection: Projection) -> None:
    """Warn if the largest |value| of a sketch, in grid steps, exceeds what one unit may contribute.

    The warning depends on the data. Only the operator sees it, who may see the data; it changes no published byte. An
    error would be visible to everyone.
    """
    if neighbours.is_below(largest, projection):
        warn_outside(
            f"an event in this sketch is larger than the bound of {neighbours.bound} for one {neighbours.unit}. "
            f"Unless it is the total of several {neighbours.units}, it is not protected: clip each contribution before "
            "it is sketched, or release for a larger bound. This warning depends on the data, as does `largest` of the "
            "sketch (in grid steps): do not publish them",
            BoundExceededWarning,
        )


def refuse_new(data: Sketch | SketchTable, *, beside_bounded: bool = False) -> None:
    """Raise `InvalidInputError` for a new sketch or table if those with rows are bounded, or may be.

    Its release would state another bound than theirs, or none, and so show that it has no data.

    Parameters
    ----------
    data
        What is to be released. They may be bounded if their agreement names units.
    beside_bounded
        Whether others, to be released alike, are bounded.
    """
    agreed = data.agreement
    names_units = agreed is not None and agreed.unit is not None
    if data.bounds.is_empty and (beside_bounded or names_units):
        raise InvalidInputError(
            f"a new {type(data).__name__} states no bound, so its release would differ from those with rows, and show "
            f"that it has none. Pass what streamsketch.bound makes of its rows, even if there are none (or "
            f"streamsketch.sketch, if nothing is clipped); of a bounded table, pass sketch_of(key)"
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


class Judged(NamedTuple):
    """What is known about data, which determines whether a guarantee's bound is enforced or asserted."""

    bounds: Bounds
    agreed: Neighbours | None
    assert_bounds: bool


def _judged(data: Sketch | SketchTable, assert_bounds: bool) -> Judged:  # noqa: FBT001 - as its field
    return Judged(data.bounds, None if data.agreement is None else data.agreement.neighbours, assert_bounds)


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
    _judged: Judged | None = dataclasses.field(default=None, init=False, repr=False, compare=False)
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

    def _known_of(self, data: Sketch | SketchTable, assert_bounds: bool) -> Judged:  # noqa: FBT001 - as its field
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
