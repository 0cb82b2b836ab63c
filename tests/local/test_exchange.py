"""Bytes of reports and servers: they come back equal, mean the same everywhere, and hostile ones are refused."""

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsketch.errors import WireFormatError
from streamsketch.local import MeanAggregator, Mechanism, PrivUnitG, Report
from streamsketch.wire import wire_pb2
from streamsketch.wire.local_reports import MEANS, REPORTS
from streamsketch.wire.releases import frame
from tests.golden.test_wire_bytes import double, fields, one
from tests.local.directions import bits, directions
from tests.local.zoo import DIM, zoo

pytestmark = pytest.mark.rejects(0)


each = pytest.mark.parametrize("name", zoo())
MECHANISMS = zoo()
UNIT = directions(DIM)["gaussian"]
GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "local.json").read_text())


def report_of(name: str) -> Report:
    return MECHANISMS[name].randomize(UNIT, bits=bits(name))


def server_of(name: str) -> MeanAggregator:
    server = MeanAggregator(MECHANISMS[name])
    server.add(MECHANISMS[name].randomize_many([UNIT] * 3, bits=bits(name)))
    return server


def unframed(data: bytes, magic: bytes) -> dict[int, list[Any]]:
    """Read a frame without the library."""
    found, version, length = struct.unpack("<8sBQ", data[:17])
    assert (found, version, length) == (magic, 1, len(data) - 33)
    assert hashlib.blake2b(data[:-16], digest_size=16).digest() == data[-16:]
    return fields(data[17:-16])


@each
def test_reports_and_servers_come_back_equal(name: str) -> None:
    report, server = report_of(name), server_of(name)
    assert Report.from_bytes(report.to_bytes(), MECHANISMS[name]) == report
    assert MeanAggregator.from_bytes(server.to_bytes()) == server
    empty = MeanAggregator(MECHANISMS[name])
    assert MeanAggregator.from_bytes(empty.to_bytes()) == empty
    assert len(report.to_bytes()) <= -(-report.bits // 8) + 64


@each
def test_bytes_mean_what_wire_md_says(name: str) -> None:
    """By a reader that knows neither the library nor protobuf."""
    report, server, mechanism = report_of(name), server_of(name), MECHANISMS[name]
    message = unframed(report.to_bytes(), b"\x89SSR\r\n\x1a\n")
    digest = hashlib.blake2b(mechanism.to_json().encode(), digest_size=8, person=b"streamsketch.ldp").digest()
    assert message[1] == [digest]
    assert int.from_bytes(one(message, 2, bytes(8)), "little") == report.seed
    kind = {"float32": "<f4", "float16": "<f2", "int32": "<i4", "uint64": "<u8"}.get(mechanism.layout.dtype)
    data = one(message, 3, b"")
    if kind is None:
        values = [data[i // 8] >> i % 8 & 1 for i in range(mechanism.layout.count)]
    else:
        values = np.frombuffer(data, dtype=kind).tolist()
    assert values == report.values.tolist()
    message = unframed(server.to_bytes(), b"\x89SSM\r\n\x1a\n")
    described, cells = fields(message[1][0]), fields(message[3][0])
    assert described[1][0].decode() == mechanism.kind
    assert (described[2][0], double(described[3][0]), message[2]) == (DIM, 4.0, [3])
    assert 2.0 ** ((message[4][0] >> 1) ^ -(message[4][0] & 1)) == server.step
    width = cells[1][0]
    totals = [
        int.from_bytes(cells[2][0][i : i + width], "little", signed=True) for i in range(0, len(cells[2][0]), width)
    ]
    assert totals == server.totals.tolist()


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["name"])
def test_golden_bytes_are_read_and_written_and_mean_the_same(case: dict[str, Any]) -> None:
    """Made once, by fixed bits: seeds mean the same rows, signs, directions and candidates ever since."""
    mechanism = Mechanism.from_json(case["mechanism"])
    report = Report.from_bytes(bytes.fromhex(case["report"]), mechanism)
    assert report.to_bytes().hex() == case["report"]
    server = MeanAggregator.from_bytes(bytes.fromhex(case["server"]))
    assert server.to_bytes().hex() == case["server"]
    again = MeanAggregator(mechanism)
    again.add(report)
    assert again == server
    assert server.mean() == pytest.approx(np.array(case["mean"]), rel=1e-9, abs=1e-9)


def test_every_mechanism_has_golden_bytes() -> None:
    assert [case["name"] for case in GOLDEN] == list(zoo())


@each
@settings(max_examples=10)
@given(data=st.data())
def test_damaged_bytes_are_refused(name: str, data: st.DataObject) -> None:
    for whole, read in (
        (report_of(name).to_bytes(), lambda given_bytes: Report.from_bytes(given_bytes, MECHANISMS[name])),
        (server_of(name).to_bytes(), MeanAggregator.from_bytes),
    ):
        place = data.draw(st.integers(0, len(whole) - 1))
        flipped = bytearray(whole)
        flipped[place] ^= data.draw(st.integers(1, 255))
        for wrong in (bytes(flipped), whole[:place], whole + b"\0"):
            with pytest.raises(WireFormatError):
                read(wrong)


@given(payload=st.binary(max_size=60), cut=st.integers(0, 40))
def test_arbitrary_payloads_in_sound_frames_are_refused(payload: bytes, cut: int) -> None:
    for magic, read in (
        (REPORTS.magic, lambda data: Report.from_bytes(data, MECHANISMS["PrivHS"])),
        (MEANS.magic, MeanAggregator.from_bytes),
    ):
        for given_payload in (payload, server_of("PrivHS").to_bytes()[17:-16][:cut] + payload):
            with pytest.raises(WireFormatError):
                read(frame(magic, given_payload))


def hostile_server(**changes: Any) -> bytes:
    message = wire_pb2.LocalMean()
    message.ParseFromString(server_of("ProjUnit, Hadamard").to_bytes()[17:-16])
    for name, value in changes.items():
        if name == "totals":
            message.totals.CopyFrom(wire_pb2.Values(width=value[0], cells=value[1]))
        elif name in {"count", "step_exponent"}:
            setattr(message, name, value)
        elif value is None:
            message.mechanism.ClearField(name)
        else:
            setattr(message.mechanism, name, value)
    return frame(MEANS.magic, message.SerializeToString(deterministic=True))


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"kind": "nonesuch"}, "mechanism"),
        ({"dim": 1 << 40}, "mechanism"),
        ({"dim": 1 << 23}, "totals.cells"),
        ({"epsilon": float("nan")}, "mechanism"),
        ({"epsilon": 1e300}, "mechanism"),
        ({"sketch_dim": None}, "mechanism"),
        ({"repetitions": 3}, "mechanism"),
        ({"precision": "float64"}, "mechanism"),
        ({"rotation": "haar", "sketch_dim": 5000}, "mechanism"),
        ({"rotation": "gaussian", "shared": True}, "mechanism"),
        ({"totals": (8, bytes(8))}, "totals.cells"),
        ({"totals": (3, bytes(36))}, "totals.width"),
        ({"totals": (8, b"\xff" * 96)}, "payload"),
        ({"totals": (8, bytes(7) + b"\x70" + bytes(88))}, "totals"),
        ({"count": 1 << 40}, "totals"),
        ({"count": 0}, "totals"),
        ({"step_exponent": 3}, "step_exponent"),
    ],
)
def test_hostile_fields_of_a_server_are_refused_at_their_place(changes: dict[str, Any], where: str) -> None:
    with pytest.raises(WireFormatError) as caught:
        MeanAggregator.from_bytes(hostile_server(**changes))
    assert caught.value.where == where


