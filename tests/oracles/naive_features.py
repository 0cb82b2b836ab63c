"""Features of one row, in Python's integers and decimals, from WIRE.md alone."""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

from tests.oracles.naive import fingerprint
from tests.oracles.naive_maps import gaussian_column

ONE = 1 << 15
TURN = 1 << 13
SPACE = " \t\n\f\r"
NUMBER = re.compile(rf"[{SPACE}]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{{1,5}})?[{SPACE}]*")
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494")


def features(fields: dict[str, Any], row: Mapping[str, Any]) -> list[int]:
    """Return the features of one row, whose missing fields are None; ``fields`` are `Features.to_dict`."""
    columns = fields["columns"]
    weights = [one["weight"] if one.get("moments", 1) else 0 for one in columns] + (
        [fields["joint_weight"]] if fields["joint"] else []
    )
    lengths = [min(math.isqrt(ONE * ONE * weight // sum(weights)), ONE - 1) for weight in weights]
    found: list[int] = []
    together: list[int] = []
    left = 0
    for column, length in zip(columns, lengths, strict=False):
        value = row[column["name"]]
        if column["kind"] == "number":
            cells, place = number(column, value, length)
            together.append(place)
            left += length * length - sum(cell * cell for cell in cells)
        elif column["kind"] == "category":
            cells = category(column, value, length, fields["seed"])
        else:
            cells = embedding(column, value, length, fields["seed"])
        found += cells
    if fields["joint"]:
        waves = frequencies(fields["seed"], "(joint)", len(together), fields["joint"])
        multiplier = round(Fraction(1 << 44, 1 << 24) / (2 * Fraction(PI) * Fraction(fields["width"])))
        amplitude = math.isqrt(lengths[-1] ** 2 // fields["joint"])
        for wave in waves:
            phase = sum(one * other for one, other in zip(wave, together, strict=True))
            found += pair(phase * multiplier >> 31, amplitude)
    if any(column.get("moments") for column in columns):
        found.append(math.isqrt(max(left, 0)))
    return found


def number(column: dict[str, Any], value: float | str | None, length: int) -> tuple[list[int], int]:
    """Return the cells of a number, and its place on the range."""
    if isinstance(value, str):
        word = value.strip(SPACE).lower()
        boolean = float(word == "true") if word in ("true", "false") and value.isascii() else None
        value = float(value) if NUMBER.fullmatch(value) else boolean
    missing = value is None or math.isnan(value)
    if missing and column["moments"]:
        return [0] * column["moments"] + [length], 0
    if missing:
        return [], 0
    low, high = column["low"], column["high"]
    u = round((min(max(value, low), high) - low) / (high - low) * 2 * ONE) - ONE
    if not column["moments"]:
        return [], u
    amplitude = math.isqrt(length * length // column["moments"])
    chebyshev = [ONE, u]
    while len(chebyshev) <= column["moments"]:
        chebyshev.append((2 * u * chebyshev[-1] + ONE // 2 >> 15) - chebyshev[-2])
    return [(one * amplitude + ONE // 2) >> 15 for one in chebyshev[1 : column["moments"] + 1]] + [0], u


def category(column: dict[str, Any], value: str | int | None, length: int, seed: int) -> list[int]:
    """Return the cells of a category."""
    if value is not None:
        value = str(value).lower() if isinstance(value, bool) else str(value)
    if column["values"] is not None:
        cells = [0] * (len(column["values"]) + 2)
        known = column["values"].index(value) if value in column["values"] else len(column["values"])
        cells[-1 if value in (None, "") else known] = length
        return cells
    cells = [0] * (column["hashed"] + 1)
    if value in (None, ""):
        cells[-1] = length
    else:
        word = fingerprint(str(value), seed)
        cells[(word >> 28) * column["hashed"] >> 32] = length if word % 2 else -length
    return cells


def embedding(column: dict[str, Any], value: list[float | None] | str | None, length: int, seed: int) -> list[int]:
    """Return the cells of an embedding."""
    if isinstance(value, str):
        found = re.fullmatch(rf"[{SPACE}]*\[([^\[\]]*)\][{SPACE}]*", value)
        texts = found[1].split(",") if found else []
        known = all(NUMBER.fullmatch(text) or text.strip(SPACE) == "null" for text in texts)
        value = [None if text.strip(SPACE) == "null" else float(text) for text in texts] if known else None
    entries = [one for one in value or [] if one is not None and math.isfinite(one)]
    if not len(entries) == len(value or []) == column["size"] or not any(entries):
        return [0] * (2 * column["waves"]) + [length]
    largest = max(map(abs, entries))
    levels = [round(one / largest * 1024) for one in entries]
    norm = math.sqrt(sum(level * level for level in levels))
    factor = float(Fraction(TURN, 256) / (2 * Fraction(PI) * Fraction(column["width"])))
    amplitude = math.isqrt(length * length // column["waves"])
    cells = []
    for wave in frequencies(seed, column["name"], column["size"], column["waves"]):
        phase = sum(one * other for one, other in zip(wave, levels, strict=True))
        cells += pair(math.floor(phase / norm * factor), amplitude)
    return [*cells, 0]


def frequencies(seed: int, name: str, size: int, waves: int) -> list[list[int]]:
    """Return frequencies in multiples of 2^-8, wave by wave."""
    derived = int.from_bytes(hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=8).digest(), "little")
    gaussian = {"kind": "gaussian", "fraction_bits": 8, "independence": 8, "resolution": "1/1"}
    map_of = gaussian | {"dim": size, "sketch_dim": waves, "seed": derived}
    text = json.dumps(map_of, sort_keys=True, separators=(",", ":"))
    columns = [gaussian_column(map_of, text, index) for index in range(size)]
    return [[column[wave] for column in columns] for wave in range(waves)]


def pair(step: int, amplitude: int) -> list[int]:
    """Return cosine and sine of a step of a turn, times an amplitude, rounded."""
    return [rounded(step % TURN, amplitude), rounded((step - TURN // 4) % TURN, amplitude)]


def rounded(step: int, amplitude: int) -> int:
    """Return ⌊amplitude · cos(2π step / 2^13) + 1/2⌋, the cosine by its series in 50 digits."""
    with localcontext() as context:
        context.prec = 50
        angle = 2 * PI * step / TURN
        term, total, k = Decimal(1), Decimal(0), 0
        while abs(term) > Decimal("1e-40"):
            total += term
            k += 2
            term = -term * angle * angle / (k * (k - 1))
        total = Decimal(0) if step % (TURN // 2) == TURN // 4 else total
        return math.floor(amplitude * total + Decimal("0.5"))
