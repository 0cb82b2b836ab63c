"""What a run's secret says of one key in one window: the bits of its draw, and the ids of its data."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

import apache_beam as beam
from apache_beam.transforms.window import BoundedWindow

from streamsketch.core.documents import TableKey
from streamsketch.data.data_ids import DataIds
from streamsketch.once.keys import ids_from, joined, number_bytes
from streamsketch.privacy.samplers import KeyedBits

BitsOf: TypeAlias = Callable[..., KeyedBits]
"""`repeatable_bits` of a secret, a key and a window: takes the parts."""

_KEYS = beam.coders.FastPrimitivesCoder()


def repeatable_bits(secret: bytes, key: TableKey, window: BoundedWindow, *parts: bytes) -> KeyedBits:
    """Return the bits for one key in one window.

    Parameters
    ----------
    secret
        32 bytes of one run and transform. Using them in two runs would reveal which of their inputs are equal.
    key
        Text, bytes or an integer.
    window
        The key's window.
    parts
        Everything else that distinguishes this draw from others, including its exact input. Then changed input gets
        independent noise.
    """
    return KeyedBits(secret, joined((_KEYS.encode(key), _time_of(window), *parts)))


def ids_in(secret: bytes, sources: Iterable[str], key: TableKey, window: BoundedWindow) -> DataIds:
    """Return the ids of one key's data in one window (`ids_from`).

    Parameters
    ----------
    secret
        32 bytes of the run, the same for all transforms of a pipeline.
    sources
        Full labels of the steps that the data came from.
    key
        Text, bytes or an integer.
    window
        The key's window.
    """
    time = _time_of(window)
    return ids_from(secret, *(joined((time, source.encode())) for source in sources)).of_key(key)


def _time_of(window: BoundedWindow) -> bytes:
    return number_bytes(int(window.max_timestamp().micros))
