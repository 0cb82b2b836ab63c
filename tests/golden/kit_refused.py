"""Bytes that every reader must refuse, each with the reason: one change to a valid release, by the pure writer."""

import json
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from tests.golden import local_reader, reader, schemas
from tests.golden.kit_releases import Message, guarantee, ids, load, mechanism, projection_fields, projection_of
from tests.golden.reader import encoded, framed, unframed, varint

NAN, INFINITY = float("nan"), float("inf")


def refused(made: dict[str, Message], signs: dict[str, Message]) -> list[Message]:
    """Return all cases: kind, name of the change, reason, bytes, and for reports their mechanism."""
    base = made["a sum with other noise"]["message"]
    one = made["sjlt-block, x"]["message"]
    assert len(base["parts"]) == 2
    cases = [_case("PrivateSketch", *change) for change in [*_frames(base), *_payloads(base), *_values(base)]]
    cases += [_changed("PrivateSketch", base, *change) for change in [*_noises(base), *_guarantees(base), *_ids(base)]]
    cases += [_changed("PrivateSketch", one, *change) for change in _projections()]
    cases += [_changed("PrivateSketch", base, *change) for change in _parts(base)]
    counted = made["of counted units, x"]["message"]
    cases += [_changed("PrivateSketch", counted, *change) for change in _counts(counted, base)]
    row, ranged = made["row 1 of tree"]["message"], made["a range of root"]["message"]
    cases += [_changed("PrivateSketch", row, *change) for change in _rows(row, counted)]
    cases += [_changed("PrivateSketch", ranged, *change) for change in _ranges(ranged)]
    lost = {name: value for name, value in row.items() if name != "history"}
    cases.append(_changed("PrivateSketch", lost, "a row without history", "a schedule goes with a history", {}))
    several = {"release_ids": ids("two", 2)}
    reason = "without parts it is no sum, and a schedule goes with a history"
    cases.append(_changed("PrivateSketch", lost, "two releases of a schedule, without parts", reason, several))
    before = {"noise": row["noise"] | {"place": "input"}}
    cases.append(
        _changed("PrivateSketch", row, "a row with noise on the input", "rows have noise on the cells", before)
    )
    stray = {"history": row["history"]}
    cases.append(_changed("PrivateSketch", counted, "a history without schedule", "both or none", stray))
    kept, individual = signs["rademacher, constant, x"]["message"], signs["oporp, individual, x"]["message"]
    cases += [_changed("SignSketch", kept, *change) for change in _signs(kept)]
    cases += [_changed("IndividualSignSketch", individual, *change) for change in _individual(individual)]
    other = _case(
        "SignSketch", "of another kind", "a private sketch is no sign sketch", reader.write("PrivateSketch", base)
    )
    return [*cases, other, *_local()]


def _case(kind: str, name: str, reason: str, data: bytes) -> Message:
    return {"kind": kind, "name": name, "reason": reason, "bytes": data.hex()}


def _changed(kind: str, base: Message, name: str, reason: str, change: Message) -> Message:
    return _case(kind, name, reason, framed(schemas.MAGICS[kind], _loosely(kind, base | change)))


class Unreduced:
    """A ratio that is not in lowest terms, or has a denominator of 0."""

    def __init__(self, numerator: int, denominator: int) -> None:
        self.pair = numerator, denominator


class Written(str):
    """A text that is written though it is empty."""

    __slots__ = ()


def _loosely(kind: str, message: Message) -> bytes:
    """Return a message's bytes, invalid ratios too."""
    out = b""
    for number, (name, of, rule) in sorted(schemas.SCHEMAS[kind].items()):
        values = message.get(name, []) if rule in schemas.LISTS else [message[name]] if name in message else []
        for value in values:
            if isinstance(value, Unreduced):
                data = reader.encoded_ratio(2 * value.pair[0], value.pair[1])
            elif of in schemas.SCHEMAS and of != "Ratio":
                data = _loosely(of, value)
            else:
                data = reader.field_bytes(of, value)
            if rule == "default" and reader.is_default(of, data) and not isinstance(value, Written):
                continue
            prefix = varint(number << 3 | schemas.WIRE_TYPES.get(of, 2))
            out += prefix + (data if of in schemas.WIRE_TYPES else varint(len(data)) + data)
    return out


