"""The release of one window by itself, past every guard."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from streamsketch.core.concealed import concealed
from streamsketch.core.documents import TableKey
from streamsketch.core.numbers import Ints
from streamsketch.data.data_ids import DataIds
from streamsketch.once.charges import Charge
from streamsketch.once.draws import Draw
from streamsketch.once.names import names_of_keys
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.release.private_table import PrivateTable
from streamsketch.release.ready import Calibrated, ReadyTable
from streamsketch.sketching.bounding.contributions import NO_KEY
from streamsketch.streams.open_windows import Closed


@concealed
class Single(NamedTuple):
    """The release of one window by itself: **secret**. Its names, charge and draw are those of a `NextRow`."""

    publisher: Calibrated[Any]
    numbers: dict[TableKey, list[Ints]]
    """The exact numbers that name its draws, by key."""
    ready: ReadyTable[Any]
    ids: DataIds
    secret: Draw
    spent: Guarantee
    once: str
    charging: Charge | None
    is_keyed: bool
    drawn: bytes | None = None
    """What `draw` returned, if it was drawn before."""

    @property
    def names(self) -> Iterator[tuple[TableKey, tuple[bytes, ...]]]:
        """The names of its draws by key, for the version of its window."""
        return names_of_keys(self.publisher, self.numbers)

    def charge(self) -> bool:
        """Charge the window, and return True; raise `LedgerError` if that does not fit."""
        if self.charging is not None:
            self.charging(self.spent, self.ids, self.once)
        return True

    def draw(self) -> bytes:
        """Return the release as the state holds it: the same bytes each time."""
        if self.drawn is not None:
            return self.drawn
        released = self.ready.draw(self.secret.bits, ids=self.ids)
        data: bytes = (PrivateTable.of_one(released) if self.is_keyed else released[NO_KEY]).to_bytes()
        return data


@concealed
class Over(NamedTuple):
    """What a window that is over held, and its release unless it is a row of a schedule: **secret**."""

    closed: Closed
    single: Single | None
