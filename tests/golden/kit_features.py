"""Features of the conformance kit: rows of each kind of column, and what becomes of them by WIRE.md alone."""

import json
from typing import Any

from tests.golden.kit_releases import Message
from tests.oracles import naive_features


def features() -> list[Message]:
    """Return all cases."""
    return [_case(name, fields, columns) for name, fields, columns in CASES]


def cells_of(text: str, rows: list[list[Any]]) -> list[list[str]]:
    """Return the features of rows, whose entries are in the order of the columns, as decimal strings."""
    fields = json.loads(text)
    names = [column["name"] for column in fields["columns"]]
    found = [naive_features.features(fields, dict(zip(names, row, strict=True))) for row in rows]
    return [[str(cell) for cell in cells] for cells in found]


def number(name: str, low: float, high: float, moments: int = 2, weight: int = 1) -> Message:
    return {"name": name, "kind": "number", "low": low, "high": high, "moments": moments, "weight": weight}


def category(name: str, values: list[str] | None = None, hashed: int | None = None, weight: int = 1) -> Message:
    return {"name": name, "kind": "category", "values": values, "hashed": hashed, "weight": weight}


def embedding(name: str, size: int, waves: int, width: float = 0.5, weight: int = 1) -> Message:
    return {"name": name, "kind": "embedding", "size": size, "waves": waves, "width": width, "weight": weight}


def _fields(columns: list[Message], seed: int, joint: int = 0, **more: Any) -> Message:
    return {"columns": columns, "seed": seed, "joint": joint, "width": None, "joint_weight": None} | more


CASES: list[tuple[str, Message, list[list[Any]]]] = [
    (
        "numbers",
        _fields([number("age", 0.0, 110.0, moments=3, weight=2), number("potassium", 1.5, 9.25)], 7),
        [[47.0, 110.0, -3.5, None, 1e308], [4.1, 1.5, 9.25, 9.250001, -1e300]],
    ),
    (
        "numbers as text",
        _fields([number("age", 0.0, 110.0)], 0),
        [["47.5", " +1e1 ", ".5", "1e999", "-1e-99999", "12,5", "many", "", "nan", "0x10", "1e123456"]],
    ),
    (
        "numbers with white space, and what is none",
        _fields([number("age", 0.0, 110.0)], 0),
        [
            [f"{mark}47.5" for mark in "\t\n\f\r\v\x1c\x85\xa0\u2028\u3000\ufeff"]
            + ["47.5\r\n", "47.5\v", "\ftrue\r", "\vtrue", "4 7.5", "\u0664\u0667", "\uff14\uff17"]
        ],
    ),
    (
        "numbers that are booleans",
        _fields([number("dialysis", 0.0, 1.0), number("smokes", -1.0, 3.0)], 0),
        [[True, False, None], ["true", " FALSE\t", "yes"]],
    ),
    (
        "categories",
        _fields([category("ward", ["A", "B"]), category("code", hashed=5, weight=3)], 2**64 - 1),
        [["A", "B", "b", "", None, "A"], ["E11", "I10", "\u00e9", "", None, "E11 "]],
    ),
    (
        "categories that are integers, booleans and dates",
        _fields([category("visits", ["0", "7"]), category("smokes", ["true", "false"]), category("day", hashed=3)], 3),
        [[7, -7, 0], [True, False, None], ["2026-11-22", "1969-07-20", None]],
    ),
    (
        "embeddings",
        _fields([embedding("scan", 3, waves=2, width=0.75)], 11),
        [
            [
                [1.0, -2.0, 0.5], [0.0, 0.0, 1e-300], [1e300, 1e300, -1e300], [0.0, 0.0, 0.0],
                [1.0, 2.0], [1.0, None, 2.0], [], None,
            ]
        ],
    ),
    (
        "embeddings as text",
        _fields([embedding("scan", 2, waves=2)], 11),
        [
            [
                "[1, -2.5e0]", " [ .5,1e999 ] ", "[1,null]", "[1,2,3]", "[1,2", "[1,true]", "[[1,2]]", "", None,
                "[-3,\t4]", "[-3,\v4]", "\f[-3\n, 4\r]",
            ]
        ],
    ),
    (
        "numbers together",
        _fields([number("x", -1.0, 1.0, moments=1), number("y", 0.0, 0.1)], 5, 3, width=0.375, joint_weight=2),
        [[0.25, None, 1.0], [0.1, 0.03, None]],
    ),
    (
        "numbers that joint features alone see",
        _fields(
            [number("x", -1.0, 1.0, moments=0, weight=4), category("ward", ["A"]), number("y", 0.0, 0.1, moments=0)],
            5, 2, width=0.375, joint_weight=2,
        ),
        [[0.25, None, 1.0], ["A", None, "B"], [0.1, 0.03, None]],
    ),
    (
        "all kinds",
        _fields(
            [
                number("age", 0.0, 110.0, moments=3, weight=2), category("ward", ["A", "B"]),
                number("potassium", 1.5, 9.25), category("code", hashed=5), embedding("scan", 3, waves=2, weight=3),
            ],
            2**53 + 1, 2, width=0.5, joint_weight=1,
        ),
        [[47.0, None], ["A", None], [5.375, None], ["E11", None], [[-3.0, -3.0, 4.0], None]],
    ),
]  # fmt: skip
"""A name, features, and the entries of each column."""


def _case(name: str, fields: Message, columns: list[list[Any]]) -> Message:
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    rows = [list(row) for row in zip(*columns, strict=True)]
    return {"name": name, "features": text, "rows": rows, "cells": cells_of(text, rows)}