def _frames(base: Message) -> list[tuple[str, str, bytes]]:
    whole = reader.write("PrivateSketch", base)
    payload, magic = unframed(whole[:8], whole), whole[:8]
    flipped = bytearray(whole)
    flipped[40] ^= 4
    longer = struct.pack("<8sBQ", magic, 1, len(payload) + 1) + payload
    second = struct.pack("<8sBQ", magic, 2, len(payload)) + payload
    huge = struct.pack("<8sBQ", magic, 1, 2**63) + payload
    return [
        ("empty", "there is no frame", b""),
        ("cut in the header", "shorter than a frame", whole[:10]),
        ("cut by a byte", "the length does not match", whole[:-1]),
        ("a byte more", "the length does not match", whole + b"\0"),
        ("twice", "the length does not match", whole + whole),
        ("another magic", "of no kind", framed(b"\x89SSX\r\n\x1a\n", payload)),
        ("line ends changed on the way", "the magic is damaged", whole.replace(b"\r\n", b"\n", 1)),
        ("version 2", "of a version that is not known", reader.checked(second)),
        ("a length that is too large by one", "the length does not match", reader.checked(longer)),
        ("a length of 2^63", "the length does not match; nothing may be allocated by it", reader.checked(huge)),
        ("a changed byte", "the checksum does not match", bytes(flipped)),
        ("a changed checksum", "the checksum does not match", whole[:-1] + bytes([whole[-1] ^ 1])),
    ]


def _payloads(base: Message) -> list[tuple[str, str, bytes]]:
    magic, payload = schemas.MAGICS["PrivateSketch"], encoded("PrivateSketch", base)
    projection = encoded("Projection", base["projection"])
    first = b"\x0a" + varint(len(projection)) + projection
    rest = payload.removeprefix(first)
    noise = encoded("Noise", base["noise"])
    without_noise = payload.replace(b"\x1a" + varint(len(noise)) + noise, b"", 1)
    long_tag = b"\x8a\x00" + payload[1:]
    bad_text = payload.replace(base["guarantee"]["mechanism"].encode()[:4], b"\xff\xfe\xfd\xfc", 1)
    changes = [
        ("no payload", "every field is missing", b""),
        ("a payload cut off", "a field is cut off", payload[:-3]),
        ("an unknown field", "field 15 is not known", payload + b"\x78\x01"),
        ("fields out of order", "not canonical", rest + first),
        ("a field twice", "not canonical", first + payload),
        ("a tag of two bytes", "not canonical", long_tag),
        ("a default written out", "not canonical: noise.place is empty and there", _with_default(payload, noise)),
        ("without noise", "a message field is missing", without_noise),
        ("text that is not UTF-8", "text is UTF-8", bad_text),
        ("another wire type", "field 1 is no varint", b"\x08\x01" + rest),
    ]
    return [(name, reason, framed(magic, changed)) for name, reason, changed in changes]


def _with_default(payload: bytes, noise: bytes) -> bytes:
    longer = noise + b"\x1a\x00"
    return payload.replace(b"\x1a" + varint(len(noise)) + noise, b"\x1a" + varint(len(longer)) + longer, 1)


def _values(base: Message) -> list[tuple[str, str, bytes]]:
    cells = reader.cells_of(base)
    wide = b"".join(cell.to_bytes(8, "little", signed=True) for cell in cells)
    changes: list[tuple[str, str, Message]] = [
        ("cells wider than needed", "cells have their least width", {"width": 8, "cells": wide}),
        ("a width of 3", "a width is 1, 2, 4 or 8", {"width": 3, "cells": wide[: 3 * len(cells)]}),
        ("a width of 0", "a width is 1, 2, 4 or 8", {"width": 0, "cells": b""}),
        ("a cell too few", "there are sketch_dim cells", reader.values_message(cells[:-1])),
        ("a cell too many", "there are sketch_dim cells", reader.values_message([*cells, 1])),
    ]
    magic = schemas.MAGICS["PrivateSketch"]
    return [(name, why, framed(magic, encoded("PrivateSketch", base | {"values": v}))) for name, why, v in changes]


