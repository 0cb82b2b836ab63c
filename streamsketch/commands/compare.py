"""``streamsketch compare``: all distances between some sketches."""

from itertools import combinations

import streamsketch as ss
from streamsketch.commands._reading import Files, Raw, load_sketches
from streamsketch.commands._showing import (
    Confidence,
    Json,
    estimate_columns,
    estimate_fields,
    say,
    show,
    show_json,
    table_of,
)
from streamsketch.estimators import AnySketch


def compare(files: Files, *, confidence: Confidence = 0.95, raw: Raw = False, as_json: Json = False) -> None:
    """Estimate squared distances and cosines between private sketches, nearest pair first."""
    sketches = load_sketches(files, least=2, command="compare", raw=raw)
    pairs = [
        (ss.squared_distance(sketches[first], sketches[second]), first, second)
        for first, second in combinations(sketches, 2)
    ]
    pairs.sort(key=lambda pair: pair[0].value)
    cosines = [_cosine(sketches[first], sketches[second]) for _, first, second in pairs]
    if as_json:
        rows = [
            {"first": first, "second": second, **estimate_fields(distance, confidence), "cosine": _fields(cosine)}
            for (distance, first, second), cosine in zip(pairs, cosines, strict=True)
        ]
        show_json(rows)
        return
    columns = {
        "pair": [f"{first} – {second}" for _, first, second in pairs],
        **estimate_columns([distance for distance, _, _ in pairs], confidence),
        "cosine": ["undefined" if cosine is None else str(cosine) for cosine in cosines],
    }
    show(table_of(columns))
    if raw and any(isinstance(sketch, ss.Sketch) for sketch in sketches.values()):
        say("Raw sketches took part: this table is as secret as they are.")


def _cosine(first: AnySketch, second: AnySketch) -> ss.Estimate | None:
    try:
        return ss.cosine(first, second)
    except ss.InvalidInputError:
        return None  # a norm within the noise


def _fields(cosine: ss.Estimate | None) -> dict[str, float] | None:
    return None if cosine is None else {"value": cosine.value, "standard_error": cosine.standard_error}
