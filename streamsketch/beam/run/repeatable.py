"""Noise and ids that a retried step draws again alike: functions of the run's secret and of what the step works on."""

import hashlib
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import BoundedWindow

from streamsketch.data import SECRET_BYTES
from streamsketch.privacy import KeyedBits

_KEYS = beam.coders.FastPrimitivesCoder()


def repeatable_bits(secret: bytes, key: Any, window: BoundedWindow, *parts: bytes) -> KeyedBits:
    """Return the bits for one key in one window.

    Parameters
    ----------
    secret
        32 bytes of one run and transform. Two runs with one secret would show where their inputs were equal.
    key
        Text, bytes or an integer.
    window
        The key's window.
    parts
        All else that makes this draw different from another, its exact input included: changed input gets independent
        noise.
    """
    return KeyedBits(secret, _named(key, window, *parts))


def data_id(secret: bytes, source: str, key: Any, window: BoundedWindow) -> bytes:
    """Return the id of one key's data in one window: 16 secret bytes, a function of names and the run, not of the data.

    Parameters
    ----------
    secret
        32 bytes of the run, the same for all transforms of a pipeline.
    source
        Full label of the step that the data came from.
    key
        Text, bytes or an integer.
    window
        The key's window.
    """
    named = _named(key, window, source.encode())
    return hashlib.blake2b(named, digest_size=SECRET_BYTES, key=secret, person=b"streamsketch.did").digest()


def _named(key: Any, window: BoundedWindow, *parts: bytes) -> bytes:
    time = int(window.max_timestamp().micros)
    named = (_KEYS.encode(key), time.to_bytes(8, "little", signed=True), *parts)
    # with their lengths, so that different parts never give the same whole
    return b"".join(len(part).to_bytes(8, "little") + part for part in named)
