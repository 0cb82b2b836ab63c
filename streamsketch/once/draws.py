"""Draws for a stream's windows: functions of the state's secret, so that a window drawn again has the same bytes."""

import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from streamsketch.core.documents import TableKey
from streamsketch.core.numbers import Ints
from streamsketch.data.canonical import canonical_bytes
from streamsketch.once.keys import StateSecret, joined, number_bytes
from streamsketch.once.names import digest_of_draw, names_of_keys
from streamsketch.privacy.samplers import KeyedBits
from streamsketch.release.ready import Calibrated

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

    def bits(self, key: object) -> KeyedBits:
        """Return the bits of one key's release."""
        return self._bits(b"noise" + canonical_bytes(key))

    def _bits(self, use: bytes) -> KeyedBits:
        return KeyedBits(self._secret, self._named + use)


class DrawSecret:
    """The secret of the next window's draw. The secrets of later windows follow from it, but not those of earlier ones.

    Parameters
    ----------
    value
        32 bytes, or the secret that is derived from as its state's; by default new.
    """

    def __init__(self, value: bytes | StateSecret | None = None) -> None:
        self._secret = StateSecret.of(secrets.token_bytes(_SECRET_BYTES) if value is None else value)

    @property
    def value(self) -> bytes:
        """The 32 bytes."""
        return self._secret.value

    def after(self) -> "DrawSecret":
        """Return the secret of the following window."""
        return DrawSecret(self._secret.derive("drw", b"next"))

    def draw(self, number: int, publisher: Calibrated[Any], numbers: Mapping[TableKey, Iterable[Ints]]) -> Draw:
        """Return the draw of a window with these exact numbers by key (`drawn_numbers`)."""
        return self._draw(names_of_keys(publisher, numbers, number_bytes(number)))

    def draw_row(self, number: int, publisher: Calibrated[Any], history: bytes, rows: Mapping[TableKey, Ints]) -> Draw:
        """Return the draw of a window's row in a history, for these exact numbers by key."""
        numbers = {key: [row] for key, row in rows.items()}
        return self._draw(names_of_keys(publisher, numbers, number_bytes(number), history))

    def _draw(self, names: Iterable[tuple[TableKey, tuple[bytes, ...]]]) -> Draw:
        return Draw(self.value, digest_of_draw(joined(name) for _, name in names))
