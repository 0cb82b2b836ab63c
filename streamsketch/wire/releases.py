"""The exchange format: bytes that mean the same everywhere. WIRE.md describes them for other languages.

A file is a frame (magic, version, payload length, payload, checksum) around one protobuf message. Reading trusts
nothing: sizes are checked against the bytes that are there before anything is allocated by them.
"""

import functools
import hashlib
import struct
from collections.abc import Iterable
from fractions import Fraction
from math import copysign
from typing import Any, NamedTuple, cast

import numpy as np

from streamsketch.core.limits import check_length, current_limits
from streamsketch.core.numbers import Ints
from streamsketch.core.wrong import BYTES, wrong_type
from streamsketch.errors import IncompatibleProjectionsError, InvalidInputError, WireFormatError
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.mechanism import NoisePlace
from streamsketch.privacy.noise import NoiseMoments
from streamsketch.projections.base import Projection
from streamsketch.projections.from_fields import projection_from_fields
from streamsketch.release.history import HistoryPart
from streamsketch.release.noise_parts import NoisePart
from streamsketch.release.private_sketch import PrivateSketch, SketchClip
from streamsketch.wire import wire_pb2
from streamsketch.wire.codecs import Codec, enter_codec
from streamsketch.wire.guarantees import guarantee_message, guarantee_of, place_name, place_of
from streamsketch.wire.parsing import at, parse, ratio_message, ratio_of

VERSION = 1

HEADER = struct.Struct("<8sBQ")  # magic, version, payload length
CHECKSUM_BYTES = 16
_WIDTHS = (1, 2, 4, 8)
_MAX_K2 = 2.0**130
_EVERY_KIND = {"kind", "dim", "sketch_dim", "seed", "resolution"}  # of projections; others are there if a kind has them
_OWN_FIELDS = {
    field.name: field.message_type is not None  # a ratio, or an integer
    for field in wire_pb2.Projection.DESCRIPTOR.fields
    if field.name not in _EVERY_KIND
}
_KEPT = 256  # projections, and guarantees: many files have the same
_MOST_KEPT = 4096  # bytes of a guarantee


def encode_release(release: PrivateSketch) -> bytes:
    """Return a release as a framed message; equal releases give equal bytes."""
    return frame(PrivateSketch.magic, _payload(release))


def decode_release(data: bytes, *, expect: Projection | None, max_bytes: int | None) -> PrivateSketch:
    """Return the release in a framed message; see `PrivateSketch.from_bytes`."""
    payload = unframe(PrivateSketch.magic, "private sketch", data, max_bytes)
    message = wire_pb2.PrivateSketch()
    parse(message, payload)
    message.DiscardUnknownFields()
    is_canonical = _bytes_of(message) == payload
    projection, is_agreed = _projection_and_form(message.projection, expect)
    guarantee, is_stated = _guarantee_and_form(message.guarantee)
    release = at(
        "release",
        lambda: PrivateSketch(
            projection,
            values_of("values", message.values, projection.sketch_dim),
            _noise(message.noise),
            guarantee,
            noise_place=place_of("noise.place", message.noise.place),
            multiplier=ratio_of("multiplier", message.multiplier),
            release_ids=message.release_ids,
            data_ids=message.data_ids,
            parts=[_part(part) for part in message.parts],
            counts=_counts(message),
            history=_history(message),
            agreement=agreement_of(message),
            clip=cast("SketchClip", message.clip) if message.HasField("clip") else None,
        ),
    )
    if not (is_canonical and is_agreed and is_stated and _is_as_written(message, release)):
        raise WireFormatError("payload", "is not in canonical form; it was not written by this format's rules")
    return release


# --- frame ----------------------------------------------------------------------------------------------------


def frame(magic: bytes, payload: bytes) -> bytes:
    """Return a payload between magic, version, length and checksum."""
    framed = HEADER.pack(magic, VERSION, len(payload)) + payload
    return framed + checksum(framed)


