"""Golden bytes of the exchange format, and a reader written from WIRE.md alone.

``wire.json`` holds releases field by field (their values are inputs' exact states plus written-down noise) and their
bytes. They were made once by the library's first version and checked by the reader below, which uses neither
the library nor protobuf: it is what somebody in another language would write.
"""

import hashlib
import json
import struct
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.privacy import Mechanism
from streamsketch.privacy.noise import NoiseMoments

CASES = json.loads((Path(__file__).parent / "wire.json").read_text())


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data: bytes) -> dict[int, list[Any]]:
    """Return a protobuf message's fields by number: ints, 8-byte strings and bytes."""
    found: dict[int, list[Any]] = {}
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 1:
            value, at = data[at : at + 8], at + 8
        else:
            length, at = varint(data, at)
            value, at = data[at : at + length], at + length
        found.setdefault(number, []).append(value)
    return found


def one(message: dict[int, list[Any]], number: int, default: Any) -> Any:
    return message.get(number, [default])[0]


def ratio(data: bytes) -> Fraction:
    message = fields(data)
    zigzag = one(message, 1, 0)
    return Fraction(zigzag >> 1 if zigzag % 2 == 0 else -(zigzag + 1 >> 1), one(message, 2, 0))


def double(data: bytes) -> float:
    return float(struct.unpack("<d", data)[0])


def read(data: bytes) -> dict[str, Any]:
    magic, version, length = struct.unpack("<8sBQ", data[:17])
    assert (magic, version) == (b"\x89SSK\r\n\x1a\n", 1)
    assert length == len(data) - 33
    assert hashlib.blake2b(data[:-16], digest_size=16).digest() == data[-16:]
    release = fields(data[17:-16])
    projection, values = fields(release[1][0]), fields(release[2][0])
    noise, guarantee = fields(release[3][0]), fields(release[4][0])
    neighbours = fields(guarantee[3][0])
    resolution = ratio(projection[5][0])
    agreed = {
        "dim": projection[2][0],
        "kind": projection[1][0].decode(),
        "resolution": f"{resolution.numerator}/{resolution.denominator}",
        "seed": int.from_bytes(projection[4][0], "little") if 4 in projection else 0,
        "sketch_dim": projection[3][0],
    }
    agreed |= {
        name: projection[number][0] for number, name in ((6, "sparsity"), (7, "independence")) if number in projection
    }
    width = values[1][0]
    cells = [
        int.from_bytes(values[2][0][at : at + width], "little", signed=True)
        for at in range(0, len(values[2][0]), width)
    ]
    zero = bytes(8)
    return {
        "projection": json.dumps(agreed, sort_keys=True, separators=(",", ":")),
        "values": [str(cell) for cell in cells],
        "k2": double(one(noise, 1, zero)),
        "k4": double(one(noise, 2, zero)),
        "epsilon": double(guarantee[1][0]),
        "delta": double(one(guarantee, 2, zero)),
        "neighbours": [neighbours[1][0].decode(), str(ratio(neighbours[2][0])), neighbours[3][0].decode()]
        + [str(keys) for keys in neighbours.get(4, [])],
        "mechanism": guarantee[4][0].decode(),
        "multiplier": str(ratio(release[5][0])),
        "release_ids": [release_id.hex() for release_id in release[6]],
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_reader_written_from_the_description_finds_every_field(case: dict[str, Any]) -> None:
    found = read(bytes.fromhex(case["bytes"]))
    assert found == {name: case[name] for name in found}
    assert hashlib.blake2b(case["projection"].encode(), digest_size=16).hexdigest() == case["fingerprint"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_library_reads_and_writes_the_golden_bytes(case: dict[str, Any]) -> None:
    kind, bound, unit, *keys = case["neighbours"]
    relation = {"l1": ss.L1, "one-coordinate": ss.OneCoordinate}[kind]
    release = ss.PrivateSketch(
        ss.projections.Projection.from_json(case["projection"]),
        np.array([int(value) for value in case["values"]], dtype=np.int64),
        NoiseMoments(case["k2"], case["k4"]),
        ss.Guarantee(
            case["epsilon"],
            case["delta"],
            relation(bound, unit, *map(int, keys)),
            Mechanism.stated(case["mechanism"]),
        ),
        multiplier=case["multiplier"],
        release_ids=[bytes.fromhex(release_id) for release_id in case["release_ids"]],
    )
    assert release.to_bytes().hex() == case["bytes"]
    assert ss.PrivateSketch.from_bytes(bytes.fromhex(case["bytes"])) == release


def test_the_first_case_is_its_inputs_state_plus_the_written_noise() -> None:
    sketch = ss.projections.Projection.from_json(CASES[0]["projection"]).sketch()
    sketch.update(["apples", "pears"], [3, -1])
    noise = [1, 0, -2, 0, 0, 5, -1, 0]
    assert [str(cell) for cell in sketch.state() + noise] == CASES[0]["values"]
