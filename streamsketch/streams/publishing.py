"""How the slots of a window are filled: in one order, and all with releases of the same sums."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from streamsketch.data import canonical_bytes
from streamsketch.streams.alarms import OTHER_BYTES, WITHHELD, Alarm
from streamsketch.streams.logs import log_event
from streamsketch.streams.sinks import Sink
from streamsketch.streams.slots import Slot

_LOG = logging.getLogger(__name__)


class Put(NamedTuple):
    """What became of the slots of a window.

    Parameters
    ----------
    held
        Keys whose slots hold what was offered.
    alarms
        One for each other key: **secret**.
    """

    held: list[Any]
    alarms: list[Alarm]


def in_order(keys: Iterable[Any]) -> list[Any]:
    """Return keys in the order in which their slots are filled, a function of the keys alone."""
    return sorted(keys, key=canonical_bytes)


def put_window(sink: Sink, contents: Mapping[Any, tuple[Slot, bytes]], epoch: int | None = None) -> Put:
    """Fill the slots of a window in their order, up to the first that holds other bytes.

    So whatever versions of a window are put, by whom and how far, all that its slots hold is of one version: of two
    with the same keys, the first slot that differs decides (Theory 4.2).

    Parameters
    ----------
    sink
        Opened.
    contents
        The slot of each key and what is put into it.
    epoch
        Of the launch, which alarms and the log name.
    """
    found = Put([], [])
    for key in in_order(contents):
        slot, content = contents[key]
        if found.alarms:
            found.alarms.append(Alarm(slot, WITHHELD, epoch))
            continue
        held = sink.put(slot, content)
        if held is None or held == content:
            found.held.append(key)
            continue
        where = {"stream": slot.stream, "epoch": epoch, "window": slot.window, "key": slot.file}
        log_event(_LOG, logging.ERROR, "alarm", **where, result=sink.result, text=OTHER_BYTES)
        found.alarms.append(Alarm.of(slot, sink.result, epoch, held, content))
    return found


def is_filled(sink: Sink, slots: Iterable[Slot]) -> bool:
    """Return whether each slot holds something, so that nothing of its window can be published any more."""
    return all(sink.get(slot) is not None for slot in slots)
