"""From a mechanism that is calibrated to a map to a draw: every guard on data, once, and what passed them."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeAlias, TypeVar, overload

from streamsketch.accounting.ledger import Ledger, charge_for
from streamsketch.accounting.sensitivity import check_whole_steps
from streamsketch.core.concealed import concealed
from streamsketch.core.documents import TableKey
from streamsketch.core.numbers import Ints
from streamsketch.core.text import warn_outside
from streamsketch.core.wrong import RELEASED, wrong_type
from streamsketch.data.data_ids import DataIds
from streamsketch.data.matrices import matrix_of
from streamsketch.errors import BoundExceededWarning, InvalidInputError
from streamsketch.privacy.assertions import conditions_of_keys, with_conditions
from streamsketch.privacy.bounds import UNKNOWN, Bounds
from streamsketch.privacy.neighbours import Neighbours
from streamsketch.privacy.samplers import BitSource, SystemBits
from streamsketch.projections.base import Projection
from streamsketch.projections.transform import transform_read
from streamsketch.release.history import HistoryPart
from streamsketch.release.keys_to_release import keys_to_release
from streamsketch.release.readable import check_readable
from streamsketch.release.terms_kept import check_terms, keys_for, refuse_private_choice
from streamsketch.sketching.exact import ExactSums
from streamsketch.sketching.sketch import Sketch
from streamsketch.sketching.table import SketchTable

PublishedT = TypeVar("PublishedT")

BitsOfKey: TypeAlias = Callable[[Any], BitSource]
"""A function of a key that returns the secret, uniform bits of its draw, independent of those of other keys."""


class Facts(Protocol):
    """What is known of data, before or after they are there: sketches and tables have it, and so have engines."""

    @property
    def bounds(self) -> Bounds:
        """What was enforced on them."""

    @property
    def agreement(self) -> Any:
        """The agreement that they follow, if any."""


class Stated(NamedTuple):
    """What a release states beside its numbers.

    Parameters
    ----------
    ids
        Of the data; or published ones; None for new data, such as rows of a matrix.
    bounds
        What was enforced on the data.
    agreement
        The fingerprint of their agreement, if any.
    history
        Which row of a history it is, if any.
    """

    ids: DataIds | Iterable[bytes] | None = None
    bounds: Bounds = UNKNOWN
    agreement: str | None = None
    history: HistoryPart | None = None


# --- guards -------------------------------------------------------------------------------------------------------


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


def refuse_new(data: Facts, *, beside_bounded: bool = False) -> None:
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


# --- from calibrated to drawn --------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Calibrated(ABC, Generic[PublishedT]):
    """A publisher calibrated to one projection, for any number of its sketches. It draws nothing: `for_data` does that.

    Parameters
    ----------
    projection
        The public map.
    guarantee
        What each release states; it must be achieved by what is drawn. Its basis is None until data are judged. An
        engine that bounds the data itself states the basis with `with_guarantee`, and data are then not judged again.
    """

    projection: Projection
    guarantee: Any

    @overload
    def for_data(self, data: Sketch, *, assert_bounds: bool = False) -> "Ready[PublishedT]": ...

    @overload
    def for_data(
        self,
        data: SketchTable | Mapping[TableKey, Sketch],
        *,
        public_keys: Iterable[object] | None = None,
        keys_are_public: bool = False,
        assert_bounds: bool = False,
    ) -> "ReadyTable[PublishedT]": ...

    def for_data(
        self,
        data: Sketch | SketchTable | Mapping[TableKey, Sketch],
        *,
        public_keys: Iterable[object] | None = None,
        keys_are_public: bool = False,
        assert_bounds: bool = False,
    ) -> "Ready[PublishedT] | ReadyTable[PublishedT]":
        """Return data that passed every guard, ready to be drawn. Nothing is drawn or charged here.

        The guards are: the projection; `guarantee_for`, so bounds, their basis, newness, counts and units that were
        bounded over several keys together; which keys are published; the limits of readers; and the warning of events
        larger than the bound.

        Parameters
        ----------
        data
            A sketch or a table of the projection, or sketches by key, of which each is judged by itself.
        public_keys, keys_are_public
            For a table, as in `SketchTable.release`. Of sketches by key, all are published.
        assert_bounds
            As in `Sketch.release`.

        Raises
        ------
        TypeError
            For data of another type.
        IncompatibleProjectionsError
            If they are of another projection.
        InvalidInputError
            As in `guarantee_for`, `SketchTable.release` and `check_readable`. Never for what sums hold.
        """
        self.check_single()
        if isinstance(data, Sketch):
            if public_keys is not None or keys_are_public:
                raise InvalidInputError(
                    "a Sketch has no keys: pass public_keys and keys_are_public only with a SketchTable"
                )
            (ready,) = self._ready({None: data}, data.largest, assert_bounds=assert_bounds, keyed=False).values()
            return ready
        if isinstance(data, SketchTable):
            self.projection.check_same(data.projection)
            asked = self.guarantee_for(data, assert_bounds=assert_bounds)
            keys = keys_for(data.agreement, public_keys, keys_are_public=keys_are_public)
            conditions = conditions_of_keys(keys_are_public=keys["keys_are_public"])
            judged = self.with_guarantee(with_conditions(asked, *conditions))
            if keys["public_keys"] is not None:
                self.check_public_keys()
            names = keys_to_release(data, **keys)
            return judged.for_sums(names, data.sums_of(names), data)
        if not isinstance(data, Mapping):
            raise wrong_type("only a Sketch or a SketchTable can be released", data, RELEASED)
        if not data:
            raise InvalidInputError("there is no key to release; pass at least one")
        largest = max((sketch.largest for sketch in data.values() if isinstance(sketch, Sketch)), default=0)
        return ReadyTable(self._ready(data, largest, assert_bounds=assert_bounds), None)

    def for_sums(self, keys: Sequence[TableKey], sums: ExactSums, table: SketchTable) -> "ReadyTable[PublishedT]":
        """Return sums of keys of a table, ready to be drawn, once the guarantee states their basis.

        Parameters
        ----------
        keys
            What `keys_to_release` returned.
        sums
            Their exact sums (`SketchTable.sums_of`).
        table
            The table, whose facts hold for all its keys.

        Raises
        ------
        InvalidInputError
            If the guarantee does not state the basis of its bound yet, or is that of a schedule's rows; for other keys
            than there are sums; or as `check_readable`.
        """
        self.check_single()
        if len(set(keys)) != sums.keys:
            raise InvalidInputError(
                f"there are sums of {sums.keys:,} keys for {len(set(keys)):,} different keys: pass what "
                "table.sums_of(keys) returns, with each key once"
            )
        if self.guarantee.basis is None:
            raise InvalidInputError(
                f"the sums of keys need a guarantee with the basis of its bound, which guarantee_for(table) states; "
                f"got {self.guarantee}"
            )
        self.projection.check_same(table.projection)
        check_readable(self.projection, self.guarantee, keys, self.row_bytes)
        warn_of_exceeded(table.largest, self.guarantee.neighbours, self.projection)
        agreed = None if table.agreement is None else table.agreement.fingerprint
        places = {key: place for place, key in enumerate(keys)}
        stated = Stated(table.data_ids, table.bounds, agreed)
        ready = ReadyKeys(self, places, self.numbers_of_keys(sums, table.bounds), table.data_ids, stated)
        return ReadyTable(ready, table.data_ids)

    def guarantee_for(
        self, data: Facts, *, assert_bounds: bool = False, beside_bounded: bool = False, over_windows: bool = False
    ) -> Any:
        """Return the guarantee of a release of these data, which states whether its bound was enforced or is asserted.

        The one judgement of data, by what is known of them: engines ask it before the data are there.

        Parameters
        ----------
        data
            What is to be released, or what is known of it.
        assert_bounds
            As in `Sketch.release`.
        beside_bounded
            Whether other data, to be released alike, are bounded.
        over_windows
            Whether the bounds of these data already hold for all windows of a unit, for rows of a schedule.

        Raises
        ------
        InvalidInputError
            If what is known of the data does not imply the neighbour relation (`Bounds.basis_for`); for new data that
            would show that they have no rows (`refuse_new`); if units were bounded over several keys together and the
            mechanism is not proven for that; if counts are to be published, but units were not counted.
        """
        if self.guarantee.basis is not None:
            return self.guarantee
        if not assert_bounds:
            refuse_new(data, beside_bounded=beside_bounded)
        self._check_facts(data.bounds)
        check_terms(data.agreement, self.guarantee, self.projection)
        if data.bounds.together > 1 and not (assert_bounds or self.holds_together):
            raise InvalidInputError(
                f"units were bounded over {data.bounds.together} keys together, for which {self.guarantee.mechanism} "
                "is not proven private: bound each key by itself (max_keys of the neighbours), or add noise to the "
                "cells"
            )
        agreed = None if data.agreement is None else data.agreement.neighbours
        bounds, agreed = self._judged_by(data.bounds, agreed, over_windows=over_windows)
        basis = bounds.basis_for(self.guarantee.neighbours, agreed, assert_bounds=assert_bounds)
        return self.guarantee.on(basis, bounds.conditions if basis == "enforced" else ())

    def for_rows(self, matrix: object) -> "ReadyRows[PublishedT]":
        """Return the rows of a matrix, ready to be drawn, each as one person's vector; see `Publisher.release_rows`."""
        self.check_single()
        exact = matrix_of(matrix, exact=True)
        check_whole_steps(self.projection, self.guarantee.neighbours, exact.dtype)
        cells = transform_read(self.projection, exact, exact=True)
        judged = self if self.guarantee.basis is not None else self.with_guarantee(self.guarantee.on("asserted"))
        check_readable(self.projection, judged.guarantee, None, self.row_bytes)
        return ReadyRows(judged, cells)

    def with_guarantee(self, guarantee: object) -> Self:
        """Return a copy whose releases state another guarantee, such as one that includes key selection."""
        return dataclasses.replace(self, guarantee=guarantee)

    def check_single(self) -> None:
        """Raise `InvalidInputError` unless what is published is a release of one sketch or table by itself."""

    def check_public_keys(self) -> None:
        """Raise `InvalidInputError` if the guarantee does not hold for public keys without data."""

    @property
    def holds_together(self) -> bool:
        """Whether the guarantee is proven for units whose bound holds for several keys together (Theory 4.2)."""
        return False

    @property
    def row_bytes(self) -> int:
        """How many bytes the numbers of one release take at most."""
        return 8 * self.projection.sketch_dim

    def numbers(self, sketch: Sketch) -> Ints:
        """Return the exact numbers of which something is published: int64, (n,). **Secret**."""
        return sketch.state()

    def numbers_of_keys(self, sums: ExactSums, bounds: Bounds) -> Ints:
        """Return `numbers` of each key of sums with these bounds: int64, (n, m), which may be a view. **Secret**."""
        del bounds
        return sums.cells

    # --- inside ---------------------------------------------------------------------------------------------

    def _ready(
        self, sketches: Mapping[TableKey, Sketch], largest: int, *, assert_bounds: bool = False, keyed: bool = True
    ) -> "dict[TableKey, Ready[PublishedT]]":
        for sketch in sketches.values():
            if not isinstance(sketch, Sketch):
                raise wrong_type("only a Sketch can be released", sketch, RELEASED)
            self.projection.check_same(sketch.projection)
        is_bounded = any(sketch.bounds.is_enforced for sketch in sketches.values())
        ready: dict[TableKey, Ready[PublishedT]] = {}
        for key, sketch in sketches.items():
            if self.guarantee.basis is None:  # otherwise keys were chosen already
                refuse_private_choice(sketch.agreement)
            asked = self.guarantee_for(sketch, assert_bounds=assert_bounds, beside_bounded=is_bounded)
            judged = self if asked is self.guarantee else self.with_guarantee(asked)
            agreed = None if sketch.agreement is None else sketch.agreement.fingerprint
            exact = judged.numbers(sketch).reshape(1, -1)
            ready[key] = Ready(judged, exact, Stated(sketch.data_ids, sketch.bounds, agreed))
        first = next(iter(ready.values()))
        check_readable(self.projection, first.guarantee, sketches if keyed else None, self.row_bytes)
        warn_of_exceeded(largest, self.guarantee.neighbours, self.projection)
        return ready

    def _check_facts(self, bounds: Bounds) -> None:
        """Raise `InvalidInputError` if the mechanism needs what these bounds of data do not state."""

    def _judged_by(
        self, bounds: Bounds, agreed: Neighbours | None, *, over_windows: bool
    ) -> tuple[Bounds, Neighbours | None]:
        """Return bounds of data, and the relation of their agreement, as they compare with the guarantee's."""
        del over_windows
        return bounds, agreed

    @abstractmethod
    def _draw(self, exact: Ints, bits: BitSource, stated: Stated) -> list[PublishedT]:
        """Return a release of each row of exact numbers, int64 of shape (n, m)."""

    def _draw_each(
        self, exact: Ints, sources: Sequence[BitSource], stated: Stated, ids: Sequence[tuple[bytes, ...]]
    ) -> list[PublishedT]:
        """Return what `_draw` returns of each row, from its own bits and with its own published ids."""
        rows = zip(exact[:, None], sources, ids, strict=True)
        return [self._draw(row, bits, stated._replace(ids=its_ids))[0] for row, bits, its_ids in rows]


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Ready(Generic[PublishedT]):
    """A sketch that passed every guard of a mechanism, the only thing that draws. **Secret**: it holds exact numbers.

    `Calibrated.for_data` makes it.

    Parameters
    ----------
    calibrated
        The mechanism, with the guarantee that the release will state.
    exact
        int64, (1, n): the numbers to publish, such as cells and counts.
    stated
        What the release states beside them.
    """

    calibrated: Calibrated[PublishedT]
    exact: Ints
    stated: Stated

    @property
    def guarantee(self) -> Any:
        """What the release will state."""
        return self.calibrated.guarantee

    def charge(self, ledger: Ledger | None, dataset: str | None) -> None:
        """Charge the release to a data set, if there is a ledger, before it is drawn; errors as `Ledger.charge`."""
        charge_for(ledger, dataset, self.guarantee, self.calibrated.projection, self.stated.ids or ())

    def draw(self, bits: BitSource | None = None, *, ids: DataIds | Iterable[bytes] | None = None) -> PublishedT:
        """Return what may be published. Each call is another release, unless it is drawn from the same bits.

        Parameters
        ----------
        bits
            Secret and uniform; by default of the operating system's CSPRNG.
        ids
            Ids of the data, or published ones, in place of the sketch's own, as a stream names its data.
        """
        stated = self.stated if ids is None else self.stated._replace(ids=ids)
        released: PublishedT
        (released,) = self.calibrated._draw(self.exact, bits or SystemBits(), stated)  # noqa: SLF001 - made for this
        return released

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, secret, of {self.calibrated.projection!r}, {self.guarantee}>"