def _projections() -> list[tuple[str, str, Message]]:
    sjlt = projection_fields(projection_of("sjlt-block"))
    changes: list[tuple[str, str, Message]] = [
        ("an unknown kind", "the kind is not known", {"kind": "sjlt"}),
        ("dim 0", "dim is 1 to 2^60", {"dim": 0}),
        ("dim above 2^60", "dim is 1 to 2^60", {"dim": 2**60 + 1}),
        ("sketch_dim 0", "sketch_dim is 1 to 2^24", {"sketch_dim": 0}),
        ("sketch_dim above 2^24", "sketch_dim is 1 to 2^24", {"sketch_dim": 2**25}),
        ("a sparsity that does not divide", "s divides k", {"sparsity": 7}),
        ("blocks of no power of two", "k/s is a power of two", {"sketch_dim": 3 * sjlt["sparsity"]}),
        ("sparsity 0", "sparsity is 1 to 2^24", {"sparsity": 0}),
        ("independence 3", "independence is 4 to 256", {"independence": 3}),
        ("independence 257", "independence is 4 to 256 but for gaussian", {"independence": 257}),
        ("resolution 0", "a resolution is positive", {"resolution": Fraction(0)}),
        ("a negative resolution", "a resolution is positive", {"resolution": Fraction(-1)}),
        ("a ratio not in lowest terms", "not canonical", {"resolution": Unreduced(2, 2)}),
        ("a ratio with denominator 0", "a denominator is positive", {"resolution": Unreduced(1, 0)}),
        ("a field of another kind", "sjlt-block has no fraction_bits", {"fraction_bits": 8}),
    ]
    cases = [(name, reason, _sized(sjlt | change)) for name, reason, change in changes]
    missing = {name: value for name, value in sjlt.items() if name != "independence"}
    cases.append(("without independence", "sjlt-block has independence", _sized(missing)))
    identity = projection_fields(projection_of("identity")) | {"seed": 1}
    cases.append(("identity with a seed", "the seed of identity is 0", _sized(identity)))
    return cases


def _sized(projection: Message) -> Message:
    """Return a projection with as many cells as it says, but for absurd numbers."""
    return {"projection": projection, "values": reader.values_message([1] * min(projection["sketch_dim"], 100))}


def _noises(base: Message) -> list[tuple[str, str, Message]]:
    changes: list[tuple[str, str, Message]] = [
        ("k2 not a number", "cumulants are finite", {"k2": NAN}),
        ("k2 infinite", "cumulants are finite", {"k2": INFINITY}),
        ("k4 not a number", "cumulants are finite", {"k4": NAN}),
        ("k2 negative", "k2 is at least 0", {"k2": -1.0}),
        ("k2 negative zero", "no negative zeros", {"k2": -0.0, "k4": 0.0}),
        ("k4 negative zero", "no negative zeros", {"k4": -0.0}),
        ("k2 above 2^130", "k2 is at most 2^130", {"k2": 2.0**131}),
        ("k4 far below what k2 allows", "k4 is at least about -2·k2²", {"k4": -3 * base["noise"]["k2"] ** 2}),
        ("an unknown place", "a place is empty, input or hadamard", {"place": "output"}),
        ("hadamard of another kind", "hadamard is for fjlt only", {"place": "hadamard"}),
    ]
    return [(name, reason, {"noise": base["noise"] | change}) for name, reason, change in changes]


