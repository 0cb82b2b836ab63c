"""``streamsketch compare``: all comparisons between some sketches, or all angles between published signs."""

from itertools import combinations
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

import streamsketch as ss
from streamsketch.cli._keys import Signers
from streamsketch.cli._pairs import (
    QUANTITIES,
    By,
    ByOption,
    Only,
    Pairs,
    check_top,
    chosen,
    compare_all,
    refuse_by,
    say_what_is_below_noise_floor,
)
from streamsketch.cli._reading import Files, Raw, hold_signs, load_signs, load_sketches
from streamsketch.cli._showing import (
    UNDEFINED,
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
from streamsketch.estimation import AnySketch, Estimates


def compare(  # noqa: PLR0913 - a command's options are its parameters
    files: Files,
    *,
    by: ByOption = By.distance,
    top: Annotated[int | None, typer.Option(help="Show only this many pairs, the nearest.", show_default=False)] = None,
    only: Only = None,
    confidence: Confidence = 0.95,
    norm: Norms = None,
    signer: Signers = None,
    raw: Raw = False,
    as_json: Json = False,
) -> None:
    """Estimate squared distances and cosines between private sketches, nearest pair first.

    Each interval is for its pair alone: the least of many estimates is biased down. Where noise dominates, a squared
    distance may be negative and a cosine above 1; intervals are clipped to what is possible.

    Between published signs: how many differ, and angles and cosines, with the flips' share taken out.
    """
    check_top(top)
    if hold_signs(files):
        refuse_by(by)
        _compare_signs(files, norm, confidence, signer, top=top, only=only, as_json=as_json)
        return
    refuse_norms(norm)
    sketches = chosen(load_sketches(files, least=2, command="compare", raw=raw, signer=signer), only, "compare")
    pairs = compare_all(sketches, by)
    rows, columns = np.triu_indices(len(sketches), 1)
    order = np.argsort(pairs.nearness()[rows, columns], kind="stable")[:top]
    places = list(zip(rows[order].tolist(), columns[order].tolist(), strict=True))
    estimates = [pairs.estimate(*place) for place in places]
    beside = _beside(sketches, by)
    others = [beside.estimate(*place) for place in places]
    if raw and any(isinstance(sketch, ss.Sketch) for sketch in sketches.values()):
        say("Raw sketches took part: what is printed here is as secret as they are.")
    name, other_name = (_field(QUANTITIES[one]) for one in (by, beside.by))
    if as_json:
        show_json(
            [
                {
                    "first": pairs.names[i],
                    "second": pairs.names[j],
                    **({name: None} if one is None else estimate_fields(one, confidence, name)),
                    other_name: _short_fields(other),
                }
                for (i, j), one, other in zip(places, estimates, others, strict=True)
            ]
        )
        return
    table = {
        "pair": [f"{pairs.names[i]} – {pairs.names[j]}" for i, j in places],
        **estimate_columns(estimates, confidence, QUANTITIES[by]),
        QUANTITIES[beside.by]: [UNDEFINED if one is None else str(one) for one in others],
    }
    show(table_of(table))
    if by is not By.distance:
        say_what_is_below_noise_floor(sketches)


def _compare_signs(
    files: list[Path],
    norms: list[str] | None,
    confidence: float,
    signer: list[Path] | None,
    *,
    top: int | None,
    only: list[str] | None,
    as_json: bool,
) -> None:
    releases = chosen(load_signs(files, least=2, command="compare", signer=signer), only, "compare")
    among = SignPairs(releases, norms)
    pairs = [among.pair(first, second) for first, second in combinations(releases, 2)]
    angles = {pair: pair.angle.value for pair in pairs if pair.angle is not None}
    by_hamming = len(angles) < len(pairs)
    pairs.sort(key=lambda pair: pair.differing if by_hamming else angles[pair])
    pairs = pairs[:top]
    if as_json:
        show_json([{"first": pair.first, "second": pair.second, **pair.fields(confidence)} for pair in pairs])
    else:
        names = {"pair": [f"{pair.first} – {pair.second}" for pair in pairs]}
        show(table_of(names | columns_of(pairs, confidence), title=title_of(pairs)))
    among.say_what_is_unknown(pairs, by_hamming=by_hamming)


def _beside(sketches: dict[str, AnySketch], by: By) -> Pairs:
    """Return what stands beside: cosines beside distances, and distances beside the others."""
    if by is not By.distance:
        return compare_all(sketches, By.distance)
    try:
        return compare_all(sketches, By.cosine)
    except ss.InvalidInputError:  # noise before the map
        unknown = np.full((len(sketches), len(sketches)), np.nan)
        return Pairs(list(sketches), Estimates(unknown, unknown, unknown), By.cosine)


def _field(quantity: str) -> str:
    return quantity.replace(" ", "_")


def _short_fields(estimate: ss.Estimate | None) -> dict[str, float] | None:
    return None if estimate is None else {"value": estimate.value, "standard_error": estimate.standard_error}
