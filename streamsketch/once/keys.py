"""Secrets that follow from one secret, each for one use: HKDF-SHA-256 (RFC 5869) of names that no two uses share."""

import hmac
from collections.abc import Iterable

from streamsketch.data.data_ids import SECRET_BYTES, DataIds, from_list

_SALT = b"streamsketch stream 1"


def hkdf(key: bytes, *parts: bytes) -> bytes:
    """Return 32 bytes for one use of a key, by HKDF-SHA-256. The use is named by ``parts``, each with its length."""
    return hmac.digest(hmac.digest(_SALT, key, "sha256"), joined(parts) + b"\x01", "sha256")


def joined(parts: Iterable[bytes]) -> bytes:
    """Return the parts one after another, each after its length, so that other parts never make the same bytes."""
    return b"".join(len(part).to_bytes(8, "little") + part for part in parts)


def number_bytes(number: int) -> bytes:
    """Return a number of a window, or its start in microseconds, as names hold it: 8 bytes."""
    return number.to_bytes(8, "little", signed=True)


def ids_from(secret: bytes, *places: bytes) -> DataIds:
    """Return the ids of data that a stream or a run names by place: secret, and a function of names alone.

    So whoever draws the release of a place again, in another process or epoch, states that it is of the same data. The
    ids of a key in it are `DataIds.of_key`.

    Parameters
    ----------
    secret
        The secret for data ids, the same in all epochs of a stream.
    places
        One or more distinct places, such as the start of a window.
    """
    return from_list([hkdf(secret, b"data ids", place)[:SECRET_BYTES] for place in places])


class StateSecret:
    """The secret of a stream's state, from which everything secret in the stream follows.

    Parameters
    ----------
    value
        32 bytes.
    """

    def __init__(self, value: bytes) -> None:
        self.value = value

    @classmethod
    def of(cls, secret: "bytes | StateSecret") -> "StateSecret":
        """Return a secret of which the bytes may be all that is known."""
        return secret if isinstance(secret, StateSecret) else cls(secret)

    def derive(self, use: str, name: bytes, size: int = 32) -> bytes:
        """Return bytes for a use: ``win`` of open windows, ``drw`` of draws, ``his`` of histories, ``sid`` of ids."""
        return hkdf(self.value, b"stream", use.encode(), name)[:size]

    def ids(self, use: str, name: bytes) -> DataIds:
        """Return the ids of data, as `ids_from`."""
        return from_list([self.derive(use, name, SECRET_BYTES)])
