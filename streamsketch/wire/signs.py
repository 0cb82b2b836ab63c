"""Sign sketches in the exchange format of WIRE.md, as warily as `streamsketch.wire.releases` reads private sketches."""

import os
from pathlib import Path
from typing import Any, cast

from streamsketch.core import current_limits, read_bounded
from streamsketch.errors import WireFormatError
from streamsketch.privacy import IndividualGuarantee
from streamsketch.projections import Projection
from streamsketch.signs import IndividualSignSketch, Signs, SignSketch
from streamsketch.wire import wire_pb2
from streamsketch.wire.guarantees import guarantee_message, guarantee_of, law_message, law_of
from streamsketch.wire.parsing import parse
from streamsketch.wire.ratios import at
from streamsketch.wire.releases import (
    frame,
    projection_message,
    projection_of,
    unframe,
)

_MAGICS: dict[type[Signs], bytes] = {
    SignSketch: b"\x89SSG\r\n\x1a\n",
    IndividualSignSketch: b"\x89SSI\r\n\x1a\n",
}
_NAMES: dict[type[Signs], str] = {SignSketch: "sign sketch", IndividualSignSketch: "individual sign sketch"}
_MESSAGES: dict[type[Signs], type[Any]] = {
    SignSketch: wire_pb2.SignSketch,
    IndividualSignSketch: wire_pb2.IndividualSignSketch,
}


def encode_signs(release: Signs) -> bytes:
    """Return published signs as a framed message; equal releases give equal bytes."""
    return frame(_MAGICS[type(release)], _message(release).SerializeToString(deterministic=True))


def decode_signs(data: bytes, kind: type[Signs], *, expect: Projection | None, max_bytes: int | None) -> Signs:
    """Return the published signs in a framed message; see `SignSketch.from_bytes`."""
    payload = unframe(_MAGICS[kind], _NAMES[kind], data, max_bytes)
    message = _MESSAGES[kind]()
    parse(message, payload)
    release = at("signs", lambda: _release(message, kind, expect))
    if _message(release).SerializeToString(deterministic=True) != payload:
        raise WireFormatError("payload", "is not in canonical form; it was not written by this format's rules")
    return release


def load_signs(
    path: str | os.PathLike[str], *, expect: Projection | None = None, max_bytes: int | None = None
) -> SignSketch | IndividualSignSketch:
    """Return the published signs in a ``.signs`` file, of the kind it says: look at the type, or at ``guarantee``.

    An `IndividualSignSketch` has individual differential privacy only. Parameters as `SignSketch.from_bytes`.

    Raises
    ------
    WireFormatError
        As `SignSketch.from_bytes`.
    OSError
        If the file cannot be read.
    """
    most = current_limits().max_bytes if max_bytes is None else max_bytes
    data = read_bounded(path, most)
    kind = IndividualSignSketch if data.startswith(_MAGICS[IndividualSignSketch]) else SignSketch
    return cast("SignSketch | IndividualSignSketch", kind.from_bytes(data, expect=expect, max_bytes=most))


def is_signs(path: str | os.PathLike[str]) -> bool:
    """Return whether a file begins as published signs do, whatever its name is."""
    with Path(path).open("rb") as file:
        return file.read(8) in _MAGICS.values()


def _message(release: Signs) -> Any:
    projection = projection_message(release.projection)
    if isinstance(release, SignSketch):
        return wire_pb2.SignSketch(
            projection=projection,
            signs=release.packed,
            law=law_message(release.law),
            guarantee=guarantee_message(release.guarantee),
            release_id=release.release_id,
            data_ids=release.data_ids,
        )
    individual = cast("IndividualSignSketch", release)
    return wire_pb2.IndividualSignSketch(
        projection=projection,
        signs=individual.packed,
        method=individual.method,
        guarantee=guarantee_message(individual.guarantee),
        release_id=individual.release_id,
    )


def _release(message: Any, kind: type[Signs], expect: Projection | None) -> Signs:
    projection = projection_of(message.projection, expect)
    promised = guarantee_of(message.guarantee)
    if kind is SignSketch:
        if not promised.conditions and any(step.norm_bound is not None for step in promised.mechanism.flips):
            raise WireFormatError(
                "guarantee.conditions",
                "are missing: a mechanism for norms of at least a bound promises nothing for every vector; its maker "
                "says of which",
            )
        law = at("law", lambda: law_of("law", message.law))
        return SignSketch(
            projection, message.signs, law, promised, release_id=message.release_id, data_ids=message.data_ids
        )
    if message.guarantee.conditions:
        raise WireFormatError("guarantee.conditions", "individual guarantees have none")
    individual = at(
        "guarantee",
        lambda: IndividualGuarantee(promised.epsilon, promised.delta, promised.neighbours, str(promised.mechanism)),
    )
    return IndividualSignSketch(projection, message.signs, message.method, individual, release_id=message.release_id)
