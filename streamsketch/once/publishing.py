"""Fill the slots of a window in one order, all with releases of the same sums, once it is claimed for them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from streamsketch.core.documents import TableKey
from streamsketch.data.canonical import canonical_bytes
from streamsketch.once.alarms import OTHER_BYTES, REFUSED, WITHHELD, Alarm, raised
from streamsketch.once.sinks import Sink
from streamsketch.once.slots import Slot
from streamsketch.once.versions import Version, claimed, is_other, other_version


class Put(NamedTuple):
    """The result of filling the slots of a window.

    Parameters
    ----------
    held
        Keys whose slots hold the bytes that were offered.
    alarms
        One alarm for each other key: **secret**.
    """

    held: list[TableKey]
    alarms: list[Alarm]


class Drawn(NamedTuple):
    """The result of `draw_window`.

    Parameters
    ----------
    release
        What was drawn, which is charged unless its slots are filled; None if nothing may be published.
    put
        If all slots were filled before, how the release compares with them: nothing is left to put.
    alarms
        If nothing may be published, or the slots hold other bytes, one alarm for each slot that does not hold the
        release: **secret**.
    """

    release: Any
    put: Put | None
    alarms: list[Alarm]


def in_order(keys: Iterable[object]) -> list[Any]:
    """Return keys in the order in which their slots are filled, which depends on the keys only."""
    return sorted(keys, key=canonical_bytes)


def draw_window(
    sink: Sink,
    slots: Sequence[Slot],
    version: Version | None,
    *,
    charge: Callable[[], bool],
    draw: Callable[[], Any],
    contents: Callable[[Any], Mapping[TableKey, tuple[Slot, bytes]]],
    epoch: int | None = None,
    at_once: bool = True,
) -> Drawn:
    """Draw a window's release, if it may still be published: every engine's order of version, slots, charge and draw.

    A window that is claimed for another version is neither charged nor drawn. If its slots are all filled, the release
    is drawn only to compare it with them. All others are charged before they are drawn.

    Parameters
    ----------
    sink, slots
        The open sink, and the slots of the window in their order.
    version
        The version of the window's sums; None if it has no claims.
    charge
        Charges the window, once however often it is called; returns False, or raises an error, if nothing may be drawn.
    draw
        Returns the release.
    contents
        Returns the slot of each key, and the bytes for it, of a release.
    epoch
        As in `put_window`.
    at_once
        Whether a caller puts the release at once. Otherwise slots that are filled now may be empty by then, so that a
        release that equals them is charged, too.
    """
    held = filled(sink, slots)  # looked at first: nothing is put then, as slots may become empty before
    if version is not None and is_other(sink, version):
        return Drawn(None, None, other_version(sink, slots, epoch))
    refused = Drawn(None, None, [Alarm(slot, REFUSED, epoch) for slot in slots])
    if held is None and not charge():
        return refused
    release = draw()
    if held is None:
        return Drawn(release, None, [])
    put = put_window(held, contents(release), epoch)
    if not at_once and not put.alarms and not charge():
        return refused
    return Drawn(release, put, put.alarms)


def put_window(
    sink: Sink,
    contents: Mapping[TableKey, tuple[Slot, bytes]],
    epoch: int | None = None,
    version: Version | None = None,
) -> Put:
    """Claim a window for a version of its rows, and fill its slots in their order.

    Several processes may put several versions of a window, each as far as it comes. Still, all slots of the window hold
    one version: that of the claim, which is put before the first slot (Theory 4.2). If a slot holds other bytes and
    there is no claim, as of earlier versions of the library, no slot is put. If ``version`` is None, the first slot
    that differs decides: none after it is put.

    Parameters
    ----------
    sink
        The open sink.
    contents
        The slot of each key, and the bytes for it.
    epoch
        Epoch of the launch, for alarms and the log.
    version
        The version that is put; None if the window has no claim.
    """
    ordered, put = in_order(contents), Put([], [])
    if version is not None:
        offered = [contents[key] for key in ordered]
        before = [sink.get(slot) for slot, _ in offered]
        # the claim is looked at last: whoever filled a slot since the library has claims put that first
        if _differ(before, offered) and sink.get(version.slot) is None:
            return _compared(sink, dict(zip(ordered, before, strict=True)), contents, epoch)
        if not claimed(sink, version):
            return Put([], other_version(sink, [slot for slot, _ in offered], epoch))
        for key, (slot, content), held in zip(ordered, offered, sink.put_all(offered), strict=True):
            _keep(put, key, _alarm(sink, slot, content, held, epoch))
        return put
    for key in ordered:
        slot, content = contents[key]
        if put.alarms:
            put.alarms.append(Alarm(slot, WITHHELD, epoch))
            continue
        _keep(put, key, put_slot(sink, slot, content, epoch))
    return put


def _keep(put: Put, key: object, alarm: Alarm | None) -> None:
    if alarm is None:
        put.held.append(key)
    else:
        put.alarms.append(alarm)


def put_slot(sink: Sink, slot: Slot, content: bytes, epoch: int | None, result: str | None = None) -> Alarm | None:
    """Fill a slot if it is empty; return an alarm, which is logged, if it holds other bytes. These stay."""
    return _alarm(sink, slot, content, sink.put(slot, content), epoch, result)


def _alarm(
    sink: Sink, slot: Slot, content: bytes, held: bytes | None, epoch: int | None, result: str | None = None
) -> Alarm | None:
    """Return the alarm of a slot that held these bytes when content was put, if they are others."""
    if held is None or held == content:
        return None
    return raised(slot, result or sink.result, epoch, OTHER_BYTES, held, content)


def _differ(held: Iterable[bytes | None], offered: Iterable[tuple[Slot, bytes]]) -> bool:
    """Return whether a slot holds other bytes than those that it is offered."""
    return any(before not in {None, content} for before, (_, content) in zip(held, offered, strict=True))


def _compared(
    sink: Sink,
    held: Mapping[TableKey, bytes | None],
    contents: Mapping[TableKey, tuple[Slot, bytes]],
    epoch: int | None,
) -> Put:
    """Compare the slots of a window with what they are offered; put nothing, and raise one alarm of other bytes."""
    put, is_raised = Put([], []), False
    for key, before in held.items():
        slot, content = contents[key]
        if before == content:
            put.held.append(key)
        elif before is None or is_raised:
            put.alarms.append(Alarm(slot, WITHHELD, epoch))
        else:
            is_raised = True
            _keep(put, key, _alarm(sink, slot, content, before, epoch))
    return put


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