def unframe(magic: bytes, what: str, data: bytes, max_bytes: int | None) -> bytes:
    """Return the payload of a frame after checking the frame; by default ``max_bytes`` is `Limits.max_bytes`.

    Raises
    ------
    WireFormatError
        If the frame is not valid; the message calls it ``what``.
    """
    data = bytes(data) if isinstance(data, bytearray | memoryview) else data
    if not isinstance(data, bytes):
        raise wrong_type(f"a {what} is read from bytes", data, BYTES)
    check_length(len(data), current_limits().max_bytes if max_bytes is None else max_bytes, "max_bytes")
    least = HEADER.size + CHECKSUM_BYTES
    if data[: len(magic)] != magic[: len(data)]:
        raise WireFormatError("bytes 0-7", f"are not the first bytes of a {what}")
    if len(data) < least:
        raise WireFormatError("length", f"{len(data)} bytes, but a {what} has at least {least}: it was cut off")
    _, version, length = HEADER.unpack_from(data)
    if version != VERSION:
        raise WireFormatError(
            "byte 8",
            f"has format version {version}, but this version of streamsketch reads {VERSION}: upgrade streamsketch",
        )
    if length != len(data) - least:
        raise WireFormatError(
            "bytes 9-16",
            f"state {length} bytes of payload, but {len(data) - least} follow: it was cut off, or joined with another",
        )
    if checksum(data[:-CHECKSUM_BYTES]) != data[-CHECKSUM_BYTES:]:
        raise WireFormatError("checksum", "does not match: the bytes were changed on the way; fetch them again")
    return data[HEADER.size : -CHECKSUM_BYTES]


def checksum(framed: bytes | memoryview) -> bytes:
    """Return the checksum at the end of a frame."""
    return hashlib.blake2b(framed, digest_size=CHECKSUM_BYTES).digest()


# --- to messages ------------------------------------------------------------------------------------------------


class _Terms(NamedTuple):
    """What all rows of a table have in common, in the order of their numbers."""

    projection: Projection
    noise: NoiseMoments
    place: NoisePlace
    guarantee: Guarantee
    multiplier: Fraction
    parts: tuple[NoisePart, ...]
    agreement: str | None
    clip: str | None
    history: HistoryPart | None


class _Fixed(NamedTuple):
    """The bytes of `_Terms`, between which a release's own fields are."""

    before_values: bytes
    after_values: bytes
    after_ids: bytes
    after_counts: bytes


_LAST: list[tuple[_Terms, _Fixed]] = []
"""The last terms that were written: they take longer than the fields of a row."""


def _payload(release: PrivateSketch) -> bytes:
    """Return a release as the bytes of a message, of which the fields are in the order of their numbers."""
    fixed = _fixed(release)
    counts = () if release.counts is None else _values_field("counts", release.counts)
    values = _values_field("values", release.values)
    ids = *_id_fields("release_ids", release.release_ids), *_id_fields("data_ids", release.data_ids)
    rest = *ids, fixed.after_ids, *counts, fixed.after_counts
    return b"".join([fixed.before_values, *values, fixed.after_values, *rest])


def _values_field(name: str, values: Ints) -> tuple[bytes, bytes]:
    """Return a field of cells as bytes, in two parts: without a message, this takes a third of the time."""
    width = _least_width(values)
    return _before_cells(name, width, values.size), values.astype(f"<i{width}").tobytes()


@functools.lru_cache(maxsize=_KEPT)
def _before_cells(name: str, width: int, count: int) -> bytes:
    size = width * count
    field: Any = {name: wire_pb2.Values(width=width, cells=bytes(size))}
    return _bytes_of(wire_pb2.PrivateSketch(**field))[:-size]