def test_hostile_fields_of_a_report_are_refused_at_their_place() -> None:
    mechanism = MECHANISMS["PrivUnit"]
    good = wire_pb2.LocalReport()
    good.ParseFromString(report_of("PrivUnit").to_bytes()[17:-16])

    def refused(**changes: Any) -> str:
        fields_of = {"mechanism": good.mechanism, "seed": 0, "values": good.values} | changes
        payload = wire_pb2.LocalReport(**fields_of).SerializeToString(deterministic=True)
        with pytest.raises(WireFormatError) as caught:
            Report.from_bytes(frame(REPORTS.magic, payload), mechanism)
        return caught.value.where

    assert refused(mechanism=1) == "mechanism"
    assert refused(seed=1) == "values"
    assert refused(values=good.values[:-1]) == "values"
    assert refused(values=np.full(DIM, np.nan, dtype="<f4").tobytes()) == "values"
    assert refused(values=bytes(10**6)) == "length"
    with pytest.raises(WireFormatError, match="not the first bytes of a report"):
        Report.from_bytes(frame(MEANS.magic, b""), mechanism)
    with pytest.raises(WireFormatError, match="not the first bytes of a local mean"):
        MeanAggregator.from_bytes(report_of("PrivUnit").to_bytes())
    with pytest.raises(TypeError, match="from bytes"):
        Report.from_bytes("text", mechanism)  # type: ignore[arg-type]


def test_spare_bits_behind_the_last_are_refused() -> None:
    mechanism = MECHANISMS["RePrivHS"]
    message = wire_pb2.LocalReport()
    message.ParseFromString(report_of("RePrivHS").to_bytes()[17:-16])
    message.values = bytes([message.values[0] | 0x80])
    with pytest.raises(WireFormatError, match="canonical"):
        Report.from_bytes(frame(REPORTS.magic, message.SerializeToString(deterministic=True)), mechanism)


def test_a_limit_on_bytes_is_kept() -> None:
    server = MeanAggregator(PrivUnitG(dim=1000, epsilon=1.0))
    with pytest.raises(WireFormatError, match="over the limit of 100"):
        MeanAggregator.from_bytes(server.to_bytes(), max_bytes=100)
