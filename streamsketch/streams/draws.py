"""Draws for a stream's windows: functions of the state's secret, so that a window drawn again has the same bytes."""

import hashlib
import secrets
from collections.abc import Mapping
from typing import Any

from streamsketch.core import Ints
from streamsketch.data import canonical_bytes
from streamsketch.privacy import KeyedBits
from streamsketch.release import Calibrated
from streamsketch.sketching import Sketch

_SECRET_BYTES = 32
_ID_BYTES = 16


class Draw:
    """The randomness of one window's release.

    Parameters
    ----------
    secret
        The secret of the window.
    named
        Everything that determines the release, including its exact cells, so that other cells get independent noise.
    """

    def __init__(self, secret: bytes, named: bytes) -> None:
        self._secret, self._named = secret, named
        self.id = self._bits(b"charge").read(_ID_BYTES).hex()
        """Two draws with the same id publish the same bytes. Without the secret, the id reveals nothing."""

    def bits(self, key: Any) -> KeyedBits:
        """Return the bits of one key's release."""
        return self._bits(b"noise" + canonical_bytes(key))

    def _bits(self, use: bytes) -> KeyedBits:
        return KeyedBits(self._secret, self._named + use)


class DrawSecret:
    """The secret of the next window's draw. The secrets of later windows follow from it, but not those of earlier ones.

    Parameters
    ----------
    value
        32 bytes; by default new.
    """

    def __init__(self, value: bytes | None = None) -> None:
        self.value = secrets.token_bytes(_SECRET_BYTES) if value is None else value

    @classmethod
    def of_earlier_version(cls, stream: bytes, number: int) -> "DrawSecret":
        """Return the secret for a state without one, from the state's own secret and the number of its next window."""
        return cls(_derived(stream, b"draw" + number.to_bytes(8, "little", signed=True)))

    def after(self) -> "DrawSecret":
        """Return the secret of the following window."""
        return DrawSecret(_derived(self.value, b"next"))

    def draw(self, number: int, publisher: Calibrated[Any], sketches: Mapping[Any, Sketch]) -> Draw:
        """Return the draw of a window with these exact sketches, by key."""
        named, is_counted = _named(number, publisher), publisher.guarantee.mechanism.counting is not None
        for key, sketch in sketches.items():
            _add(named, canonical_bytes(key))
            _add(named, sketch.state().astype("<i8").tobytes())
            if is_counted and (counts := sketch.counts) is not None:  # which are published beside the cells
                _add(named, counts.astype("<i8").tobytes())
        return Draw(self.value, named.digest())

    def draw_row(self, number: int, publisher: Calibrated[Any], history: bytes, rows: Mapping[Any, Ints]) -> Draw:
        """Return the draw of a window's row in a history, for these exact numbers by key."""
        named = _named(number, publisher)
        _add(named, history)
        for key, row in rows.items():
            _add(named, canonical_bytes(key))
            _add(named, row.astype("<i8").tobytes())
        return Draw(self.value, named.digest())


def _named(number: int, publisher: Calibrated[Any]) -> Any:
    """Return a hash of the public facts about a draw."""
    named = hashlib.sha512()
    public = publisher.guarantee.to_json(), publisher.projection.to_json()
    for part in (number.to_bytes(8, "little", signed=True), *map(str.encode, public)):
        _add(named, part)
    return named


def _add(named: Any, part: bytes) -> None:
    named.update(len(part).to_bytes(8, "little"))  # so that other parts never make the same bytes
    named.update(part)


def _derived(secret: bytes, use: bytes) -> bytes:
    return hashlib.blake2b(use, digest_size=_SECRET_BYTES, key=secret, person=b"streamsketch.drw").digest()
