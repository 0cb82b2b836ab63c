"""One version of a window: a claim of all its sums, put before its first slot, and what names a draw of them."""

import hashlib
import logging
import secrets
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from streamsketch.core import Ints
from streamsketch.data import canonical_bytes
from streamsketch.once.alarms import OTHER_VERSION, WITHHELD, Alarm
from streamsketch.once.logs import log_event
from streamsketch.once.root_keys import joined
from streamsketch.once.sinks import Sink
from streamsketch.once.slots import VERSION, Slot
from streamsketch.privacy import Guarantee
from streamsketch.projections import Projection
from streamsketch.sketching import Sketch

_LOG = logging.getLogger(__name__)
_HEAD = "streamsketch version 1"
_SALT_BYTES = 16


def drawn_numbers(sketch: Sketch, guarantee: Guarantee) -> list[Ints]:
    """Return all exact numbers of a sketch that a release shows behind noise: its cells, and its counts if counted."""
    counts = sketch.counts if guarantee.mechanism.counting is not None else None
    return [sketch.state()] if counts is None else [sketch.state(), counts]


def name_of_draw(
    guarantee: Guarantee, projection: Projection, numbers: Iterable[Ints], *place: bytes
) -> tuple[bytes, ...]:
    """Return all that determines one key's release, besides a secret: different draws never have the same name.

    Every engine names its draws by this function. Noise, charges and versions are functions of a secret and such names.

    Parameters
    ----------
    guarantee, projection
        What is published about the release.
    numbers
        All its exact numbers, as from `drawn_numbers`: int64.
    place
        Where the release is published, unless its engine states that elsewhere: key, window, history and row, session.

    Returns
    -------
    tuple of bytes
        Parts of the name, each of which is to be hashed with its length (`joined`): **secret**, as the numbers are.
    """
    exact = (one.astype("<i8").tobytes() for one in numbers)
    return projection.to_json().encode(), guarantee.to_json().encode(), *place, *exact


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


def version_of(tags: Mapping[Any, bytes]) -> bytes:
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


def other_version(sink: Sink, slots: Iterable[Slot], epoch: int | None) -> list[Alarm]:
    """Log that a window is another version's, and return an alarm for each slot: none of them is put."""
    alarms: list[Alarm] = []
    for slot in slots:
        if alarms:
            alarms.append(Alarm(slot, WITHHELD, epoch))
            continue
        held = sink.get(slot)
        where = {"stream": slot.stream, "epoch": epoch, "window": slot.window, "key": slot.file}
        log_event(_LOG, logging.ERROR, "alarm", **where, result=sink.result, text=OTHER_VERSION)
        alarms.append(Alarm(slot, sink.result, epoch, None if held is None else hashlib.sha256(held).hexdigest()))
    return alarms
