"""``streamsketch nearest``: who is most alike."""

from typing import Annotated

import numpy as np
import typer

import streamsketch as ss
from streamsketch.commands._reading import Files, load_sketches
from streamsketch.commands._showing import (
    Confidence,
    Json,
    estimate_columns,
    estimate_fields,
    show,
    show_json,
    table_of,
)

_NAMED = 20  # of the names in an error


def nearest(
    files: Files,
    *,
    to: Annotated[
        str | None, typer.Option(help="Whose neighbours: a file's or key's name. By default, each one's.")
    ] = None,
    top: Annotated[int, typer.Option(help="How many neighbours.")] = 3,
    confidence: Confidence = 0.95,
    as_json: Json = False,
) -> None:
    """Find each release's nearest others, by estimated squared distance.

    Where intervals overlap, noise decides who comes first; and the least of many estimates is biased down.
    """
    if top < 1:
        raise ss.InvalidInputError(f"--top must be at least 1, got {top}")
    sketches = load_sketches(files, least=2, command="nearest")
    names = list(sketches)
    if to is not None and to not in sketches:
        known = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
        raise ss.InvalidInputError(f"--to must be one of {known}; got {to}")
    distances = ss.pairwise(sketches.values())
    found: list[tuple[str, int, str, ss.Estimate]] = []
    for i in [names.index(to)] if to is not None else range(len(names)):
        others = [int(j) for j in np.argsort(distances.value[i], kind="stable") if j != i][:top]
        found += [(names[i], rank, names[j], distances[i, j]) for rank, j in enumerate(others, 1)]
    if as_json:
        show_json(
            [
                {"of": name, "rank": rank, "neighbour": other, **estimate_fields(distance, confidence)}
                for name, rank, other, distance in found
            ]
        )
        return
    columns = {
        "of": [name if rank == 1 else "" for name, rank, _, _ in found],
        "neighbour": [other for _, _, other, _ in found],
        **estimate_columns([distance for _, _, _, distance in found], confidence),
    }
    show(table_of(columns))
