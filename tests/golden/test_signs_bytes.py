"""Golden bytes of published signs, and a reader written from WIRE.md alone: no library, no protobuf."""

import hashlib
import json
import struct
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.privacy import Mechanism
from streamsketch.privacy.individual import IndividualGuarantee
from streamsketch.signs.sign_changes import FlipLaw
from tests.golden.test_wire_bytes import double, fields, one, ratio

CASES = json.loads((Path(__file__).parent / "signs.json").read_text())
UNCONDITIONAL = json.loads((Path(__file__).parent / "unconditional_signs.json").read_text())
MAGICS = {b"\x89SSG\r\n\x1a\n": "SignSketch", b"\x89SSI\r\n\x1a\n": "IndividualSignSketch"}


def read(data: bytes) -> dict[str, Any]:
    magic, version, length = struct.unpack("<8sBQ", data[:17])
    assert (version, length) == (1, len(data) - 33)
    assert hashlib.blake2b(data[:-16], digest_size=16).digest() == data[-16:]
    release, kind = fields(data[17:-16]), MAGICS[magic]
    projection, guarantee = fields(release[1][0]), fields(release[4][0])
    neighbours = fields(guarantee[3][0])
    k = projection[3][0]
    found = {
        "kind": kind,
        "projection kind": projection[1][0].decode(),
        "signs": "".join("-+"[release[2][0][i // 8] >> i % 8 & 1] for i in range(k)),
        "epsilon": double(guarantee[1][0]),
        "delta": double(one(guarantee, 2, bytes(8))),
        "neighbours": [neighbours[1][0].decode(), str(ratio(neighbours[2][0])), neighbours[3][0].decode()],
        "mechanism": guarantee[4][0].decode(),
        "conditions": [condition.decode() for condition in guarantee.get(5, [])],
        "release_id": release[5][0].hex(),
    }
    if kind == "SignSketch":
        law = fields(release[3][0])
        return found | {"law": [law[1][0].decode(), str(ratio(law[2][0]))]}
    return found | {"method": release[3][0].decode()}


@pytest.mark.parametrize("case", CASES + UNCONDITIONAL, ids=lambda case: case["name"])
def test_a_reader_written_from_the_description_finds_every_field(case: dict[str, Any]) -> None:
    found = read(bytes.fromhex(case["bytes"]))
    assert found == {name: case.get(name, []) for name in found}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_library_reads_and_writes_the_golden_bytes(case: dict[str, Any]) -> None:
    name, bound, unit = case["neighbours"]
    relation = {"l1": ss.L1, "one-coordinate": ss.OneCoordinate}[name](bound, unit)
    guarantee = case["epsilon"], case["delta"], relation
    projection = ss.projections.Projection.from_json(case["projection"])
    packed = sum(1 << i for i, sign in enumerate(case["signs"]) if sign == "+")
    parts = projection, packed.to_bytes(-(-len(case["signs"]) // 8), "little")
    identity = {"release_id": bytes.fromhex(case["release_id"])}
    release: Any
    if case["kind"] == "SignSketch":
        shape, rate = case["law"]
        law = FlipLaw(shape, Fraction(rate))
        guarantee = ss.Guarantee(*guarantee, Mechanism.stated(case["mechanism"]), case.get("conditions", []))
        release = ss.signs.SignSketch(*parts, law, guarantee, **identity)
    else:
        release = ss.signs.IndividualSignSketch(
            *parts, case["method"], IndividualGuarantee(*guarantee, case["mechanism"]), **identity
        )
    assert release.to_bytes().hex() == case["bytes"]
    assert type(release).from_bytes(bytes.fromhex(case["bytes"])) == release


@pytest.mark.parametrize("case", UNCONDITIONAL, ids=lambda case: case["name"])
def test_bytes_of_before_their_guarantee_had_conditions_are_read_and_not_checked(case: dict[str, Any]) -> None:
    release = ss.signs.SignSketch.from_bytes(bytes.fromhex(case["bytes"]))
    assert release.to_bytes().hex() == case["bytes"]
    check = release.explain().check
    assert (check.verdict, check.reason) == ("not checked", "its mechanism is stated only as text")