def _id_fields(name: str, ids: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Return a repeated field of ids, which all have one length, as bytes."""
    before = _before_id(name, len(ids[0])) if ids else b""
    return before, before.join(ids)


@functools.cache
def _before_id(name: str, size: int) -> bytes:
    field: Any = {name: [bytes(size)]}
    return _bytes_of(wire_pb2.PrivateSketch(**field))[:-size]


def _fixed(release: PrivateSketch) -> _Fixed:
    terms = _Terms(
        release.projection,
        release.noise,
        release.noise_place,
        release.guarantee,
        release.multiplier,
        release.parts,
        release.agreement,
        release.clip,
        release.history,
    )
    for last, fixed in _LAST:
        if last == terms:
            return fixed
    fixed = _written(terms)
    _LAST[:] = [(terms, fixed)]
    return fixed


def _written(terms: _Terms) -> _Fixed:
    message = wire_pb2.PrivateSketch
    noise = wire_pb2.Noise(k2=terms.noise.k2, k4=terms.noise.k4, place=place_name(terms.place))
    after_values = message(
        noise=noise, guarantee=guarantee_message(terms.guarantee), multiplier=ratio_message(terms.multiplier)
    )
    after_ids = message(parts=_part_messages(terms.parts), agreement=agreement_bytes(terms.agreement))
    after_counts = message(clip=terms.clip, history=_history_message(terms.history))
    first = message(projection=projection_message(terms.projection))
    return _Fixed(*map(_bytes_of, (first, after_values, after_ids, after_counts)))


def _is_as_written(message: wire_pb2.PrivateSketch, release: PrivateSketch) -> bool:
    """Return whether `_payload` of a release that was read has the same fields, but for projection and guarantee.

    Field by field this takes half as long as to write them again. Cells and the agreement cannot differ.
    """
    noise, read, has = release.noise, message.noise, message.HasField
    return (
        has("projection")
        and has("values")
        and has("noise")
        and has("guarantee")
        and has("multiplier")
        and _is_least_width(message.values.width, release.values)
        and (release.counts is None or _is_least_width(message.counts.width, release.counts))
        and (read.k2, read.k4, copysign(1, read.k2), copysign(1, read.k4))
        == (noise.k2, noise.k4, 1, copysign(1, noise.k4))
        and read.place == place_name(release.noise_place)
        and message.multiplier.numerator == release.multiplier.numerator
        and message.multiplier.denominator == release.multiplier.denominator
        and (*message.release_ids,) == release.release_ids
        and (*message.data_ids,) == release.data_ids
        and _history_message(release.history) == (message.history if has("history") else None)
        and (not release.parts or [*map(_bytes_of, message.parts)] == [*map(_bytes_of, _part_messages(release.parts))])
    )


def _bytes_of(message: Any) -> bytes:
    data: bytes = message.SerializeToString(deterministic=True)
    return data


def _part_messages(parts: Iterable[NoisePart]) -> list[wire_pb2.NoisePart]:
    messages = [
        wire_pb2.NoisePart(
            noise=wire_pb2.Noise(k2=part.noise.k2, k4=part.noise.k4),
            guarantee=guarantee_message(part.guarantee),
            multiplier=ratio_message(Fraction(part.multiplier)),
            count=part.count,
            history=_history_message(part.history),
        )
        for part in parts
    ]
    return sorted(messages, key=_bytes_of)


def _history_message(part: HistoryPart | None) -> wire_pb2.History | None:
    if part is None:
        return None
    first, last = part.minus or (0, 0)
    return wire_pb2.History(
        id=part.id, start=part.start, stop=part.stop, row=part.is_row, minus_start=first, minus_stop=last
    )


def projection_message(projection: Projection) -> wire_pb2.Projection:
    """Return a projection as a message.

    Raises
    ------
    InvalidInputError
        If the projection has a field for which the format has no number: a reader could not rebuild the map.
    """
    message = wire_pb2.Projection(
        kind=projection.kind,
        dim=projection.dim,
        sketch_dim=projection.sketch_dim,
        seed=projection.seed,
        resolution=ratio_message(projection.grid),
    )
    own = {name: value for name, value in projection.agreed_fields().items() if name not in _EVERY_KIND}
    unnumbered = sorted(own.keys() - _OWN_FIELDS.keys())
    if unnumbered:
        raise InvalidInputError(
            f"the exchange format has no number for {', '.join(unnumbered)} of a projection of kind "
            f"{projection.kind!r}: add it to Projection in wire.proto, and to the table of projections in WIRE.md"
        )
    for name, value in own.items():
        if _OWN_FIELDS[name]:
            getattr(message, name).CopyFrom(ratio_message(value))
        else:
            setattr(message, name, value)
    return message


def values_message(values: Ints) -> wire_pb2.Values:
    """Return cells at the least width that holds them all."""
    width = _least_width(values)
    return wire_pb2.Values(width=width, cells=values.astype(f"<i{width}").tobytes())


def _is_least_width(width: int, values: Ints) -> bool:
    """Return whether `_least_width` is ``width``, in which the values fit; half of it holds half as many bits."""
    half = 1 << (4 * width - 1)
    return bool(width == 1 or np.maximum.reduce(values) >= half or np.minimum.reduce(values) < -half)


def _least_width(values: Ints) -> int:
    largest = max(int(np.maximum.reduce(values)), -int(np.minimum.reduce(values)) - 1)  # in less time than by max()
    return next(width for width in _WIDTHS if largest < 1 << (8 * width - 1))


def agreement_bytes(fingerprint: str | None) -> bytes | None:
    """Return the fingerprint of a release's agreement as bytes."""
    return None if fingerprint is None else bytes.fromhex(fingerprint)


# --- from messages ----------------------------------------------------------------------------------------------


def agreement_of(message: Any) -> str | None:
    """Return the fingerprint of a message's agreement, which is checked where it is used."""
    return message.agreement.hex() if message.HasField("agreement") else None


def projection_of(message: wire_pb2.Projection, expect: Projection | None) -> Projection:
    """Return a message's projection; raise `WireFormatError` if it is invalid or not the expected one."""
    return _projection_and_form(message, expect)[0]


def _projection_and_form(message: wire_pb2.Projection, expect: Projection | None) -> tuple[Projection, bool]:
    """Return a message's projection, and whether it is written as this message."""
    projection, is_canonical = at("projection", lambda: _known_projection(_bytes_of(message)))
    if expect is not None:
        try:
            expect.check_same(projection)
        except IncompatibleProjectionsError as error:
            raise WireFormatError("projection", f"is not the expected one: {error}") from None
    return projection, is_canonical


@functools.lru_cache(maxsize=_KEPT)
def _known_projection(data: bytes) -> tuple[Projection, bool]:
    projection = _projection(wire_pb2.Projection.FromString(data))
    return projection, _bytes_of(projection_message(projection)) == data


def _guarantee_and_form(message: wire_pb2.Guarantee) -> tuple[Guarantee, bool]:
    """Return a message's guarantee, and whether it is written as this message."""
    data = _bytes_of(message)
    return known_guarantee(data) if len(data) <= _MOST_KEPT else known_guarantee.__wrapped__(data)


@functools.lru_cache(maxsize=_KEPT)
def known_guarantee(data: bytes) -> tuple[Guarantee, bool]:
    """Return a guarantee, and whether it is written as these very bytes."""
    guarantee = guarantee_of(wire_pb2.Guarantee.FromString(data))
    return guarantee, _bytes_of(guarantee_message(guarantee)) == data


def _projection(message: wire_pb2.Projection) -> Projection:
    fields: dict[str, Any] = {
        "kind": message.kind,
        "dim": message.dim,
        "sketch_dim": message.sketch_dim,
        "seed": message.seed,
        "resolution": ratio_of("projection.resolution", message.resolution),
    }
    for name, is_ratio in _OWN_FIELDS.items():
        if message.HasField(name):
            value = getattr(message, name)
            fields[name] = ratio_of(f"projection.{name}", value) if is_ratio else value
    return projection_from_fields(fields)


def _noise(message: wire_pb2.Noise) -> NoiseMoments:
    if message.k2 > _MAX_K2 or message.k4 > _MAX_K2**2:
        raise WireFormatError("noise", f"has cumulants {message.k2:g} and {message.k4:g}, beyond any sampler's")
    return at("noise", lambda: NoiseMoments(message.k2, message.k4))


def _counts(message: wire_pb2.PrivateSketch) -> Ints | None:
    """Return a message's counts, one or two; their number is checked where they are used."""
    if not message.HasField("counts"):
        return None
    return values_of("counts", message.counts, 2 if len(message.counts.cells) > message.counts.width else 1)


def _part(message: wire_pb2.NoisePart) -> NoisePart:
    multiplier = ratio_of("parts.multiplier", message.multiplier)
    guarantee, history = guarantee_of(message.guarantee), _history(message)
    return NoisePart(_noise(message.noise), guarantee, multiplier, message.count, history)


def _history(message: wire_pb2.PrivateSketch | wire_pb2.NoisePart) -> HistoryPart | None:
    """Return which part of a history a message is; None where it is none."""
    if not message.HasField("history"):
        return None
    part = message.history
    minus = (part.minus_start, part.minus_stop) if part.minus_stop or part.minus_start else None
    return at("history", lambda: HistoryPart(part.id, part.start, part.stop, part.row, minus))


def values_of(where: str, message: wire_pb2.Values, count: int) -> Ints:
    """Return ``count`` cells, int64, once their bytes are known to be there."""
    if message.width not in _WIDTHS:
        raise WireFormatError(f"{where}.width", f"must be one of {_WIDTHS}, got {message.width}")
    if len(message.cells) != message.width * count:
        raise WireFormatError(
            f"{where}.cells", f"{len(message.cells)} bytes, but {count} cells of {message.width} bytes were announced"
        )
    return np.frombuffer(message.cells, dtype=f"<i{message.width}").astype(np.int64)


RELEASES = enter_codec(Codec(PrivateSketch, "private sketch", encode_release, decode_release))
