"""A reader and writer of the exchange format, written from WIRE.md alone: no library, no protobuf, no NumPy.

It is what somebody in another language would write. `read` returns a message as a dictionary, once the bytes are sound
and canonical, and raises `Refused` with the reason otherwise; `write` is its inverse. Ratios are fractions, bytes are
bytes, and doubles are floats.
"""

import hashlib
import math
import struct
import unicodedata
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from tests.golden import laws
from tests.golden.mechanisms import Refused, check_budget, check_law, check_steps, need, text_of
from tests.golden.schemas import DEFAULTS, LISTS, MAGICS, SCHEMAS, WIRE_TYPES

# --- frame ------------------------------------------------------------------------------------------------------


def framed(magic: bytes, payload: bytes) -> bytes:
    """Return a payload in its frame."""
    return checked(struct.pack("<8sBQ", magic, 1, len(payload)) + payload)


def checked(data: bytes) -> bytes:
    """Return bytes with their checksum behind them."""
    return data + hashlib.blake2b(data, digest_size=16).digest()


def unframed(magic: bytes, data: bytes) -> bytes:
    """Return the payload of a frame."""
    need(data[:8] == magic[: len(data)], "another magic")
    need(len(data) >= 33, "shorter than a frame")
    _, version, length = struct.unpack("<8sBQ", data[:17])
    need(version == 1, "another version")
    need(length == len(data) - 33, "another payload length than stated")
    need(hashlib.blake2b(data[:-16], digest_size=16).digest() == data[-16:], "the checksum does not match")
    return data[17:-16]


def read(kind: str, data: bytes) -> dict[str, Any]:
    """Return the message in a frame, checked."""
    payload = unframed(MAGICS[kind], data)
    message = parsed(kind, payload)
    CHECKS[kind](message)
    need(encoded(kind, message) == payload, "not in canonical form")
    return message


def write(kind: str, message: dict[str, Any]) -> bytes:
    """Return a message in its frame."""
    return framed(MAGICS[kind], encoded(kind, message))


# --- protobuf ---------------------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    """Return a base-128 integer."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a base-128 integer and the place behind it."""
    value = 0
    for shift in range(0, 70, 7):
        need(at < len(data), "a varint is cut off")
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            need(value < 1 << 64, "a varint above 64 bits")
            return value, at
    raise Refused("a varint of more than ten bytes")


def parsed(kind: str, data: bytes) -> dict[str, Any]:
    """Return a message's fields by name; optional ones only where they are there."""
    message: dict[str, Any] = {}
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        need(tag >> 3 in SCHEMAS[kind], "an unknown field")
        name, of, rule = SCHEMAS[kind][tag >> 3]
        need(tag & 7 == WIRE_TYPES.get(of, 2), "another wire type")
        if tag & 7 == 0:
            raw, at = read_varint(data, at)
            value: Any = raw
        else:
            length, at = (8, at) if tag & 7 == 1 else read_varint(data, at)
            need(length <= len(data) - at, "a field is cut off")
            value, at = data[at : at + length], at + length
        value = decoded(of, value)
        if rule in LISTS:
            message.setdefault(name, []).append(value)
        else:
            need(name not in message, "a field is there twice")
            message[name] = value
    for name, of, rule in SCHEMAS[kind].values():
        if rule == "repeated":
            message.setdefault(name, [])
        elif rule == "always":
            need(name in message, f"{name} is missing")
        elif rule == "default":
            message.setdefault(name, DEFAULTS.get(of, 0))
    return message


def decoded(of: str, value: Any) -> Any:
    """Return a field's value."""
    if of in SCHEMAS:
        return decoded_message(of, value)
    if of == "double":
        return struct.unpack("<d", value)[0]
    if of == "fixed64":
        return int.from_bytes(value, "little")
    need(of not in ("uint32", "sint32") or value < 1 << 32, "above 32 bits")
    if of in ("sint32", "sint64"):
        return -(value + 1 >> 1) if value % 2 else value >> 1
    if of == "bool":
        need(value < 2, "neither true nor false")
        return value == 1
    return decoded_text(value) if of == "string" else value


