"""Alarms: what a stream did not publish, and why; for the operator alone."""

import hashlib
from typing import NamedTuple, Self

from streamsketch.streams.slots import Slot

REFUSED = "refused"
"""The ``result`` of an alarm whose window the ledger did not cover."""
WITHHELD = "withheld"
"""The ``result`` of an alarm whose window has another slot that holds other bytes."""
OTHER_BYTES = "the slot holds other bytes than this result, which is not published"
"""What the log says of an alarm."""


class Alarm(NamedTuple):
    """A slot that somebody has written before, with other bytes, of which the first stay; or that a ledger refused.

    Secret, for the operator alone: what was refused is not public, and its digest would let others check a guess of it.

    Parameters
    ----------
    slot
        The slot.
    result
        Which result of the slot: the end of its file's name, or the name of its table. ``"refused"`` of a slot whose
        window the ledger did not cover, so that nothing was drawn; ``"withheld"`` of one that was not offered to its
        sink, since an earlier slot of the window holds other bytes.
    epoch
        Epoch of the job that was refused, or None if the sink was made without one.
    held, offered
        SHA-256 of the bytes that are there and of those that were refused, in hexadecimal digits, if there are any.
    """

    slot: Slot
    result: str
    epoch: int | None
    held: str | None = None
    offered: str | None = None

    @classmethod
    def of(cls, slot: Slot, result: str, epoch: int | None, held: bytes, offered: bytes) -> Self:
        """Return the alarm of a slot that holds other bytes than it was offered."""
        return cls(slot, result, epoch, *(hashlib.sha256(one).hexdigest() for one in (held, offered)))