def _guarantees(base: Message) -> list[tuple[str, str, Message]]:
    neighbours = base["guarantee"]["neighbours"]
    changes: list[tuple[str, str, Message]] = [
        ("epsilon 0", "ε is 1e-6 to 1e6", {"epsilon": 0.0}),
        ("epsilon not a number", "ε is 1e-6 to 1e6", {"epsilon": NAN}),
        ("epsilon too large", "ε is 1e-6 to 1e6", {"epsilon": 1e7}),
        ("delta 1", "δ is below 1", {"delta": 1.0}),
        ("delta negative", "δ is at least 0", {"delta": -1e-9}),
        ("delta negative zero", "no negative zeros", {"delta": -0.0}),
        (
            "unknown neighbours",
            "a relation is l1, l2, sketch-l2 or one-coordinate",
            {"neighbours": neighbours | {"kind": "l3"}},
        ),
        ("a bound of 0", "a bound is positive", {"neighbours": neighbours | {"bound": Fraction(0)}}),
        ("max_keys of 1", "not canonical: absent for 1", {"neighbours": neighbours | {"max_keys": 1}}),
        ("no unit", "a unit is text", {"neighbours": neighbours | {"unit": ""}}),
        ("a mechanism of two lines", "text is printable", {"mechanism": "one\ntwo", "steps": []}),
        ("another text than the steps", "the text is that of the steps", {"mechanism": "discrete Laplace, scale 2"}),
        *_steps(),
        ("conditions out of order", "conditions ascend", {"conditions": ["b", "a"]}),
        ("an unknown basis", "a bound is enforced or asserted", {"basis": "believed"}),
        ("an empty basis", "not canonical: absent if unknown", {"basis": Written("")}),
        ("a condition twice", "conditions are distinct", {"conditions": ["a", "a"]}),
    ]
    return [(name, reason, {"guarantee": base["guarantee"] | change}) for name, reason, change in changes]


_NOISE: Message = {"kind": "laplace", "amount": Fraction(1), "layers": 0, "place": ""}
_ONE: list[Message] = [{"noise": _NOISE}]


def _steps() -> list[tuple[str, str, Message]]:
    """Return changes of a mechanism; its text follows."""
    keys, flips = {"epsilon": 0.5, "delta": 1e-9}, {"method": "m", "law": {"shape": "linear", "rate": Fraction(1)}}
    cases: list[tuple[str, str, list[Message]]] = [
        ("a scale of 0", "a scale is positive", [{"noise": _NOISE | {"amount": Fraction(0)}}]),
        ("a scale above 2^32", "a scale is at most 2^32", [{"noise": _NOISE | {"amount": Fraction(2**32 + 1)}}]),
        ("a variance in 257ths", "a denominator is at most 256", [{"noise": _gaussian(Fraction(1000, 257))}]),
        ("a variance below 1/2", "a variance is at least 1/2", [{"noise": _gaussian(Fraction(1, 4))}]),
        ("one layer", "not canonical: absent for 1", [{"noise": _NOISE | {"layers": 1}}]),
        ("three layers", "there are two layers at most", [{"noise": _NOISE | {"layers": 3}}]),
        ("shares of nobody honest", "one at least is honest", _shared(3, 0)),
        ("more honest than parties", "honest are 1 to all", _shared(3, 4)),
        ("shares of 4097", "there are at most 4096 parties", _shared(4097, 4097)),
        ("shares in two layers", "shares are one noise", [{"noise": _shared(3, 3)[0]["noise"] | {"layers": 2}}]),
        ("shares on the input", "shares are on the cells", [{"noise": _shared(3, 3)[0]["noise"] | {"place": "input"}}]),
        ("keys for nothing", "ε is 1e-6 to 1e6", [*_ONE, {"keys": keys | {"epsilon": 0.0}}]),
        ("keys with delta 1", "δ is below 1", [*_ONE, {"keys": keys | {"delta": 1.0}}]),
        ("flips without method", "a method is text", [{"flips": flips | {"method": ""}}]),
        ("flips with rate 0", "a rate is positive", [{"flips": flips | {"law": flips["law"] | {"rate": Fraction(0)}}}]),
        ("a norm of 0", "a bound on norms is positive", [{"flips": flips | {"norm_bound": Fraction(0)}}]),
        ("steps of text alone", "not canonical: absent for text alone", [{"text": "m"}]),
        ("two texts in a row", "not canonical: they are one", [*_ONE, {"text": "a"}, {"text": "b"}]),
        ("a step without text", "a text is not empty", [*_ONE, {"text": ""}]),
        ("17 steps", "there are at most 16 steps", [{"keys": keys | {"epsilon": 1.0, "delta": 0.0}}] * 17),
    ]
    found = [(name, reason, {"steps": steps, "mechanism": reader.text_of(steps)}) for name, reason, steps in cases]
    stated: list[tuple[str, str, list[Message]]] = [
        ("an unknown noise", "a noise is laplace or gaussian", [{"noise": _NOISE | {"kind": "uniform"}}]),
        ("noise at an unknown place", "a place is empty, input or hadamard", [{"noise": _NOISE | {"place": "output"}}]),
        ("a step that is nothing", "a step is one thing", [*_ONE, {}]),
        ("a step that is two things", "a step is one thing", [{"noise": _NOISE, "text": "m"}]),
    ]
    return found + [
        (name, reason, {"steps": steps, "mechanism": reader.text_of(_ONE)}) for name, reason, steps in stated
    ]


