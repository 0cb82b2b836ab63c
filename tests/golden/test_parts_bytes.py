"""Golden bytes of the fields ``data_ids`` and ``parts``, checked by the reader that was written from WIRE.md alone.

``parts.json`` was made once by the writer of ``reader.py``, over fields typed by hand. Its projection has no hash, so
that the bytes hold whatever the hash family is.
"""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.privacy import Mechanism
from streamsketch.privacy.noise import NoiseMoments
from streamsketch.release.noise_parts import NoisePart
from streamsketch.signs.sign_changes import FlipLaw
from tests.golden import reader
from tests.golden.make_kit import plain, strings
from tests.golden.sign_estimates import json_of

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "parts.json").read_text(encoding="utf-8"))
RELEASES = [case for case in CASES if case["kind"] == "PrivateSketch"]

each = pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
each_release = pytest.mark.parametrize("case", RELEASES, ids=lambda case: case["name"])


def guarantee_of(fields: dict[str, Any]) -> ss.Guarantee:
    relation = fields["neighbours"]
    neighbours = {"l1": ss.L1, "one-coordinate": ss.OneCoordinate}[relation["kind"]]
    return ss.Guarantee(
        fields["epsilon"],
        fields["delta"],
        neighbours(relation["bound"], relation["unit"], relation["max_keys"] or 1),
        Mechanism.stated(fields["mechanism"]),
        fields["conditions"],
    )


def ids_of(texts: list[str]) -> list[bytes]:
    return [bytes.fromhex(text) for text in texts]


def release_of(case: dict[str, Any], parts: list[NoisePart]) -> ss.PrivateSketch:
    return ss.PrivateSketch(
        ss.projections.Projection.from_json(case["projection"]),
        np.array([int(value) for value in case["values"]], dtype=np.int64),
        NoiseMoments(case["noise"]["k2"], case["noise"]["k4"]),
        guarantee_of(case["guarantee"]),
        multiplier=case["multiplier"],
        release_ids=ids_of(case["release_ids"]),
        data_ids=ids_of(case["data_ids"]),
        parts=parts,
    )


def parts_of(case: dict[str, Any]) -> list[NoisePart]:
    return [
        NoisePart(
            NoiseMoments(part["noise"]["k2"], part["noise"]["k4"]),
            guarantee_of(part["guarantee"]),
            part["multiplier"],
            part["count"],
        )
        for part in case["parts"]
    ]


def as_it_was(found: Any) -> Any:
    """Return a message without what no guarantee said when these bytes were written."""
    if isinstance(found, list):
        return [as_it_was(one) for one in found]
    if isinstance(found, dict):
        return {name: as_it_was(one) for name, one in found.items() if (name, one) != ("basis", "")}
    return found


@each
def test_a_reader_written_from_the_description_finds_every_field(case: dict[str, Any]) -> None:
    message = reader.read(case["kind"], bytes.fromhex(case["bytes"]))
    projection = message.pop("projection")
    if "values" in message:
        message["values"] = reader.cells_of(message)
        assert strings(message.pop("values")) == case["values"]
    assert as_it_was(plain(message)) == {name: case[name] for name in message}
    assert json_of(projection) == case["projection"]


@each_release
def test_the_library_reads_and_writes_the_golden_bytes(case: dict[str, Any]) -> None:
    release = release_of(case, parts_of(case)[::-1])
    assert release.to_bytes().hex() == case["bytes"]
    assert ss.PrivateSketch.from_bytes(bytes.fromhex(case["bytes"])) == release


def test_the_library_reads_and_writes_the_golden_bytes_of_signs() -> None:
    (case,) = (case for case in CASES if case["kind"] == "SignSketch")
    release = ss.signs.SignSketch(
        ss.projections.Projection.from_json(case["projection"]),
        bytes.fromhex(case["signs"]),
        FlipLaw(case["law"]["shape"], Fraction(case["law"]["rate"])),
        guarantee_of(case["guarantee"]),
        release_id=bytes.fromhex(case["release_id"]),
        data_ids=ids_of(case["data_ids"]),
    )
    assert release.to_bytes().hex() == case["bytes"]
    assert ss.signs.SignSketch.from_bytes(bytes.fromhex(case["bytes"])) == release


@each_release
def test_cumulants_of_parts_add_up_to_those_of_the_sum(case: dict[str, Any]) -> None:
    """As WIRE.md says of honest sums: in data units, up to rounding."""
    message = reader.read(case["kind"], bytes.fromhex(case["bytes"]))
    if not message["parts"]:
        return
    for name, power in (("k2", 2), ("k4", 4)):
        total = sum(
            part["count"] * part["multiplier"] ** power * Fraction(part["noise"][name]) for part in message["parts"]
        )
        whole = message["multiplier"] ** power * Fraction(message["noise"][name])
        assert abs(total - whole) <= len(message["release_ids"]) * whole / 2**52


@each_release
def test_bytes_of_before_these_fields_are_read(case: dict[str, Any]) -> None:
    message = reader.read(case["kind"], bytes.fromhex(case["bytes"])) | {"data_ids": [], "parts": []}
    release = ss.PrivateSketch.from_bytes(reader.write("PrivateSketch", message))
    assert (release.data_ids, release.parts) == ((), ())
    assert release == release_of(case | {"data_ids": []}, [])
