"""Windows that are releases on Spark: rows by window and key, and one exact table for each window."""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamsketch.agreement.agreement import Agreement
from streamsketch.core.documents import TableKey
from streamsketch.data.canonical import canonical_bytes, key_of
from streamsketch.errors import InvalidInputError
from streamsketch.intake.by_window import IntakeByWindow
from streamsketch.intake.events import Events
from streamsketch.intake.rows import OnBad
from streamsketch.sketching.bounding.contributions import Contributions
from streamsketch.sketching.in_windows import windows_of
from streamsketch.sketching.keyed import codes_of, table_keys

_NUMBER_BYTES = 8
_ODD = np.uint64(0x9E37_79B9_7F4A_7C15)


class IntakeOfWindows(IntakeByWindow):
    """Reads rows as events whose keys are bytes of window and key, of the windows that an agreement releases."""

    def __init__(self, agreement: Agreement, *, on_bad: OnBad = "refuse", bounded: bool = False) -> None:
        super().__init__(agreement, on_bad=on_bad, bounded=bounded, within=windows_of(agreement))

    def _keyed(self, events: Events) -> Events:
        keys, codes = codes_of(table_keys(events.keys))
        names = pa.array([canonical_bytes(key) for key in keys], pa.binary()).take(pa.array(codes))
        numbers = np.asarray(events.window, dtype=">i8").view(f"V{_NUMBER_BYTES}")
        windows = pa.array([number.tobytes() for number in numbers], pa.binary())
        return dataclasses.replace(events, keys=pc.binary_join_element_wise(windows, names, b""))


def named(numbers: Iterable[int], keys: Iterable[TableKey]) -> list[bytes]:
    """Return the names of keys in windows, as `IntakeOfWindows` has them."""
    return [_number(number) + canonical_bytes(key) for number in numbers for key in keys]


def apart(events: Contributions) -> Contributions:
    """Return events whose units are units in one window, each of which is then clipped by itself.

    The second word of a unit's digest, which is secret, moves by a multiple of the window's number: two units in two
    windows meet with probability 2^-128, and all windows of a unit stay in one shard.
    """
    numbers = [int.from_bytes(key[:_NUMBER_BYTES], "big") for key, _ in events.slots]
    units = events.units.copy()
    units[:, 1] += np.array(numbers, dtype=np.uint64)[events.codes] * _ODD
    return dataclasses.replace(events, units=units)


def in_order(keys: Iterable[TableKey], numbers: range) -> Iterator[tuple[int, list[tuple[int, Any]]]]:
    """Yield each window, and the places and names of its keys; also those of windows without keys."""
    by_window: dict[int, list[tuple[int, Any]]] = {number: [] for number in numbers}
    for place, key in enumerate(keys):
        by_window[int.from_bytes(key[:_NUMBER_BYTES], "big", signed=True)].append((place, key_of(key[_NUMBER_BYTES:])))
    yield from by_window.items()


def check_windows(agreement: Agreement) -> None:
    """Raise `InvalidInputError` for windows that Spark does not release."""
    windows = agreement.windows
    if windows is None:
        return
    if agreement.layout.by_rows or windows.period is not None:
        what = "a schedule" if agreement.layout.by_rows else "units in some windows of each period"
        raise InvalidInputError(
            f"Spark releases windows one by one, and the agreement has {what}: use agreement.release(rows) or "
            "`streamsketch stream file`, for a schedule, or `streamsketch stream beam`, for both"
        )


def _number(number: int) -> bytes:
    return number.to_bytes(_NUMBER_BYTES, "big", signed=True)
