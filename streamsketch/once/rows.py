"""Windows of a stream as the rows of a schedule: the draw of each row, and the sums that a state keeps."""

import dataclasses
from typing import Any, Self

import numpy as np

from streamsketch.agreement.agreement import Agreement
from streamsketch.core.concealed import concealed
from streamsketch.data.data_ids import DataIds
from streamsketch.errors import InvalidInputError, WireFormatError
from streamsketch.once.charges import Charge, LedgerCharge
from streamsketch.once.draws import DrawSecret
from streamsketch.once.keys import StateSecret
from streamsketch.once.names import names_of_keys
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.schedule import Schedule
from streamsketch.release.additive_noise import CalibratedNoise
from streamsketch.release.history import HISTORY_ID_BYTES
from streamsketch.release.keys_to_release import sketches_to_release
from streamsketch.release.releaser import HistoryState, Releaser
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
        """How many windows were drawn."""
        return self._releaser.windows

    def names(self, table: SketchTable) -> dict[Any, tuple[bytes, ...]]:
        """Return the names of the draws of the next window's row, by key, without changing anything: **secret**."""
        exact = self._releaser.exact(self._window(table), public_keys=self._of.public)
        return names_of_keys(self._of.publisher, {_named(key): [row] for key, row in exact.items()}, self._of.history)

    def draw(self, table: SketchTable, number: int, secret: DrawSecret, charge: Charge | None) -> bytes:
        """Return the row of the next window, as it is published.

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

        Raises
        ------
        LedgerError
            If the charge does not fit, or the row was drawn from other sums. Nothing is drawn then.
        """
        of, public = self._of, self._of.public
        window = self._window(table)
        exact = self._releaser.exact(window, public_keys=public)
        draw = secret.draw_row(number, of.publisher, of.history, {_named(key): row for key, row in exact.items()})
        first_draw = self.first_draw or draw.id
        if charge is not None:
            once = f"{of.stream.hex()} {of.schedule.fingerprint} {first_draw}"
            charge(of.spent, of.ids, once)
            if isinstance(charge, LedgerCharge):
                charge.draw(once, number, draw.id)
        row = self._releaser.add(window, public_keys=public, bits=lambda key, _: draw.bits(_named(key)))
        self.first_draw = first_draw
        return row.to_bytes()

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
        found = cls(of)
        if not isinstance(held, bytes):
            return found
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
            np.frombuffer(b"".join(b"".join(one.published()) for one in ids), np.uint8).reshape(len(ids), -1, 8),
            sums,
        )
        try:
            found._releaser = Releaser.restored(of.publisher, projection, state)
        except InvalidInputError as error:
            raise WireFormatError("schedule", str(error)) from None
        found.first_draw = first_draw
        return found


def _named(key: Any) -> Any:
    """Return the key of a stream's rows; a stream without keys has one key, without a name."""
    return NO_KEY if key is None else key
