"""``streamsketch compare``: all distances between some sketches, or all angles between published signs."""

from itertools import combinations
from pathlib import Path

import streamsketch as ss
from streamsketch.cli._reading import Files, Raw, hold_signs, load_signs, load_sketches, naming
from streamsketch.cli._showing import (
    Confidence,
    Json,
    estimate_columns,
    estimate_fields,
    say,
    show,
    show_json,
    table_of,
)
from streamsketch.cli._signs import Norms, SignPairs, columns_of, refuse_norms, title_of
from streamsketch.estimation import AnySketch


def compare(
    files: Files, *, confidence: Confidence = 0.95, norm: Norms = None, raw: Raw = False, as_json: Json = False
) -> None:
    """Estimate squared distances and cosines between private sketches, nearest pair first.

    Each interval is for its pair alone: the least of many estimates is biased down. Where noise dominates, a squared
    distance may be negative and a cosine above 1; intervals of distances are clipped at zero.

    Between published signs: how many differ, and angles and cosines, with the flips' share taken out.
    """
    if hold_signs(files):
        _compare_signs(files, norm, confidence, as_json=as_json)
        return
    refuse_norms(norm)
    sketches = load_sketches(files, least=2, command="compare", raw=raw)
    pairs = []
    for first, second in combinations(sketches, 2):
        with naming(first, second):
            pairs.append((ss.squared_distance(sketches[first], sketches[second]), first, second))
    pairs.sort(key=lambda pair: pair[0].value)
    cosines = [_cosine(sketches[first], sketches[second]) for _, first, second in pairs]
    if raw and any(isinstance(sketch, ss.Sketch) for sketch in sketches.values()):
        say("Raw sketches took part: what is printed here is as secret as they are.")
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


def _compare_signs(files: list[Path], norms: list[str] | None, confidence: float, *, as_json: bool) -> None:
    releases = load_signs(files, least=2, command="compare")
    among = SignPairs(releases, norms)
    pairs = [among.pair(first, second) for first, second in combinations(releases, 2)]
    angles = {pair: pair.angle.value for pair in pairs if pair.angle is not None}
    by_hamming = len(angles) < len(pairs)
    pairs.sort(key=lambda pair: pair.differing if by_hamming else angles[pair])
    if as_json:
        show_json([{"first": pair.first, "second": pair.second, **pair.fields(confidence)} for pair in pairs])
    else:
        names = {"pair": [f"{pair.first} – {pair.second}" for pair in pairs]}
        show(table_of(names | columns_of(pairs, confidence), title=title_of(pairs)))
    among.say_what_is_unknown(pairs, by_hamming=by_hamming)


def _cosine(first: AnySketch, second: AnySketch) -> ss.Estimate | None:
    try:
        return ss.cosine(first, second)
    except ss.InvalidInputError:
        return None  # a norm within the noise


def _fields(cosine: ss.Estimate | None) -> dict[str, float] | None:
    return None if cosine is None else {"value": cosine.value, "standard_error": cosine.standard_error}
