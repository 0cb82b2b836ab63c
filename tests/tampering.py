"""Releases that say of themselves what is not so, and raw files of any parts."""

import dataclasses
from typing import Any

from streamsketch.privacy import Mechanism
from streamsketch.release.private_sketch import PrivateSketch
from streamsketch.storage import format as raw


def tampered(release: PrivateSketch, **changes: Any) -> PrivateSketch:
    """Return a release with another guarantee or noise than it has; of a mechanism in text, with that text alone."""
    if isinstance(changes.get("mechanism"), str):
        changes["mechanism"] = Mechanism.stated(changes["mechanism"])
    return PrivateSketch(
        release.projection,
        release.values,
        changes.pop("noise", release.noise),
        dataclasses.replace(release.guarantee, **changes),
        noise_place=release.noise_place,
        release_ids=release.release_ids,
    )


def parts_of_raw(data: bytes) -> tuple[bytes, bytes]:
    """Return the header and the body of a raw file."""
    start = len(raw.MAGIC) + raw._FRAME.size
    _, size, _ = raw._FRAME.unpack_from(data, len(raw.MAGIC))
    return data[start : start + size], data[start + size + raw.CHECKSUM_BYTES : -raw.CHECKSUM_BYTES]


def raw_from(header: bytes, body: bytes) -> bytes:
    """Return a raw file of these parts, whose checksums are right."""
    data = raw._head(header, len(body)) + body
    return data + raw._checksum(data).digest()
