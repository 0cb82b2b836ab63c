"""Slots of Beam's keys and windows, and keys as bytes for its state."""

from typing import Any

from apache_beam.coders import FastPrimitivesCoder
from apache_beam.transforms.window import IntervalWindow

from streamsketch.core.documents import TableKey
from streamsketch.data.columns import plain_key
from streamsketch.once.slots import Slot, named_key

_KEYS = FastPrimitivesCoder()  # deterministic for text, bytes and integers


def slot_of(stream: str, key: TableKey, window: IntervalWindow) -> Slot:
    """Return the slot of a key in a window."""
    return Slot(stream, int(window.start.micros), *named_key(key))


def encoded_key(key: TableKey) -> bytes:
    """Return a key as bytes, for state by keys: runners compare keys by their bytes."""
    return bytes(_KEYS.encode(plain_key(key, "keys of a stream")))


def decoded_key(encoded: bytes) -> Any:
    """Return the key."""
    return _KEYS.decode(encoded)
