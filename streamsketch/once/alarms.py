"""Alarms: what a stream did not publish, and why, for the operator only."""

import hashlib
from typing import NamedTuple, Self

from streamsketch.once.slots import Slot

REFUSED = "refused"
"""The ``result`` of an alarm whose window the ledger did not cover."""
WITHHELD = "withheld"
"""The ``result`` of an alarm whose window has another slot that holds other bytes, or is another version's."""
OTHER_BYTES = "the slot already holds other bytes, so this result is not published"
"""Text of an alarm in the log."""
OTHER_VERSION = "the window was claimed for another version of its rows, so none of this one is published"
"""Text of an alarm in the log, if the claim of a window is another version's."""


class Alarm(NamedTuple):
    """A slot that already holds other bytes, which stay; or one that a ledger refused.

    Secret, for the operator only: what was refused is not public, and its digest would let others check a guess of it.

    Parameters
    ----------
    slot
        The slot.
    result
        The slot's result: the end of its file's name, or the name of its table. ``"refused"`` if the ledger did not
        cover the window, so that nothing was drawn. ``"withheld"`` if the result was not offered to its sink, because
        an earlier slot of the window has an alarm.
    epoch
        Epoch of the job that was refused, or None if the sink was made without one.
    held, offered
        SHA-256 of the bytes in the slot and of the refused bytes, in hexadecimal, if there are any. Nothing is drawn
        for a window that was claimed for another version of its rows, so nothing was offered.

    Examples
    --------
    >>> from streamsketch.streams import Slot
    >>> alarm = Alarm.of(Slot("flights", 0, "text", "AA"), "sketch", 1, b"held", b"offered")
    >>> str(alarm.slot), alarm.held[:8]
    ('flights 1970-01-01T00-00-00Z AA', 'c20dea4d')
    """

    slot: Slot
    result: str
    epoch: int | None
    held: str | None = None
    offered: str | None = None

    @classmethod
    def of(cls, slot: Slot, result: str, epoch: int | None, held: bytes, offered: bytes) -> Self:
        """Return the alarm of a slot whose bytes differ from those that it was offered."""
        return cls(slot, result, epoch, *(hashlib.sha256(one).hexdigest() for one in (held, offered)))