def _shared(parties: int, honest: int) -> list[Message]:
    return [{"noise": _NOISE | {"shares": {"parties": parties, "honest": honest}}}]


def _gaussian(variance: Fraction) -> Message:
    return _NOISE | {"kind": "gaussian", "amount": variance}


def _ids(base: Message) -> list[tuple[str, str, Message]]:
    first, *others = base["release_ids"]
    data = base["data_ids"]
    return [
        ("multiplier 0", "a multiplier is not 0", {"multiplier": Fraction(0)}),
        ("a multiplier not in lowest terms", "not canonical", {"multiplier": Unreduced(2, 4)}),
        ("no release id", "there is at least one release id", {"release_ids": [], "parts": []}),
        ("a release id of 7 bytes", "ids have 8 bytes", {"release_ids": [first[:7], *others]}),
        ("a release id twice", "ids are distinct", {"release_ids": [first, first, *others[1:]]}),
        ("release ids out of order", "ids ascend", {"release_ids": [*others, first]}),
        ("a data id of 9 bytes", "ids have 8 bytes", {"data_ids": [*data[:-1], data[-1] + b"\0"]}),
        ("a data id twice", "ids are distinct", {"data_ids": [data[0], *data]}),
        ("data ids out of order", "ids ascend", {"data_ids": data[::-1]}),
        ("an agreement of 15 bytes", "a fingerprint has 16 bytes", {"agreement": bytes(15)}),
        ("an agreement of no bytes", "a fingerprint has 16 bytes", {"agreement": b""}),
    ]


def _parts(base: Message) -> list[tuple[str, str, Message]]:
    first, second = base["parts"]
    longest = max(base["parts"], key=lambda part: part["count"])
    (other,) = (part for part in base["parts"] if part is not longest)
    apart = sorted([other, *[longest | {"count": 1}] * 2], key=lambda part: encoded("NoisePart", part))
    return [
        ("parts out of order", "parts ascend by their bytes", {"parts": [second, first]}),
        (
            "a part too many",
            "the counts add up to the number of release ids",
            {"parts": [first | {"count": first["count"] + 1}, second]},
        ),
        ("too few parts", "the counts add up to the number of release ids", {"parts": [second]}),
        ("alike parts apart", "alike parts are counted together", {"parts": apart}),
        ("a part counted 0 times", "a count is at least 1", {"parts": [first | {"count": 0}, second]}),
        ("a part's multiplier negative", "a part's multiplier is positive", {"parts": [_times(first, -1), second]}),
        ("a part's multiplier 0", "a part's multiplier is positive", {"parts": [_times(first, 0), second]}),
        ("a part with a place", "a part's place is empty", {"parts": [_noisy(first, place="input"), second]}),
        ("a part without number", "cumulants are finite", {"parts": [_noisy(first, k2=NAN), second]}),
        ("a part of no guarantee", "ε is 1e-6 to 1e6", {"parts": [_guaranteed(first, epsilon=0.0), second]}),
    ]


