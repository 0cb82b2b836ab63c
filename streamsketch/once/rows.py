"""Windows of a stream as the rows of a schedule: the draw of each row, and the sums that a state keeps."""

import dataclasses
from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from streamsketch.agreement.agreement import Agreement
from streamsketch.core.concealed import concealed
from streamsketch.core.documents import TableKey
from streamsketch.data.data_ids import DataIds
from streamsketch.errors import InvalidInputError, WireFormatError
from streamsketch.once.charges import Charge, LedgerCharge
from streamsketch.once.draws import Draw, DrawSecret
from streamsketch.once.keys import StateSecret
from streamsketch.once.names import names_of_keys
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.schedule import Schedule
from streamsketch.release.additive_noise import CalibratedNoise
from streamsketch.release.history import HISTORY_ID_BYTES
from streamsketch.release.keys_to_release import sketches_to_release
from streamsketch.schedules.releaser import HistoryState, ReadyWindow, Releaser
from streamsketch.sketching.bounding.contributions import NO_KEY
from streamsketch.sketching.sketch import Sketch
from streamsketch.sketching.table import SketchTable

ANEW = "begin a new state and a new folder, with a start after what was released"


class OtherRowsError(InvalidInputError):
    """The published rows are not those of this state, so the state cannot be continued."""

    reason = "other_rows"


@concealed
@dataclasses.dataclass(frozen=True)
class RowsOf:
    """The facts that identify a stream's rows.

    Parameters
    ----------
    publisher, agreement, public
        The mechanism that draws rows by a schedule; the agreement; and the public keys, None for a stream without keys.
    stream, secret
        Id and secret of the stream, from which the ids of the history and of its data are derived.
    spent
        The guarantee for one unit once all rows are published.
    """

    publisher: CalibratedNoise
    agreement: Agreement
    public: Any
    stream: bytes
    secret: StateSecret
    spent: Guarantee

    @property
    def schedule(self) -> Schedule:
        """The schedule, which states which sums of windows are published."""
        return self.publisher.schedule  # type: ignore[return-value] # it has one

    @property
    def history(self) -> bytes:
        """The id of the history."""
        return self.secret.derive("his", b"history", HISTORY_ID_BYTES)

    @property
    def ids(self) -> DataIds:
        """The data ids of all data of the stream."""
        return self.secret.ids("his", b"rows")


class Rows:
    """The rows of a stream that a schedule releases, with the sums that later rows need: **secret**.

    Parameters
    ----------
    of
        The facts that identify the rows.
    """

    def __init__(self, of: RowsOf) -> None:
        self._of = of
        self._releaser = Releaser(of.publisher, of.agreement.projection, history=of.history)
        self.first_draw: str | None = None
        """The id of the first row's draw, under which all are charged; None before it."""

    @property
    def windows(self) -> int:
        """How many windows were taken."""
        return self._releaser.windows

    def next(self, table: SketchTable, number: int, secret: DrawSecret, charge: Charge | None) -> "NextRow":
        """Return the row of the next window, past every guard; nothing is charged, drawn or changed.

        Parameters
        ----------
        table
            The window's exact sketches.
        number
            The window's number in the stream.
        secret
            The secret of its draw.
        charge
            Charges all rows together. It is called for each row, with the same text, because the ledger may be another
            one by now.
        """
        of = self._of
        ready = self._releaser.ready(self._window(table), public_keys=of.public)
        exact = {_named(key): row for key, row in ready.exact.items()}
        draw = secret.draw_row(number, of.publisher, of.history, exact)
        return NextRow(of, ready, number, draw, self.first_draw or draw.id, charge)

    def take(self, row: "NextRow") -> None:
        """Let the next window follow, once the row of this one may wait to be published."""
        self._releaser.take(row.ready)
        self.first_draw = row.first_draw

    def _window(self, table: SketchTable) -> Sketch | SketchTable:
        """Return exact sketches with the ids of the stream's data, which are published and must not be new ones."""
        window = table if self._of.public is not None else table.sketch_of(NO_KEY)
        return window.with_facts(ids=self._of.ids, agreement=self._of.agreement, bounds=table.bounds)

    # --- state ----------------------------------------------------------------------------------------------

    @property
    def held(self) -> bytes:
        """The sums, as a state stores them."""
        return self._releaser.state.held.astype("<i8").tobytes()

    @classmethod
    def restored(cls, of: RowsOf, windows: int, first_draw: str | None, held: bytes | None) -> Self:
        """Return the rows of a state after so many windows; raise `WireFormatError` if no stream writes this."""
        if (first_draw is None, held is None) != (windows == 0,) * 2:
            raise WireFormatError("schedule", "is not of the number of windows that were released")
        rows = cls(of)
        if not isinstance(held, bytes):
            return rows
        projection, public = of.agreement.projection, of.public
        keys = None
        if public is not None:
            keys = tuple(sketches_to_release(SketchTable(of.agreement), public, keys_are_public=False))
        ids = [of.ids, of.ids] if keys is None else [of.ids, *(of.ids.of_key(key) for key in keys)]
        width = (len(ids) - 1) * of.publisher.width
        if len(held) % (8 * width):
            raise WireFormatError("schedule", "has sums of another length")
        sums = np.frombuffer(held, "<i8").astype(np.int64).reshape(-1 if held else 0, width)
        state = HistoryState(
            of.history,
            windows,
            of.publisher.guarantee,
            of.agreement.fingerprint,
            keys,
            np.frombuffer(b"".join(b"".join(part.published()) for part in ids), np.uint8).reshape(len(ids), -1, 8),
            sums,
        )
        try:
            rows._releaser = Releaser.restored(of.publisher, projection, state)
        except InvalidInputError as error:
            raise WireFormatError("schedule", str(error)) from None
        rows.first_draw = first_draw
        return rows


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class NextRow:
    """The row of a stream's next window: **secret**. `Rows.next` makes it.

    Parameters
    ----------
    of
        The facts that identify the rows.
    ready
        The row, ready to be drawn.
    number, secret
        The window's number in the stream, and the randomness of its draw.
    first_draw
        The id of the first row's draw.
    charging
        Charges all rows together.
    """

    of: RowsOf
    ready: ReadyWindow
    number: int
    secret: Draw
    first_draw: str
    charging: Charge | None

    @property
    def names(self) -> Iterator[tuple[TableKey, tuple[bytes, ...]]]:
        """The names of the row's draws by key, for the version of its window."""
        numbers = {_named(key): [row] for key, row in self.ready.exact.items()}
        return names_of_keys(self.of.publisher, numbers, self.of.history)

    def charge(self) -> bool:
        """Charge all rows under the first one's draw, enter this row's, and return True.

        Raises
        ------
        LedgerError
            If the charge does not fit, or the row was drawn from other sums.
        """
        if self.charging is not None:
            once = f"{self.of.stream.hex()} {self.of.schedule.fingerprint} {self.first_draw}"
            self.charging(self.of.spent, self.of.ids, once)
            if isinstance(self.charging, LedgerCharge):
                self.charging.draw(once, self.number, self.secret.id)
        return True

    def draw(self) -> bytes:
        """Return the row as it is published: the same bytes each time."""
        return self.ready.draw(lambda key, _: self.secret.bits(_named(key))).to_bytes()


def _named(key: object) -> Any:
    """Return the key of a stream's rows; a stream without keys has one key, without a name."""
    return NO_KEY if key is None else key
