"""Rows of units of the conformance kit, and what the units contribute by WIRE.md alone, in exact fractions."""

import datetime as dt
import json
from collections import defaultdict
from fractions import Fraction
from typing import Any

from tests.golden.kit_features import category as listed
from tests.golden.kit_features import cells_of, number
from tests.golden.kit_releases import Message
from tests.golden.party_reader import canonical

FEATURES: Message = {
    "columns": [number("age", 0.0, 110.0), listed("ward", ["A", "B"])],
    "seed": 7,
    "joint": 0,
    "width": None,
    "joint_weight": None,
}
DIM = 8
UNITS = ["p1", "p2", "p1", "p3", "p1", "p2", "p1", "p4"]
ROWS: list[list[Any]] = [
    [30, "A"], [999, "B"], [31, "B"], [None, "C"], [77, None], [12, "A"], [33, "A"], [110, "B"],
]  # fmt: skip
TIMES: dict[str, list[Any]] = {
    "integer": [3, -1, 7, 0, 7, -2, -(2**60), 5],
    "date": [
        "2026-11-01", "2026-11-02", "2026-11-03", "1969-01-01", "2026-11-03", "2026-11-09", "2026-10-31", "9999-12-31",
    ],
    "timestamp": [
        "2026-11-01T12:00:00Z", "2026-11-01T12:00:00Z", "2026-11-01T12:30:00+01:00", "2026-11-01T00:00:00Z",
        "2026-11-01T11:00:00-01:00", "2026-11-01T12:30:00+01:00", "2026-11-01T11:30:00Z", "1969-12-31T23:59:59Z",
    ],
}  # fmt: skip
CHOICES: list[Message | None] = [
    None,
    {"which": "mean"},
    {"which": "all"},
    *({"which": which, "time": {"name": "at", "type": kind}} for which in ("latest", "first") for kind in TIMES),
]


def people() -> list[Message]:
    """Return all cases."""
    return [_case(choice) for choice in CHOICES]


def _case(choice: Message | None) -> Message:
    kind = (choice or {}).get("time", {}).get("type")
    times = None if kind is None else [str(time) if kind == "integer" else time for time in TIMES[kind]]
    given = {"name": _name(choice), "agreement": _agreement(choice), "units": UNITS, "times": times, "rows": ROWS}
    return given | {"cells": sums_of(given)}


def _name(choice: Message | None) -> str:
    if choice is None:
        return "averages of an agreement that states no choice"
    return choice["which"] + (f" by {choice['time']['type']}" if "time" in choice else "")


def _agreement(choice: Message | None) -> str:
    fields: Message = {"agreement": 1, "features": FEATURES, "index": [], "key": None, "missing": "refuse", "title": ""}
    fields["neighbours"] = {"relation": "sketch-l2", "bound": "5", "max_keys": 1, "unit": "person"}
    fields["projection"] = {"kind": "identity", "dim": DIM, "sketch_dim": DIM, "resolution": "1/32768", "seed": 0}
    fields |= {"unit": {"name": "person", "type": "text"}, "value": None}
    fields |= {} if choice == {"which": "all"} else {"clip": "average"}
    return canonical(fields if choice is None else fields | {"rows_of_unit": choice})


def sums_of(case: Message) -> list[str]:
    """Return the sums over units, none of which reaches the bound."""
    agreement = json.loads(case["agreement"])
    choice = agreement.get("rows_of_unit", {"which": "mean"})
    cells = [[int(cell) for cell in row] for row in cells_of(json.dumps(agreement["features"]), case["rows"])]
    owned = defaultdict(list)
    for unit, time, row in zip(case["units"], case["times"] or case["units"], cells, strict=True):
        moment = _moment(time, choice["time"]["type"]) if "time" in choice else 0
        owned[unit].append((moment, row))
    total = [0] * len(cells[0])
    for own in owned.values():
        moments = [moment for moment, _ in own]
        end = min(moments) if choice["which"] == "first" else max(moments)
        rows = [row for moment, row in own if moment == end]
        for place, column in enumerate(zip(*rows, strict=True)):
            total[place] += sum(column) if choice["which"] == "all" else _nearest(Fraction(sum(column), len(rows)))
    return [str(cell) for cell in total]


def _moment(time: str, kind: str) -> Any:
    if kind == "integer":
        return int(time)
    return dt.date.fromisoformat(time) if kind == "date" else dt.datetime.fromisoformat(time)


def _nearest(ratio: Fraction) -> int:
    """Return the nearest integer, halves away from zero."""
    size = int(abs(ratio) + Fraction(1, 2))
    return size if ratio > 0 else -size