def _counts(base: Message, uncounted: Message) -> list[tuple[str, str, Message]]:
    (step,) = base["guarantee"]["steps"]

    def weighted(units: int, slack: int, **changes: Any) -> Message:
        steps = [{"noise": step["noise"] | {"counting": {"units": units, "slack": slack}} | changes}]
        return {"guarantee": base["guarantee"] | {"steps": steps, "mechanism": reader.text_of(steps)}}

    numbers, (first, second) = {"counts": uncounted["values"]}, reader.counts_of(base)
    of_one, of_three = (reader.values_message(one) for one in ([first], [first, second, 1]))
    wide = {"width": 8, "cells": b"".join(one.to_bytes(8, "little", signed=True) for one in (first, second))}
    uncounting = {name: said for name, said in step["noise"].items() if name != "counting"}
    unstated = {"guarantee": base["guarantee"] | mechanism([{"noise": uncounting}])}
    return [
        ("counts without weights", "the mechanism says what is counted", unstated),
        ("counts of a multiple", "a multiple has no counts", {"multiplier": Fraction(2)}),
        ("as many counts as cells", "there are one or two counts", numbers),
        ("a count too few", "with slack there are two counts", {"counts": of_one}),
        ("a count too many", "there are two counts at most", {"counts": of_three}),
        ("no counts in counts", "without any there is no field", {"counts": {"width": 1, "cells": b""}}),
        ("counts of width 3", "a width is 1, 2, 4 or 8", {"counts": {"width": 3, "cells": bytes(6)}}),
        ("counts wider than they need", "not canonical: the least width", {"counts": wide}),
        ("a weight of 0", "a count of units weighs 1 or more", weighted(0, 1)),
        ("a weight of 2^31", "weights are below 2^31", weighted(1 << 31, 1)),
        ("slack of 2^31", "weights are below 2^31", weighted(24, 1 << 31)),
        ("counts in two layers", "units are counted beside one noise on the cells", weighted(24, 1, layers=2)),
        ("slack in sketch space", "without a bound on totals there is no slack", _for(base, kind="sketch-l2")),
        ("counts for one coordinate", "units are counted under l1 and sketch-l2", _for(base, kind="one-coordinate")),
        ("an unknown clip", "sketches are clipped by scale or equal", {"clip": "cut"}),
        ("a clip of l1 neighbours", "sketches are clipped to sketch-l2", {"clip": "equal"}),
        ("an empty clip", "absent where there is none", {"clip": ""}),
    ]


def _for(message: Message, **changes: Any) -> Message:
    return {"guarantee": message["guarantee"] | {"neighbours": message["guarantee"]["neighbours"] | changes}}


def _times(part: Message, factor: int) -> Message:
    return part | {"multiplier": factor * part["multiplier"]}


def _noisy(part: Message, **changes: Any) -> Message:
    return part | {"noise": part["noise"] | changes}


def _guaranteed(part: Message, **changes: Any) -> Message:
    return part | {"guarantee": part["guarantee"] | changes}


