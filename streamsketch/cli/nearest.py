"""``streamsketch nearest``: the nearest neighbours of releases."""

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
    check_top,
    chosen,
    compare_all,
    refuse_by,
    say_what_is_below_noise_floor,
)
from streamsketch.cli._reading import Files, hold_signs, load_signs, load_sketches
from streamsketch.cli._showing import (
    Confidence,
    Json,
    estimate_columns,
    listed,
    meant,
    selected_fields,
    show,
    show_json,
    table_of,
)
from streamsketch.cli._signs import Norms, SignPairs, columns_of, refuse_norms, title_of


def nearest(  # noqa: PLR0913 - a command's options are its parameters
    files: Files,
    *,
    to: Annotated[
        str | None, typer.Option(help="Whose neighbours: a file's or key's name. By default, each one's.")
    ] = None,
    by: ByOption = By.distance,
    top: Annotated[int, typer.Option(help="How many neighbours.")] = 3,
    only: Only = None,
    confidence: Confidence = 0.95,
    norm: Norms = None,
    signer: Signers = None,
    as_json: Json = False,
) -> None:
    """Find each release's nearest others, by estimated squared distance, or Hamming distance of signs.

    Distances of counts mostly measure size, and the smallest stream is then near to all: compare what streams consist
    of with --by cosine or --by profile.

    Where intervals overlap, noise decides who comes first; and the least of many estimates is biased down. Intervals
    allow for that: with the stated confidence all intervals of one release hold, whichever neighbours are shown.
    """
    check_top(top)
    if hold_signs(files):
        refuse_by(by)
        _nearest_signs(files, to, top, norm, signer, only=only, confidence=confidence, as_json=as_json)
        return
    refuse_norms(norm)
    sketches = chosen(load_sketches(files, least=2, command="nearest", signer=signer), only, "nearest")
    names = list(sketches)
    wanted = _wanted(to, names)
    pairs = compare_all(sketches, by)
    nearness = pairs.nearness()
    found: list[tuple[str, int, str, ss.Estimate]] = []
    for i in map(names.index, wanted):
        others = [j for j in np.argsort(nearness[i], kind="stable").tolist() if j != i]
        near = [(names[j], one) for j in others if (one := pairs.estimate(i, j)) is not None][:top]
        found += [(names[i], rank, name, one) for rank, (name, one) in enumerate(near, 1)]
    candidates, quantity = len(names) - 1, QUANTITIES[by]
    if by is not By.distance:
        say_what_is_below_noise_floor(sketches)
    if as_json:
        show_json(
            [
                {
                    "of": name,
                    "rank": rank,
                    "neighbour": other,
                    **selected_fields(one, confidence, candidates, quantity.replace(" ", "_")),
                }
                for name, rank, other, one in found
            ]
        )
        return
    columns = {
        "of": [name if rank == 1 else "" for name, rank, _, _ in found],
        "neighbour": [other for _, _, other, _ in found],
        **estimate_columns([one for _, _, _, one in found], confidence, quantity, candidates=candidates),
    }
    show(table_of(columns))


def _wanted(to: str | None, names: list[str]) -> list[str]:
    """Return whose neighbours are asked for."""
    if to is None:
        return names
    if to not in names:
        raise ss.InvalidInputError(f"--to must be one of {listed(names)}; got {to}{meant(to, names)}")
    return [to]


def _nearest_signs(
    files: list[Path],
    to: str | None,
    top: int,
    norms: list[str] | None,
    signer: list[Path] | None,
    *,
    only: list[str] | None,
    confidence: float,
    as_json: bool,
) -> None:
    releases = chosen(load_signs(files, least=2, command="nearest", signer=signer), only, "nearest")
    among = SignPairs(releases, norms)
    found = [
        (rank, pair) for name in _wanted(to, list(releases)) for rank, pair in enumerate(among.nearest(name, top), 1)
    ]
    pairs = [pair for _, pair in found]
    candidates = len(releases) - 1
    if as_json:
        show_json(
            [
                {"of": pair.first, "rank": rank, "neighbour": pair.second, **pair.fields(confidence, candidates)}
                for rank, pair in found
            ]
        )
    else:
        names = {
            "of": [pair.first if rank == 1 else "" for rank, pair in found],
            "neighbour": [pair.second for pair in pairs],
        }
        show(table_of(names | columns_of(pairs, confidence, candidates), title=title_of(pairs)))
    among.say_what_is_unknown(pairs, by_hamming=True)
