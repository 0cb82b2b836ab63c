"""Fill the slots of a window in one order, all with releases of the same sums."""

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
    """The result of filling the slots of a window.

    Parameters
    ----------
    held
        Keys whose slots hold the bytes that were offered.
    alarms
        One alarm for each other key: **secret**.
    """

    held: list[Any]
    alarms: list[Alarm]


def in_order(keys: Iterable[Any]) -> list[Any]:
    """Return keys in the order in which their slots are filled, which depends on the keys only."""
    return sorted(keys, key=canonical_bytes)


def put_window(sink: Sink, contents: Mapping[Any, tuple[Slot, bytes]], epoch: int | None = None) -> Put:
    """Fill the slots of a window in their order, up to the first that holds other bytes.

    Several processes may put several versions of a window, each as far as it comes. Still, all slots of the window hold
    one version: of two versions with the same keys, the first slot that differs decides (Theory 4.2).

    Parameters
    ----------
    sink
        The open sink.
    contents
        The slot of each key, and the bytes for it.
    epoch
        Epoch of the launch, for alarms and the log.
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


class Filled(Sink):
    """What the slots of a window held when all of them were filled: putting into it publishes nothing.

    Parameters
    ----------
    held
        The bytes in each slot.
    result
        As of the sink that holds them.
    """

    def __init__(self, held: Mapping[Slot, bytes], result: str) -> None:
        self._held, self.result = held, result

    def put(self, slot: Slot, content: bytes) -> bytes:
        """Return what is in a slot."""
        del content
        return self._held[slot]


def filled(sink: Sink, slots: Iterable[Slot]) -> Filled | None:
    """Return what the slots of a window hold; None unless every slot is filled."""
    held: dict[Slot, bytes] = {}
    for slot in slots:
        if (content := sink.get(slot)) is None:
            return None
        held[slot] = content
    return Filled(held, sink.result)