@concealed
class ReadyKeys(Mapping[TableKey, Ready[PublishedT]]):
    """Keys of one table that passed every guard, of which each is made ready when it is asked for. **Secret**.

    Parameters
    ----------
    calibrated
        The mechanism.
    places
        The row of each key.
    exact
        The numbers to publish: int64, (n, m).
    ids
        Of the data of all keys.
    stated
        What all releases state, but for their ids.
    """

    def __init__(
        self,
        calibrated: Calibrated[PublishedT],
        places: dict[TableKey, int],
        exact: Ints,
        ids: DataIds,
        stated: Stated,
    ) -> None:
        self._calibrated, self._places, self._exact, self._ids, self._stated = calibrated, places, exact, ids, stated

    def __getitem__(self, key: TableKey) -> Ready[PublishedT]:
        place = self._places[key]
        return Ready(self._calibrated, self._exact[place : place + 1], self._stated._replace(ids=self._ids.of_key(key)))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def draw(self, bits_of: BitsOfKey, ids: DataIds | None) -> dict[TableKey, PublishedT]:
        """Return a release of each key, all in one pass; see `ReadyTable.draw`."""
        published, sources = (ids or self._ids).published_of_keys(self), [bits_of(key) for key in self]
        if len({*map(id, sources)}) < len(sources):  # of one source, each key reads all that it needs before the next
            each = zip(self, sources, published, strict=True)
            return {key: self[key].draw(bits, ids=its_ids) for key, bits, its_ids in each}
        drawn = self._calibrated._draw_each(self._exact, sources, self._stated, published)  # noqa: SLF001 - made for this
        return dict(zip(self, drawn, strict=True))


