"""``streamsketch nearest``: the nearest neighbours of releases."""

from typing import Annotated

import typer

import streamsketch as ss
from streamsketch.cli._keys import Signers
from streamsketch.cli._pairs import ByOption, Norms, Only, check_top, load_pairs
from streamsketch.cli._reading import Files
from streamsketch.cli._showing import Confidence, Json, join_names, meant, show, show_json, table_of


def nearest(  # noqa: PLR0913 - a command's options are its parameters
    files: Files,
    *,
    to: Annotated[
        str | None, typer.Option(help="Whose neighbours: a file's or key's name. By default, each one's.")
    ] = None,
    by: ByOption = "distance",
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
    among = load_pairs(files, "nearest", by=by, only=only, norm=norm, signer=signer)
    if to is not None and to not in among.names:
        raise ss.InvalidInputError(f"--to must be one of {join_names(among.names)}; got {to}{meant(to, among.names)}")
    wanted = range(len(among.names)) if to is None else [among.names.index(to)]
    ranked = [(rank, pair) for place in wanted for rank, pair in enumerate(among.nearest_to(place, top), 1)]
    pairs, candidates = [pair for _, pair in ranked], len(among.names) - 1
    if as_json:
        show_json(
            [
                {
                    "of": among.names[i],
                    "rank": rank,
                    "neighbour": among.names[j],
                    **among.fields((i, j), confidence, candidates),
                }
                for rank, (i, j) in ranked
            ]
        )
    else:
        names = {
            "of": [among.names[i] if rank == 1 else "" for rank, (i, _) in ranked],
            "neighbour": [among.names[j] for _, j in pairs],
        }
        show(table_of(names | among.columns(pairs, confidence, candidates), title=among.title(pairs)))
    among.say_notes(pairs)
