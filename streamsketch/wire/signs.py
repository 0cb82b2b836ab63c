"""Sign sketches in the exchange format of WIRE.md, as warily as `streamsketch.wire.releases` reads private sketches."""

from typing import Any, cast

from streamsketch.errors import WireFormatError
from streamsketch.privacy.individual import IndividualGuarantee
from streamsketch.projections.base import Projection
from streamsketch.signs.sketch import IndividualSignSketch, Signs, SignSketch
from streamsketch.wire import wire_pb2
from streamsketch.wire.codecs import Codec, enter_codec
from streamsketch.wire.guarantees import guarantee_message, guarantee_of, law_message, law_of
from streamsketch.wire.parsing import at, parse
from streamsketch.wire.releases import agreement_bytes, agreement_of, frame, projection_message, projection_of, unframe


def encode_signs(release: Signs) -> bytes:
    """Return published signs as a framed message; equal releases give equal bytes."""
    return frame(release.magic, _message(release).SerializeToString(deterministic=True))


def decode_signs(data: bytes, *, expect: Projection | None, max_bytes: int | None) -> Signs:
    """Return the published signs in a framed message; see `SignSketch.from_bytes`."""
    return _decoded(data, SIGNS, wire_pb2.SignSketch(), expect, max_bytes)


def decode_individual_signs(data: bytes, *, expect: Projection | None, max_bytes: int | None) -> Signs:
    """Return the individually private signs in a framed message; see `IndividualSignSketch.from_bytes`."""
    return _decoded(data, INDIVIDUAL_SIGNS, wire_pb2.IndividualSignSketch(), expect, max_bytes)


def _decoded(data: bytes, codec: Codec, message: Any, expect: Projection | None, max_bytes: int | None) -> Signs:
    payload = unframe(codec.magic, codec.name, data, max_bytes)
    parse(message, payload)
    release = at("signs", lambda: _release(message, cast("type[Signs]", codec.kind), expect))
    if _message(release).SerializeToString(deterministic=True) != payload:
        raise WireFormatError("payload", "is not in canonical form; it was not written by this format's rules")
    return release


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
            agreement=agreement_bytes(release.agreement),
        )
    individual = cast("IndividualSignSketch", release)
    return wire_pb2.IndividualSignSketch(
        projection=projection,
        signs=individual.packed,
        method=individual.method,
        guarantee=guarantee_message(individual.guarantee),
        release_id=individual.release_id,
        agreement=agreement_bytes(individual.agreement),
    )


def _release(message: Any, kind: type[Signs], expect: Projection | None) -> Signs:
    projection = projection_of(message.projection, expect)
    stated = guarantee_of(message.guarantee)
    if kind is SignSketch:
        if not stated.conditions and any(step.norm_bound is not None for step in stated.mechanism.flips):
            raise WireFormatError(
                "guarantee.conditions",
                "are missing: the mechanism's guarantee is for vectors whose norm has a lower bound, and the release "
                "must state that condition",
            )
        law = at("law", lambda: law_of("law", message.law))
        return SignSketch(
            projection,
            message.signs,
            law,
            stated,
            release_id=message.release_id,
            data_ids=message.data_ids,
            agreement=agreement_of(message),
        )
    if message.guarantee.conditions:
        raise WireFormatError("guarantee.conditions", "individual guarantees have none")
    individual = at(
        "guarantee",
        lambda: IndividualGuarantee(
            stated.epsilon, stated.delta, stated.neighbours, str(stated.mechanism), stated.basis
        ),
    )
    return IndividualSignSketch(
        projection,
        message.signs,
        message.method,
        individual,
        release_id=message.release_id,
        agreement=agreement_of(message),
    )


SIGNS = enter_codec(Codec(SignSketch, "sign sketch", encode_signs, decode_signs))
INDIVIDUAL_SIGNS = enter_codec(
    Codec(IndividualSignSketch, "individual sign sketch", encode_signs, decode_individual_signs)
)
