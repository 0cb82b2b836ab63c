"""Alarms: what a stream did not publish, and why, for the operator only."""

import datetime as dt
import hashlib
import json
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from streamsketch.core.files import create_file
from streamsketch.once.logs import log_event
from streamsketch.once.slots import Slot, no_longer

_LOG = logging.getLogger(__name__)
_LONGEST_NAME = 240  # of a file, with room for what stands around it while it is written

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
    >>> alarm = raised(Slot("flights", 0, "text", "AA"), "sketch", 1, OTHER_BYTES, b"held", b"offered")
    >>> str(alarm.slot), alarm.held[:8]
    ('flights 1970-01-01T00-00-00Z AA', 'c20dea4d')
    """

    slot: Slot
    result: str
    epoch: int | None
    held: str | None = None
    offered: str | None = None


def raised(
    slot: Slot, result: str, epoch: int | None, text: str, held: bytes | None, offered: bytes | None = None
) -> Alarm:
    """Log that something is not published, without a digest of it, and return the alarm.

    Parameters
    ----------
    slot, result, epoch
        As in `Alarm`.
    text
        Why, such as `OTHER_BYTES`.
    held, offered
        The bytes in the slot and those that it was offered, if there are any.
    """
    where = {"stream": slot.stream, "epoch": epoch, "window": slot.window, "key": slot.file}
    log_event(_LOG, logging.ERROR, "alarm", **where, result=result, text=text)
    digests = (None if content is None else hashlib.sha256(content).hexdigest() for content in (held, offered))
    return Alarm(slot, result, epoch, *digests)


def file_of(alarm: Alarm) -> tuple[str, bytes]:
    """Return the name and the content of an alarm's file, as every engine writes it and the watch counts it."""
    slot = alarm.slot
    fields = {**slot._asdict(), "window": slot.window, **alarm._asdict(), "slot": str(slot)}
    fields["noticed"] = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    end = f".{alarm.result}.json"  # a table's name may be as long as a key's
    name = f"{slot.window} {no_longer(slot.file, _LONGEST_NAME - len(slot.window) - 1 - len(end))}{end}"
    return name, json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def keep(alarms: Iterable[Alarm], folder: Path) -> None:
    """Write alarms to files for the operator, each once: the first alarm of a slot stays.

    Examples
    --------
    >>> folder = getfixture("tmp_path")
    >>> keep([Alarm(Slot("flights", 0, "text", "AA"), REFUSED, 1)] * 2, folder)
    >>> [path.name for path in folder.iterdir()]
    ['1970-01-01T00-00-00Z AA.refused.json']
    """
    for alarm in alarms:
        folder.mkdir(parents=True, exist_ok=True)
        name, content = file_of(alarm)
        create_file(folder / name, content, mode=0o600)