class ReadyTable(Mapping[TableKey, Ready[PublishedT]]):
    """The sketches of a table that passed every guard, by key, in the order of the table. **Secret**.

    Parameters
    ----------
    ready
        What is ready, by key.
    ids
        Of the data of the table, for a ledger; None where they are charged elsewhere.
    """

    def __init__(self, ready: Mapping[TableKey, Ready[PublishedT]], ids: DataIds | None) -> None:
        self._ready, self._ids = ready, ids

    @property
    def guarantee(self) -> Any:
        """What each release will state, for all keys together."""
        return next(iter(self._ready.values())).guarantee

    def charge(self, ledger: Ledger | None, dataset: str | None) -> None:
        """Charge all keys as one release, as `Ready.charge`."""
        first = next(iter(self._ready.values()))
        ids = () if self._ids is None else self._ids.with_keys(self)
        charge_for(ledger, dataset, first.guarantee, first.calibrated.projection, ids)

    def draw(self, bits_of: BitsOfKey | None = None, *, ids: DataIds | None = None) -> dict[TableKey, PublishedT]:
        """Return a release of each key, as `Ready.draw`.

        Parameters
        ----------
        bits_of
            Returns the bits of a key.
        ids
            Ids of all the data, from which those of each key follow, in place of the sketches' own.
        """
        if bits_of is not None and isinstance(self._ready, ReadyKeys):
            return self._ready.draw(bits_of, ids)
        published = [None] * len(self) if ids is None else ids.published_of_keys(self)
        return {
            key: ready.draw(None if bits_of is None else bits_of(key), ids=its_ids)
            for (key, ready), its_ids in zip(self._ready.items(), published, strict=True)
        }

    def __getitem__(self, key: TableKey) -> Ready[PublishedT]:
        return self._ready[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._ready)

    def __len__(self) -> int:
        return len(self._ready)

    def __repr__(self) -> str:
        return f"<ReadyTable, secret, of {len(self)} {'key' if len(self) == 1 else 'keys'}, {self.guarantee}>"


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class ReadyRows(Generic[PublishedT]):
    """The rows of a matrix that passed every guard. **Secret**. `Calibrated.for_rows` makes it.

    Parameters
    ----------
    calibrated
        The mechanism, with the guarantee that each release will state.
    exact
        int64, (n, sketch_dim): the cells of each row.
    """

    calibrated: Calibrated[PublishedT]
    exact: Ints

    def charge(self, ledger: Ledger | None, dataset: str | None) -> None:
        """Charge all rows as one release, as `Ready.charge`."""
        charge_for(ledger, dataset, self.calibrated.guarantee, self.calibrated.projection)

    def draw(self, bits: BitSource | None = None) -> list[PublishedT]:
        """Return a release of each row, as `Ready.draw`."""
        return self.calibrated._draw(self.exact, bits or SystemBits(), Stated())  # noqa: SLF001 - made for this

    def __repr__(self) -> str:
        return f"<ReadyRows, secret, {len(self.exact)} of {self.calibrated.projection!r}, {self.calibrated.guarantee}>"
