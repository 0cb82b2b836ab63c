"""How sketches are published: a budget, a neighbour relation and a mechanism."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Generic, Self, TypeVar

from streamsketch.accounting.ledger import Ledger
from streamsketch.agreement.agreement import Agreement
from streamsketch.core.documents import TableKey
from streamsketch.core.wrong import RELEASED, wrong_type
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.bounds import Bounds
from streamsketch.privacy.neighbours import Neighbours
from streamsketch.projections.base import Projection
from streamsketch.release.ready import Calibrated, Ready, ReadyTable
from streamsketch.release.released_again import note_release, warn_of_another
from streamsketch.sketching.sketch import Sketch
from streamsketch.sketching.table import SketchTable

PublishedT = TypeVar("PublishedT")


def check_for_tables(publisher: object) -> None:
    """Raise `TypeError` unless this is a publisher whose guarantee holds for a table of keys."""
    if not isinstance(publisher, Publisher):
        raise TypeError(
            "publisher must be a mechanism, such as AdditiveNoise(epsilon=…, neighbours=…), got a "
            f"{type(publisher).__name__}"
        )
    if publisher.published is None:
        raise TypeError(
            f"{type(publisher).__name__} has no guarantee for a table of keys; use another mechanism, such as "
            "AdditiveNoise"
        )


class Publisher(ABC, Generic[PublishedT]):
    """How something is published: a budget, a neighbour relation and a mechanism, for sketches of any projection.

    `Sketch.release`, Beam's transforms, the ``release`` command and the mechanisms of `streamsketch.signs` all use one.
    """

    published: ClassVar[type[Any] | None] = None
    """Type of the release of one key of a table; None if the mechanism has no guarantee for tables."""

    keyed: ClassVar[type[Any] | None] = None
    """Type of the release of a table; None as for ``published``."""

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
        again: bool = False,
        ledger: Ledger | None = None,
        dataset: str | None = None,
    ) -> PublishedT:
        """Return a release of a sketch, with noise from the operating system's CSPRNG.

        Parameters
        ----------
        sketch
            A sketch of a projection for which the mechanism is private.
        assert_bounds, again
            As in `Sketch.release`.
        ledger, dataset
            As in `Sketch.release`: the release is charged to a data set first.

        Raises
        ------
        TypeError
            If ``sketch`` is not a `Sketch`.
        InvalidInputError
            As in `calibrated` and `Calibrated.for_data`. What the sketch holds never causes an error.
        LedgerError
            If the release exceeds the budget that is left for the data set. Nothing is charged then.
        """
        if not isinstance(sketch, Sketch):
            raise wrong_type("only a Sketch can be released", sketch, RELEASED)
        ready: Ready[PublishedT] = self.calibrated(sketch.projection).for_data(sketch, assert_bounds=assert_bounds)
        warn_of_another(sketch.data_ids, ready.guarantee, again=again)
        ready.charge(ledger, dataset)
        released = ready.draw()
        note_release(sketch.data_ids, ready.guarantee)
        return released

    def counted_as(self, bounds: Bounds, agreement: Agreement | None) -> Self:
        """Return the publisher as it publishes these data: with the counts that their agreement states, if it can."""
        del bounds, agreement
        return self

    def release_rows(
        self, projection: Projection, matrix: object, *, ledger: Ledger | None = None, dataset: str | None = None
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
        ready = self.calibrated(projection).for_rows(matrix)
        ready.charge(ledger, dataset)
        return ready.draw()

    def table_of(self, rows: dict[TableKey, PublishedT]) -> Any:
        """Return releases by key, of one draw, as one release.

        Raises
        ------
        InvalidInputError
            If the mechanism has no guarantee for tables.
        """
        if self.keyed is None:
            raise InvalidInputError(f"{type(self).__name__} has no guarantee for tables; release one sketch")
        return self.keyed.of_one(rows)

    def release_table(
        self,
        table: SketchTable,
        *,
        public_keys: Iterable[object] | None = None,
        keys_are_public: bool = False,
        assert_bounds: bool = False,
        again: bool = False,
        ledger: Ledger | None = None,
        dataset: str | None = None,
    ) -> Any:
        """Return one release of all keys of a table, whose guarantee covers them together.

        Parameters
        ----------
        table, public_keys, keys_are_public, assert_bounds, again, ledger, dataset
            As in `SketchTable.release`. A public key without data is released as noise, or as fair coin flips.

        Raises
        ------
        TypeError
            If ``table`` is not a `SketchTable`.
        InvalidInputError
            As in `calibrated` and `SketchTable.release`; for ``public_keys`` if the guarantee has conditions on every
            vector, which a key without data does not meet; if the mechanism has no guarantee for tables.
        """
        if self.keyed is None:
            return self.table_of({})
        rows = self._by_key(
            table,
            public_keys,
            keys_are_public=keys_are_public,
            assert_bounds=assert_bounds,
            again=again,
            ledger=ledger,
            dataset=dataset,
        )
        return self.table_of(rows)

    def _by_key(
        self,
        table: SketchTable,
        public_keys: Iterable[object] | None,
        *,
        keys_are_public: bool,
        assert_bounds: bool,
        again: bool,
        ledger: Ledger | None,
        dataset: str | None,
    ) -> dict[TableKey, PublishedT]:
        """Return one release per key, as in `SketchTable.release`; a table class holds them as one release."""
        if not isinstance(table, SketchTable):
            raise wrong_type("only a SketchTable is released as a table", table, RELEASED)
        ready: ReadyTable[PublishedT] = self.calibrated(table.projection).for_data(
            table, public_keys=public_keys, keys_are_public=keys_are_public, assert_bounds=assert_bounds
        )
        ids = table.data_ids.with_keys(ready)
        warn_of_another(ids, ready.guarantee, again=again)
        ready.charge(ledger, dataset)
        released = ready.draw()
        note_release(ids, ready.guarantee)
        return released