def _rows(base: Message, other: Message) -> list[tuple[str, str, Message]]:
    history, (step,) = base["history"], base["guarantee"]["steps"]
    schedule = step["noise"]["schedule"]

    def scheduled(**changes: Any) -> Message:
        fields = {name: value for name, value in (schedule | changes).items() if value is not None}
        steps = [{"noise": step["noise"] | {"schedule": fields}}]
        return {"guarantee": base["guarantee"] | {"steps": steps, "mechanism": reader.text_of(steps)}}

    part = reader.read("PrivateSketch", reader.write("PrivateSketch", other))
    parts = [
        {"noise": one["noise"] | {"place": ""}, "guarantee": one["guarantee"], "multiplier": Fraction(1), "count": 1}
        for one in (base, part)
    ]
    parts[0] |= {"history": history}
    summed = {"parts": sorted(parts, key=lambda one: encoded("NoisePart", one)), "release_ids": ids("two", 2)}
    whole = {name: value for name, value in history.items() if name != "row"}
    return [
        ("a row of two windows", "a row is of one window", {"history": history | {"stop": history["stop"] + 1}}),
        ("half a row", "a row has a multiplier of 1", {"multiplier": Fraction(1, 2)}),
        ("a row less a window", "a row is not a difference", {"history": history | {"minus_stop": 1}}),
        ("a history of 7 bytes", "an id has 8 bytes", {"history": history | {"id": bytes(7)}}),
        ("a row beyond the horizon", "windows are below the horizon", {"history": history | {"start": 4, "stop": 5}}),
        ("a row in two releases", "a part of a history is one release", {"release_ids": ids("two", 2)}),
        ("a row in a sum", "no row is part of a sum", summed | {"history": whole | {"row": False}}),
        ("an unknown schedule", "a kind is separate, tree or factorisation", scheduled(kind="wave")),
        ("a horizon of 0", "a horizon is 1 to 100,000", scheduled(horizon=0)),
        ("a horizon above 100,000", "a horizon is 1 to 100,000", scheduled(horizon=100_001)),
        ("a unit in no window", "max_windows is 1 or more", scheduled(max_windows=0)),
        ("a unit in more windows than fit", "max_windows fits horizon and gap", scheduled(max_windows=3, gap=2)),
        ("a gap of 0", "a gap is 1 or more", scheduled(gap=0)),
        ("a depth of 0", "a depth is 1 to 64", scheduled(depth=0)),
        ("a depth of 65", "a depth is 1 to 64", scheduled(depth=65)),
        ("a tree without depth", "a tree has a depth", scheduled(depth=None)),
        ("a tree with bits", "bits are of a factorisation", scheduled(bits=4)),
        ("rows in two layers", "rows have one noise", _in_two_layers(base)),
    ]


def _in_two_layers(base: Message) -> Message:
    (step,) = base["guarantee"]["steps"]
    steps = [{"noise": step["noise"] | {"layers": 2}}]
    return {"guarantee": base["guarantee"] | {"steps": steps, "mechanism": reader.text_of(steps)}}


def _ranges(base: Message) -> list[tuple[str, str, Message]]:
    history, (step,) = base["history"], base["guarantee"]["steps"]

    def rooted(**changes: int) -> Message:
        steps = [{"noise": step["noise"] | {"schedule": step["noise"]["schedule"] | changes}}]
        return {"guarantee": base["guarantee"] | {"steps": steps, "mechanism": reader.text_of(steps)}}

    return [
        ("an empty range", "a range is not empty", {"history": history | {"start": 3, "stop": 3}}),
        ("less an empty range", "a range is not empty", {"history": history | {"minus_start": 1, "minus_stop": 1}}),
        ("less windows beyond the horizon", "windows are below the horizon", {"history": history | {"minus_stop": 5}}),
        ("counts of a difference of ranges", "a difference has no counts", {"history": history | {"minus_stop": 1}}),
        ("counts of a third of a range", "counts are in steps of 2^-g", {"multiplier": Fraction(1, 3)}),
        ("counts of a multiple of a range", "counts are in steps of 2^-g", {"multiplier": Fraction(2)}),
        ("13 bits", "bits are 1 to 12", rooted(bits=13)),
        ("one block", "blocks are 2 or more", rooted(blocks=1)),
        ("a band of 0", "a band is 1 or more", rooted(band=0)),
        ("a band beyond the horizon", "a band is up to the horizon", rooted(band=5)),
        ("a factorisation with a depth", "a depth is of a tree", rooted(depth=2)),
    ]


