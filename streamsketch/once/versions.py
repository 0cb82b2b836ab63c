"""One version of a window: a claim of all its sums, put before its first slot."""

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from streamsketch.core.documents import TableKey
from streamsketch.data.canonical import canonical_bytes
from streamsketch.once.alarms import OTHER_VERSION, WITHHELD, Alarm, raised
from streamsketch.once.keys import joined
from streamsketch.once.sinks import Sink
from streamsketch.once.slots import VERSION, Slot

_HEAD = "streamsketch version 1"
_SALT_BYTES = 16


class Version(NamedTuple):
    """All sums of a window, as one secret number.

    Parameters
    ----------
    slot
        The slot of the claim, from `version_slot`.
    digest
        From `version_of`: **secret**.
    """

    slot: Slot
    digest: bytes

    def claim(self) -> bytes:
        """Return a claim of the window for this version.

        It is sealed with a salt of its own, so that claims of two windows, sinks or epochs show neither whether their
        sums are equal nor anything else.
        """
        salt = secrets.token_bytes(_SALT_BYTES)
        return f"{_HEAD} {salt.hex()} {self._seal(salt)}\n".encode()

    def made(self, claim: bytes) -> bool:
        """Return whether a claim is for this version, whoever made it."""
        try:
            head, salt, seal = claim.decode("ascii").rsplit(" ", 2)
            return head == _HEAD and seal == f"{self._seal(bytes.fromhex(salt))}\n"
        except ValueError:
            return False

    def _seal(self, salt: bytes) -> str:
        return hashlib.blake2b(salt, digest_size=32, key=self.digest, person=b"streamsketch.ver").hexdigest()


def version_slot(stream: str, start: int) -> Slot:
    """Return the slot of a window's claim, which no key has."""
    return Slot(stream, start, VERSION, "")


def version_tag(secret: bytes, name: Iterable[bytes]) -> bytes:
    """Return the part of a version that one key has: 32 bytes, which reveal nothing without the secret.

    Parameters
    ----------
    secret
        32 bytes for this use, the same in all epochs of a stream: so equal rows of two epochs are one version.
    name
        From `name_of_draw`, with the key and the window in its place.
    """
    return hashlib.blake2b(joined(name), digest_size=32, key=secret, person=b"streamsketch.tag").digest()


def version_of(tags: Mapping[TableKey, bytes]) -> bytes:
    """Return the digest of a version from the tags of all its keys, in any order: 32 bytes."""
    pairs = sorted((canonical_bytes(key), tag) for key, tag in tags.items())
    return hashlib.sha256(joined(part for pair in pairs for part in pair)).digest()


def is_other(sink: Sink, version: Version) -> bool:
    """Return whether a window is claimed for another version, without changing anything."""
    held = sink.get(version.slot)
    return held is not None and not version.made(held)


def claimed(sink: Sink, version: Version) -> bool:
    """Claim a window for a version, if it is not claimed yet; return whether it is this version's."""
    held = sink.get(version.slot)
    if held is None:
        held = sink.put(version.slot, version.claim())
    return held is None or version.made(held)


def other_version(sink: Sink, slots: Iterable[Slot], epoch: int | None, result: str | None = None) -> list[Alarm]:
    """Log that a window is another version's, and return an alarm for each slot: none of them is put."""
    first, *others = slots
    alarm = raised(first, result or sink.result, epoch, OTHER_VERSION, sink.get(first))
    return [alarm, *(Alarm(slot, WITHHELD, epoch) for slot in others)]
