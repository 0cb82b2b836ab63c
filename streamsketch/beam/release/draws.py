"""How a key's sketch becomes a release."""

import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from apache_beam.metrics import Metrics
from apache_beam.transforms.window import BoundedWindow

from streamsketch.agreement.agreement import Agreement
from streamsketch.agreement.same import fingerprint_of
from streamsketch.beam.intake.keys import METRICS
from streamsketch.beam.release.rows import ScheduledWindows, SumBySchedule
from streamsketch.beam.run.bits import BitsOf, ids_in
from streamsketch.beam.run.coders import SketchCoder
from streamsketch.beam.run.runs import RunSecret
from streamsketch.beam.run.versions import window_start
from streamsketch.core.documents import TableKey
from streamsketch.data.data_ids import DataIds
from streamsketch.once.keys import number_bytes
from streamsketch.once.names import drawn_numbers, name_of_draw
from streamsketch.privacy.bounds import UNKNOWN, Bounds
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.samplers import BitSource
from streamsketch.projections.base import Projection
from streamsketch.release.history import HISTORY_ID_BYTES
from streamsketch.release.ready import Calibrated
from streamsketch.schedules.rows import Row
from streamsketch.sketching.sketch import Sketch

if TYPE_CHECKING:
    from streamsketch.release.additive_noise import CalibratedNoise
    from streamsketch.release.publishers import Publisher


class KeyedDraw:
    """Draws a release of a key's sketch, with data ids that are functions of the run, names and sources.

    Parameters
    ----------
    publisher
        The mechanism, or the contribution to a round.
    projection, guarantee
        The projection of all sketches, and the guarantee that each release states.
    sources
        Labels of the steps that the data come from.
    agreement
        The agreement of the data, if any. Releases state it.
    bounds
        The bounds that were enforced on the data and still hold.
    opened
        Whether windows are opened by empty sketches.
    count
        Whether keys without data are counted.
    """

    summed = Sketch

    def __init__(
        self,
        publisher: Any,
        projection: Projection,
        guarantee: Guarantee,
        sources: Sequence[str],
        agreement: Agreement | None = None,
        bounds: Bounds = UNKNOWN,
        *,
        opened: bool = False,
        count: bool = False,
    ) -> None:
        self._publisher, self._projection, self._guarantee = publisher, projection, guarantee
        self._sources, self._opened, self._count = sources, opened, count
        self._agreement, self._bounds = agreement, bounds

    @property
    def published(self) -> type[Any]:
        """Type of what is published."""
        kind: type[Any] = self._publisher.published
        return kind

    @property
    def _context(self) -> tuple[bytes, ...]:
        """What the draw depends on besides key, window, projection, guarantee, cells and counts."""
        return ()

    def opens(self, value: Sketch) -> bool:
        """Return whether a sketch opens its window; only an empty one does if windows can end again after a restore."""
        return not self._opened or value.mass == 0

    def draw(
        self, total: Sketch, bits_of: BitsOf, key: TableKey, window: BoundedWindow, run: RunSecret
    ) -> Iterator[Any]:
        """Yield what is published."""
        bits = bits_of(*self._name(total, *self._context))
        self._projection.check_same(total.projection)
        ids = self._ids(key, window, run)
        sketch = total.with_facts(ids=ids, agreement=self._agreement, bounds=self._bounds)
        yield self._drawn(sketch, bits, key)
        Metrics.counter(METRICS, "releases").inc()
        if self._count and total.mass == 0:
            Metrics.counter(METRICS, "keys_without_data").inc()

    # --- version ----------------------------------------------------------------------------------------------

    def name(self, total: Sketch, window: BoundedWindow) -> tuple[bytes, ...]:
        """Return the name of the draw, for the version of its window: the same in all epochs."""
        return self._name(total, window_start(window))

    def _name(self, total: Sketch, *place: bytes) -> tuple[bytes, ...]:
        numbers = drawn_numbers(total, self._guarantee)
        return name_of_draw(self._guarantee, total.projection, numbers, *place)

    def pack(self, total: Sketch) -> bytes:
        """Return a total as bytes."""
        return SketchCoder().encode(total)

    def unpack(self, packed: bytes) -> Any:
        """Return the total."""
        return SketchCoder().decode(packed)

    def start(self, total: Any) -> int | None:
        """Return None, as these are no rows."""
        del total
        return None

    # --- draw -------------------------------------------------------------------------------------------------

    def _drawn(self, sketch: Sketch, bits: BitSource, _key: Any) -> Any:
        return self._calibrated.for_data(sketch).draw(bits)

    def _ids(self, key: TableKey, window: BoundedWindow, run: RunSecret) -> DataIds:
        # one secret for all transforms, so that the same data have the same ids
        return ids_in(run.derive("data ids", ""), self._sources, key, window)

    @functools.cached_property
    def _calibrated(self) -> Calibrated[Any]:
        publisher: Publisher[Any] = self._publisher
        return publisher.calibrated(self._projection).with_guarantee(self._guarantee)


class RowDraw(KeyedDraw):
    """Draws the noisy rows of a schedule from their exact numbers, which `SumBySchedule` adds up.

    All rows of all keys share one history id, a function of the run, the transform's label and the guarantee. The
    secret bits of a row depend on this id. Rows state the data ids of their key in the first window.

    Parameters
    ----------
    of, label
        The schedule's windows, and the full label of the transform.
    """

    def __init__(
        self, *of_all: Any, of: ScheduledWindows, label: str, opened: bool = False, count: bool = False
    ) -> None:
        super().__init__(*of_all, opened=opened, count=count)
        self._of, self._label = of, label

    @property
    def sums(self) -> SumBySchedule:
        """The transform that adds up windows."""
        return SumBySchedule(self._of, self._projection, self._guarantee, count=self._count)

    def draw(self, total: Any, bits_of: BitsOf, key: TableKey, _window: BoundedWindow, run: RunSecret) -> Iterator[Any]:
        """Yield a row's release, from the row's number and its exact numbers (`SumBySchedule`)."""
        place, exact = total
        history = run.derive("history", f"{self._label}\0{self._guarantee.to_json()}")[:HISTORY_ID_BYTES]
        bits = bits_of(*self._name_of_row(total, history))
        ids = self._ids(key, self._of.first_window, run).published()
        noise = cast("CalibratedNoise", self._calibrated)
        agreed = None if self._agreement is None else fingerprint_of(self._agreement)
        row = Row(place, np.frombuffer(exact, dtype="<i8").astype(np.int64))
        yield row.ready(noise, history, ids, self._bounds, agreed).draw(bits)
        Metrics.counter(METRICS, "releases").inc()

    def name(self, total: Any, _window: BoundedWindow) -> tuple[bytes, ...]:
        """Return the name of the draw; see `KeyedDraw.name`."""
        return self._name_of_row(total, number_bytes(self.start(total)))

    def _name_of_row(self, total: tuple[int, bytes], *place: bytes) -> tuple[bytes, ...]:
        number, exact = total
        row = number_bytes(number)
        return name_of_draw(self._guarantee, self._projection, [np.frombuffer(exact, "<i8")], *place, row)

    def pack(self, total: Any) -> bytes:
        """Return a row as bytes."""
        number, exact = total
        return bytes(number_bytes(number) + exact)

    def unpack(self, packed: bytes) -> tuple[int, bytes]:
        """Return the row."""
        return int.from_bytes(packed[:8], "little"), packed[8:]

    def start(self, total: Any) -> int:
        """Return where the row's window begins."""
        return int(self._of.windows.start(self._of.first + total[0]))