def decoded_text(data: bytes) -> str:
    """Return UTF-8 as text."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Refused("text is not UTF-8") from None


def decoded_message(of: str, data: bytes) -> Any:
    """Return a message within a message, a ratio as a fraction."""
    message = parsed(of, data)
    if of != "Ratio":
        return message
    need(message["denominator"] > 0, "a ratio with denominator 0")
    return Fraction(message["numerator"], message["denominator"])


def encoded(kind: str, message: dict[str, Any]) -> bytes:
    """Return a message's canonical bytes."""
    out = b""
    for number, (name, of, rule) in sorted(SCHEMAS[kind].items()):
        values = message.get(name, []) if rule in LISTS else [message[name]] if name in message else []
        for value in values:
            data = field_bytes(of, value)
            if rule == "default" and is_default(of, data):
                continue
            prefix = varint(number << 3 | WIRE_TYPES.get(of, 2))
            out += prefix + (data if of in WIRE_TYPES else varint(len(data)) + data)
    return out


def field_bytes(of: str, value: Any) -> bytes:
    """Return a field's bytes behind its tag and length; for integers their varint."""
    if of == "Ratio":
        return encoded_ratio(zigzag(value.numerator), value.denominator)
    if of in SCHEMAS:
        return encoded(of, value)
    return SCALARS.get(of, varint)(value)


def is_default(of: str, data: bytes) -> bool:
    """Return whether a field's bytes are those of 0, or of nothing; bytes of zeros are something."""
    return not (data if of in ("bytes", "string") else any(data))


def zigzag(value: int) -> int:
    """Return an integer with its sign in the lowest bit."""
    return 2 * value if value >= 0 else -2 * value - 1


def encoded_ratio(numerator: int, denominator: int) -> bytes:
    """Return a Ratio message from its numerator's zigzag form."""
    return (b"\x08" + varint(numerator) if numerator else b"") + b"\x10" + varint(denominator)


SCALARS: dict[str, Callable[[Any], bytes]] = {
    "bytes": bytes,
    "string": str.encode,
    "double": struct.Struct("<d").pack,
    "fixed64": struct.Struct("<Q").pack,
    "sint32": lambda value: varint(zigzag(value)),
}


# --- what the fields may say --------------------------------------------------------------------------------------


def check_sketch(message: dict[str, Any]) -> None:
    """Refuse a PrivateSketch that is not valid."""
    check_projection(message["projection"])
    width, cells = message["values"]["width"], message["values"]["cells"]
    need(width in (1, 2, 4, 8), "a width other than 1, 2, 4, 8")
    need(len(cells) == width * message["projection"]["sketch_dim"], "another number of cells than sketch_dim")
    need(width == least_width(cells_of(message)), "cells at more than their least width")
    check_noise(message["noise"])
    place, kind = message["noise"]["place"], message["projection"]["kind"]
    is_behind = place == "hadamard" and laws.KINDS[kind].behind is not None
    need(place in ("", "input") or is_behind, "noise at an unknown place")
    check_guarantee(message["guarantee"])
    check_multiplier(message["multiplier"])
    check_ids(message["release_ids"], at_least=1)
    need(len(message.get("agreement", bytes(16))) == 16, "a fingerprint of other than 16 bytes")
    check_ids(message["data_ids"], at_least=0)
    for part in message["parts"]:
        check_noise(part["noise"])
        need(part["noise"]["place"] == "", "a part with a place of its own")
        check_guarantee(part["guarantee"])
        check_multiplier(part["multiplier"])
        need(part["multiplier"] > 0 and part["count"] > 0, "a part with a multiplier or a count of 0 or less")
    if message["parts"]:
        need(sum(part["count"] for part in message["parts"]) == len(message["release_ids"]), "another number of parts")
        whole = [encoded("NoisePart", part) for part in message["parts"]]
        need(whole == sorted(whole), "parts out of order")
        alike = [encoded("NoisePart", part | {"count": 0}) for part in message["parts"]]
        need(len(set(alike)) == len(alike), "equal parts apart")
    need(message.get("clip", "scale") in ("scale", "equal", "average"), "an unknown way to clip")
    in_cells = message["guarantee"]["neighbours"]["kind"] == "sketch-l2"
    need(in_cells or "clip" not in message, "sketches clipped to a bound on something else")
    check_history(message)
    if "counts" in message:
        check_counts(message)


def check_history(message: dict[str, Any]) -> None:
    """Refuse parts of histories without a schedule, or schedules without, and rows that are no rows."""
    for part in message["parts"] or [message]:
        schedule = schedule_stated(part["guarantee"].get("steps", []))
        need(("history" in part) == (schedule is not None), "a schedule without a history, or the reverse")
        if "history" not in part:
            continue
        said = part["history"]
        minus = (said["minus_start"], said["minus_stop"])
        need(len(said["id"]) == 8, "the id of a history of other than 8 bytes")
        for start, stop in ((said["start"], said["stop"]), *([minus] if any(minus) else [])):
            need(start < stop <= schedule["horizon"], "windows out of range")
        is_row = not any(minus) and said["stop"] == said["start"] + 1
        need(not said["row"] or (is_row and not message["parts"] and message["multiplier"] == 1), "a row that is none")
    need("history" not in message or not message["parts"], "the history of a sum")
    if "history" in message:
        need(len(message["release_ids"]) == 1 and message["noise"]["place"] == "", "more than one release, or place")


