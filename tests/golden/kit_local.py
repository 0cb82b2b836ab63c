"""Local reports of the conformance kit, and the means that follow from them by the pure reader."""

import hashlib
import json
import struct
from collections.abc import Iterator
from typing import Any

from tests.golden import local_reader, reader
from tests.golden.kit_releases import Message, load
from tests.golden.local_numbers import Fields

_SEED = {"seed": 11}
MORE: dict[str, Fields] = {
    "PrivHS of one coordinate": {"kind": "priv-hs", "dim": 1, "epsilon": 0.125, "ball": True} | _SEED,
    "CompPrivUnitG of least error between two steps": {"kind": "comp-priv-unit-g", "dim": 50, "epsilon": 1.0} | _SEED,
    "SQKR, Hadamard beyond 32": {"kind": "sqkr", "rotation": "hadamard", "dim": 40, "epsilon": 3.5} | _SEED,
    "RePrivHS in the ball": {"kind": "re-priv-hs", "repetitions": 3, "dim": 5, "epsilon": 20.0, "ball": True} | _SEED,
}
"""Mechanisms whose reports are seeds and bits, of which any will do."""


def local() -> list[Message]:
    """Return all cases: a mechanism, reports, and the mean of each of the first and of all."""
    return [_case(golden["name"], json.loads(golden["mechanism"]), _reports(golden)) for golden in load("local")] + [
        _case(name, {"ball": False} | fields, _drawn(name, {"ball": False} | fields)) for name, fields in MORE.items()
    ]


def _case(name: str, fields: Fields, reports: list[bytes]) -> Message:
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    error = local_reader.squared_error(fields)
    read = [local_reader.read_report(data, fields) for data in reports]
    added = [local_reader.steps_of(seed, values, fields) for seed, values in read]
    totals = [sum(cells) for cells in zip(*added, strict=True)]
    return {
        "name": name,
        "mechanism": text,
        "squared_error": {"value": error, "within": 1e-9 * error},
        "reports": [
            {"seed": str(seed), "values": _message(data)["values"].hex(), "bytes": data.hex()}
            for (seed, _), data in zip(read, reports, strict=True)
        ],
        "mean": {
            "count": len(reports),
            "step_exponent": local_reader.step_exponent(fields),
            "totals": [str(total) for total in totals],
            "value": local_reader.mean_of(fields, len(reports), totals),
            "within": 1e-9,
            "bytes": local_reader.write_mean(fields, len(reports), totals).hex(),
        },
    }


def _message(data: bytes) -> Message:
    return reader.parsed("LocalReport", data[17:-16])


def _reports(golden: Message) -> list[bytes]:
    """Return the golden report and two that are as honest: its values turned round, with another seed."""
    first = bytes.fromhex(golden["report"])
    fields, message = json.loads(golden["mechanism"]), _message(first)
    return [first] + [reader.write("LocalReport", message | changed) for changed in _changes(message, fields)]


def _changes(message: Message, fields: Fields) -> Iterator[Message]:
    count, values = local_reader.count_of(fields), message["values"]
    for turn in (3, 5):
        seed = {"seed": message["seed"] * turn % 2**64} if message["seed"] else {}
        if len(values) in (8, -(-count // 8)):  # a word, or bits
            yield seed | {"values": bytes(255 - byte for byte in values) if len(values) == 8 else _bits(values, count)}
            continue
        width = len(values) // count
        parts = [values[at : at + width] for at in range(0, len(values), width)]
        yield seed | {"values": b"".join(parts[::-1] if turn == 3 else parts[4:] + parts[:4])}


def _bits(values: bytes, count: int) -> bytes:
    return (int.from_bytes(values, "little") ^ (1 << count) - 1).to_bytes(len(values), "little")


def _drawn(name: str, fields: Fields) -> list[bytes]:
    """Return reports of public words; no secret, as the kit is public."""
    reports = []
    for number in range(4):
        drawn = hashlib.blake2b(f"{name} {number}".encode(), digest_size=40).digest()
        count = 64 if fields["kind"].startswith("comp") else local_reader.count_of(fields)
        bits = int.from_bytes(drawn[8:], "little") % (1 << count)
        message: dict[str, Any] = {"mechanism": local_reader.fingerprint(fields), "seed": 0}
        if not fields["kind"].startswith("comp"):
            (message["seed"],) = struct.unpack("<Q", drawn[:8])
        reports.append(reader.write("LocalReport", message | {"values": bits.to_bytes(-(-count // 8), "little")}))
    return reports