def _signs(base: Message) -> list[tuple[str, str, Message]]:
    last = base["signs"][:-1] + b"\xff"
    rr = guarantee([{"flips": {"method": "DP-SignRP-RR", "law": base["law"], "norm_bound": Fraction(30)}}])
    return [
        ("signs behind the last cell", "bits from k on are 0", {"signs": last}),
        ("a byte of signs too few", "there are ⌈k/8⌉ bytes", {"signs": base["signs"][:-1]}),
        ("an unknown law", "a law is constant, levels or linear", {"law": base["law"] | {"shape": "smooth"}}),
        ("rate 0", "a rate is positive", {"law": base["law"] | {"rate": Fraction(0)}}),
        ("a rate of thirds", "a rate is n/2^s", {"law": base["law"] | {"rate": Fraction(1, 3)}}),
        ("no conditions where they are due", "DP-SignRP-RR has conditions", {"guarantee": rr}),
        ("a release id of 7 bytes", "an id has 8 bytes", {"release_id": b"1234567"}),
        ("data ids out of order", "ids ascend", {"data_ids": ids("signs", 3)[::-1]}),
        ("an agreement of 15 bytes", "a fingerprint has 16 bytes", {"agreement": bytes(15)}),
    ]


def _individual(base: Message) -> list[tuple[str, str, Message]]:
    guarantee = base["guarantee"]
    return [
        ("another method", "a method is one of four", {"method": "iDP"}),
        ("of another mechanism", "the mechanism is the method", {"guarantee": guarantee | {"mechanism": "other"}}),
        ("with steps", "the method is the record", {"guarantee": guarantee | mechanism(_ONE)}),
        ("with conditions", "individual guarantees have none", {"guarantee": guarantee | {"conditions": ["a"]}}),
        ("with delta", "δ is 0 for iDP-SignOPORP", {"guarantee": guarantee | {"delta": 0.1}}),
    ]


def _local() -> list[Message]:
    golden = {one["name"]: one for one in load("local")}["PrivUnit"]
    report, server = (bytes.fromhex(golden[name]) for name in ("report", "server"))
    body, totals = unframed(report[:8], report), unframed(server[:8], server)
    _, values = local_reader.read_report(report, json.loads(golden["mechanism"]))
    changes = [
        ("LocalReport", "cut by a byte", "the length does not match", report[:-1]),
        (
            "LocalReport",
            "another mechanism",
            "of another mechanism",
            framed(report[:8], body.replace(body[1:9], b"8" * 8)),
        ),
        ("LocalReport", "a value short", "there is a value for each coordinate", framed(report[:8], _shorter(body))),
        ("LocalReport", "not a number", "values are finite", framed(report[:8], body[:-4] + struct.pack("<f", NAN))),
        (
            "LocalReport",
            "a seed",
            "this kind has none",
            framed(report[:8], body[:9] + b"\x11" + bytes(7) + b"\1" + body[9:]),
        ),
        (
            "LocalMean",
            "another step",
            "the step follows from the mechanism",
            framed(server[:8], totals[:-1] + bytes([totals[-1] ^ 2])),
        ),
        ("LocalMean", "a changed byte", "the checksum does not match", server[:-20] + b"\0" + server[-19:]),
        ("LocalReport", "twice as long as any", "a length of 1/m", _report(golden, [2 * one for one in values])),
        ("LocalReport", "half as long", "a length of 1/m", _report(golden, [one / 2 for one in values])),
        (
            "LocalMean",
            "totals too long",
            "three times the length of a report",
            _mean(golden, lambda totals: [3 * one for one in totals]),
        ),
        ("LocalMean", "a total too many", "m is 12", _mean(golden, lambda totals: [*totals, 1])),
        (
            "LocalMean",
            "totals without reports",
            "none above 2^32·n",
            framed(server[:8], totals.replace(b"\x10\x01\x1a", b"\x1a", 1)),
        ),
    ]
    return [_case(*change) | {"mechanism": golden["mechanism"]} for change in changes]


def _report(golden: Message, values: list[float]) -> bytes:
    message = reader.parsed("LocalReport", bytes.fromhex(golden["report"])[17:-16])
    return reader.write("LocalReport", message | {"values": struct.pack(f"<{len(values)}f", *values)})


def _mean(golden: Message, change: Callable[[list[int]], list[int]]) -> bytes:
    fields, count, totals = local_reader.read_mean(bytes.fromhex(golden["server"]))
    return local_reader.write_mean(fields, count, change(totals))


def _shorter(body: bytes) -> bytes:
    return body[:10] + varint(len(body) - 11 - 4) + body[11:-4]