def schedule_stated(steps: list[dict[str, Any]]) -> Any:
    """Return the schedule of a single release, or None."""
    is_single = bool(steps) and "noise" in steps[0] and len(steps) <= 2 and all("keys" in one for one in steps[1:])
    return steps[0]["noise"].get("schedule") if is_single else None


def check_counts(message: dict[str, Any]) -> None:
    """Refuse counts that the guarantees do not state."""
    width, cells = message["counts"]["width"], message["counts"]["cells"]
    need(width in (1, 2, 4, 8), "counts of a width other than 1, 2, 4, 8")
    factor = message["multiplier"]
    halved = factor.numerator == 1 and factor.denominator & (factor.denominator - 1) == 0
    ranges = any("history" in part for part in message["parts"] or [message])
    need(factor == 1 or (halved and ranges), "counts of a multiple")
    need(message["noise"]["place"] == "", "counts beside other noise")
    need(not message.get("history", {}).get("minus_stop"), "counts of a difference")
    weights = weights_of(message)
    need(weights is not None, "counts whose weights are not stated, or not alike")
    need(len(cells) == width * (2 if weights["slack"] else 1), "another number of counts than weights")
    need(width == least_width(counts_of(message)), "counts at more than their least width")


def weights_of(message: dict[str, Any]) -> Any:
    """Return the weights of counts that all releases inside state alike, or None."""
    guarantees = [part["guarantee"] for part in message["parts"]] or [message["guarantee"]]
    stated = [weights_stated(one.get("steps", [])) for one in guarantees]
    return stated[0] if all(one == stated[0] for one in stated) else None


def weights_stated(steps: list[dict[str, Any]]) -> Any:
    """Return the weights of a single release: noise, with or without a choice of keys."""
    is_single = bool(steps) and "noise" in steps[0] and len(steps) <= 2 and all("keys" in one for one in steps[1:])
    return steps[0]["noise"].get("counting") if is_single else None


OF_BINS = ("iDP-SignOPORP", "iDP-SignOPORP-G")


