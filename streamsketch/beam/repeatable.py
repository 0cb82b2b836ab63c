"""Noise that a retried step draws again alike: a function of the job's secret and of what the step works on."""

from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import BoundedWindow

from streamsketch.privacy.sampling import KeyedBits


def repeatable_bits(secret: bytes, key: Any, window: BoundedWindow, *parts: bytes) -> KeyedBits:
    """Return the bits for one key in one window.

    Parameters
    ----------
    secret
        32 bytes, drawn from the operating system when the pipeline is built. Two runs with one secret show where their
        inputs were equal: that is for retries of one run alone.
    key
        Text, bytes or an integer.
    window
        The key's window.
    parts
        All else that makes this draw different from another, its exact input included: changed input gets independent
        noise.
    """
    moment = int(window.max_timestamp().micros)
    named = (beam.coders.FastPrimitivesCoder().encode(key), moment.to_bytes(8, "little", signed=True), *parts)
    # with their lengths, so that different parts never give the same whole
    return KeyedBits(secret, b"".join(len(part).to_bytes(8, "little") + part for part in named))
