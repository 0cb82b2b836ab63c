"""Charge a ledger before anything is drawn: once for each draw, however often and by whomever it is tried."""

import hashlib
import logging
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from streamsketch.accounting.ledger import Ledger
from streamsketch.accounting.store import DamagedLedgerError
from streamsketch.data.data_ids import DataIds
from streamsketch.errors import InvalidInputError, LedgerError
from streamsketch.once.logs import log_event
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.projections.base import Projection

_LOG = logging.getLogger(__name__)

Charge: TypeAlias = Callable[[Guarantee, DataIds, str], Any]
"""Charges a release, once for each text; raises an error if it does not fit into the budget. A `LedgerCharge` also
keeps rows of a schedule from being drawn twice."""


class LedgerCharge:
    """Charges the releases of one map to a data set of a ledger, and enters what each row of a schedule is drawn from.

    Parameters
    ----------
    ledger, dataset
        The ledger, and the data set in it.
    projection
        The map of the releases.
    until
        A function of a function, which calls it until the ledger answers (`streamsketch.once.waiting.Waiting`); by
        default it is called once.

    Examples
    --------
    >>> import streamsketch as ss
    >>> from streamsketch.streams import LedgerCharge
    >>> ledger = ss.Ledger(getfixture("tmp_path") / "ledger.sqlite")
    >>> ledger.dataset("sales", unit="customer", epsilon=3.0)
    >>> charge = LedgerCharge(ledger, "sales", ss.SJLT(sketch_dim=64, sparsity=4, seed=7))

    ``Stream(agreement, job, path, charge)`` then charges it.
    """

    def __init__(
        self,
        ledger: Ledger,
        dataset: str | None,
        projection: Projection,
        until: Callable[[Callable[[], Any]], Any] = lambda attempt: attempt(),
    ) -> None:
        self._ledger, self._dataset, self._projection, self._until = ledger, dataset, projection, until

    def __call__(
        self, guarantee: Guarantee, data_ids: DataIds | Iterable[bytes] = (), once: str | None = None, note: str = ""
    ) -> None:
        """Charge a release, once for each text; see `Ledger.charge`."""
        named: dict[str, Any] = {"projection": self._projection, "data_ids": data_ids, "note": note, "once": once}
        self._until(lambda: self._ledger.charge(self._dataset, guarantee, **named))

    def draw(self, once: str, row: int, drawn: str) -> None:
        """Enter the draw of a row; see `Ledger.draw`."""
        self._until(lambda: self._ledger.draw(once, row, drawn))

    def covers(
        self,
        guarantee: Guarantee,
        data_ids: DataIds | Iterable[bytes],
        once: str,
        note: str,
        *,
        row: tuple[int, str] | None = None,
        **where: Any,
    ) -> bool:
        """Charge a window, and return whether the ledger covers it. If it does not, nothing may be drawn.

        Parameters
        ----------
        guarantee, data_ids, once, note
            As in `Ledger.charge`.
        row
            Number and id of a row's draw, which is entered beside the charge.
        **where
            Public fields of the event that is logged if the ledger refuses.
        """
        try:
            self(guarantee, data_ids, once, note)
            if row is not None:
                self.draw(once, *row)
        except DamagedLedgerError:  # which says nothing of what is left of the budget
            raise
        except LedgerError as error:
            text = f"nothing is released: {error}"
            log_event(_LOG, logging.ERROR, "refused", **where, dataset=self._dataset, text=text)
            return False
        return True


def check_together(ledger: object, dataset: str | None) -> None:
    """Raise `InvalidInputError` for a ledger without a data set, or the reverse."""
    if (ledger is None) != (dataset is None):
        raise InvalidInputError("ledger and dataset go together; pass both or neither")


def draw_id(secret: bytes, name: bytes) -> str:
    """Return an id of what a name draws, for a ledger. Without the secret it reveals nothing, neither beside others."""
    return hashlib.blake2b(name, digest_size=16, key=secret).hexdigest()