def check_signs(message: dict[str, Any]) -> None:
    """Refuse published signs of either kind that are not valid."""
    check_projection(message["projection"])
    k, guarantee = message["projection"]["sketch_dim"], message["guarantee"]
    need(len(message["signs"]) == -(-k // 8), "another number of signs than sketch_dim")
    need(int.from_bytes(message["signs"], "little") < 1 << k, "bits after the last sign")
    check_guarantee(guarantee)
    need(len(message["release_id"]) == 8, "a release id of other than 8 bytes")
    need(len(message.get("agreement", bytes(16))) == 16, "a fingerprint of other than 16 bytes")
    if "law" in message:
        check_law(message["law"])
        bounded = any("norm_bound" in step.get("flips", {}) for step in guarantee.get("steps", []))
        need(not bounded or guarantee["conditions"], "conditions are missing")
        check_ids(message["data_ids"], at_least=0)
        return
    need(message["method"] in ("iDP-SignRP-G", "iDP-SignRP-RR", *OF_BINS), "an unknown method")
    need(guarantee["mechanism"] == message["method"], "another mechanism than the method")
    need("steps" not in guarantee, "the method is the record")
    need(not guarantee["conditions"] and not guarantee["neighbours"]["max_keys"], "conditions or max_keys")
    need((guarantee["delta"] > 0) == (message["method"].endswith("-G")), "a delta the method does not have")
    pair = message["projection"]["kind"], guarantee["neighbours"]["kind"]
    need(pair[1] != "sketch-l2", "neighbours in sketch space")
    need(message["method"] not in OF_BINS or pair == ("oporp", "one-coordinate"), "not for an OPORP's method")


CHECKS = {"PrivateSketch": check_sketch, "SignSketch": check_signs, "IndividualSignSketch": check_signs}


def check_projection(fields: dict[str, Any]) -> None:
    """Refuse a projection with a field out of range."""
    need(fields["kind"] in laws.KINDS, "an unknown kind of projection")
    kind, own = laws.KINDS[fields["kind"]], set(fields) - set(laws.EVERY_KIND)
    need(own == kind.fields, "fields that the kind does not have")
    need(1 <= fields["dim"] <= 1 << 60, "dim out of range")
    need(1 <= fields["sketch_dim"] <= 1 << 24, "sketch_dim out of range")
    need(0 < fields["resolution"].numerator < 1 << 63 and fields["resolution"].denominator < 1 << 63, "resolution")
    for name in own:
        need(laws.RANGES[name](fields[name]), f"{name} out of range")
    need(fields.get("independence", 4) <= kind.most_independence, "independence out of range")
    need(kind.fits(fields), "beyond the limits of the kind")


def check_noise(noise: dict[str, Any]) -> None:
    """Refuse cumulants that no noise has."""
    need(math.isfinite(noise["k2"]) and math.isfinite(noise["k4"]), "cumulants that are not finite")
    need(math.copysign(1, noise["k2"]) > 0 and 0 <= noise["k2"] <= 2.0**130, "k2 out of range")
    need(noise["k4"] != 0 or math.copysign(1, noise["k4"]) > 0, "a negative zero")
    need(-2.001 * noise["k2"] ** 2 <= noise["k4"] <= 2.0**260, "k4 out of range")


def check_guarantee(guarantee: dict[str, Any]) -> None:
    """Refuse what no guarantee says."""
    check_budget(guarantee)
    neighbours = guarantee["neighbours"]
    need(neighbours["kind"] in ("l1", "l2", "sketch-l2", "one-coordinate"), "an unknown neighbour relation")
    need(neighbours["bound"] > 0, "a bound that is not positive")
    need(neighbours["max_keys"] != 1, "max_keys of 1 is left out")
    for text in (neighbours["unit"], guarantee["mechanism"], *guarantee["conditions"]):
        need(1 <= len(text) <= 200, "a text of no or more than 200 characters")
        hidden = [c for c in text if unicodedata.category(c)[0] in "CZ" and c != " "]
        need(not hidden, "a text with characters that are not printable")
    need(len(guarantee["conditions"]) <= 64, "more than 64 conditions")
    need(guarantee["conditions"] == sorted(set(guarantee["conditions"])), "conditions out of order or repeated")
    need(guarantee["basis"] in ("", "enforced", "asserted"), "an unknown basis of the bound")
    if "steps" in guarantee:
        check_steps(guarantee["steps"])
        for step in guarantee["steps"]:
            if (weights := step.get("noise", {}).get("counting")) is not None:
                in_cells = neighbours["kind"] == "sketch-l2" and neighbours["max_keys"] < (1 << 32) - 1
                need(neighbours["kind"] == "l1" or in_cells, "counts under neighbours that do not bound them")
                need(not (in_cells and weights["slack"]), "slack without a bound on totals")
        need(guarantee["mechanism"] == text_of(guarantee["steps"]), "another text than that of the steps")


def check_multiplier(ratio: Fraction) -> None:
    """Refuse a multiplier of 0 or beyond 63 bits."""
    need(0 < abs(ratio.numerator) < 1 << 63 and ratio.denominator < 1 << 63, "multiplier out of range")


def check_ids(ids: list[bytes], *, at_least: int) -> None:
    """Refuse ids that repeat, are out of order, or not of 8 bytes."""
    need(len(ids) >= at_least and all(len(one) == 8 for one in ids), "ids of other than 8 bytes, or none")
    need(ids == sorted(set(ids)), "ids repeated or out of order")


# --- cells --------------------------------------------------------------------------------------------------------


def cells_of(message: dict[str, Any]) -> list[int]:
    """Return a PrivateSketch's cells."""
    return numbers_of(message["values"])


def counts_of(message: dict[str, Any]) -> list[int]:
    """Return a PrivateSketch's counts."""
    return numbers_of(message["counts"])


def numbers_of(values: dict[str, Any]) -> list[int]:
    """Return the integers of a Values message."""
    width, data = values["width"], values["cells"]
    return [int.from_bytes(data[at : at + width], "little", signed=True) for at in range(0, len(data), width)]


def values_message(cells: list[int]) -> dict[str, Any]:
    """Return cells at their least width."""
    width = least_width(cells)
    return {"width": width, "cells": b"".join(cell.to_bytes(width, "little", signed=True) for cell in cells)}


def least_width(cells: list[int]) -> int:
    """Return the least width that holds all cells."""
    return next(w for w in (1, 2, 4, 8) if all(-1 << 8 * w - 1 <= cell < 1 << 8 * w - 1 for cell in cells))
