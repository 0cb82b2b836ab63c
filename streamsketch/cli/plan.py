"""``streamsketch plan``: which sketch to agree on."""

import secrets
from pathlib import Path
from typing import Annotated

import typer

import streamsketch as ss
from streamsketch.cli._agreeing import (
    L2,
    Index,
    Key,
    Missing,
    OneCoordinate,
    Title,
    UnitColumn,
    Value,
    columns_from,
    neighbours_of,
)
from streamsketch.cli._reading import new_file
from streamsketch.cli._showing import Json, say, show_json
from streamsketch.core import write_whole


def plan(  # noqa: PLR0913 - a plan starts from many facts, each of them an option
    *,
    epsilon: Annotated[float, typer.Option(help="Privacy loss bound ε of one release.")],
    dim: Annotated[str, typer.Option(help="Number of possible indices, or 'hashed'.")] = "hashed",
    squared_distance: Annotated[
        list[float] | None, typer.Option(help="A squared distance that matters, in squared data units; repeatable.")
    ] = None,
    events: Annotated[int | None, typer.Option(help="Updates of one stream.")] = None,
    spread: Annotated[int, typer.Option(help="The fewest coordinates that make a difference.")] = 1,
    step: Annotated[str, typer.Option(help="What values are multiples of, e.g. 1 or 1/100; 'real' if nothing.")] = "1",
    delta: Annotated[float, typer.Option(help="Failure probability δ of the bound.")] = 0.0,
    l1: Annotated[
        str | None,
        typer.Option(help="At most this much in all from one unit, in the values' units; by default 1."),
    ] = None,
    l2: L2 = None,
    one_coordinate: OneCoordinate = None,
    unit: Annotated[str, typer.Option(help="What is protected, in a word.")] = "event",
    max_keys: Annotated[int, typer.Option(help="How many keys' sketches one unit may be in.")] = 1,
    relative_error: Annotated[
        float | None, typer.Option(help="The goal, e.g. 0.2; left out, as little as can be had.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Of the goal, in [0.5, 1).")] = 0.95,
    max_cells: Annotated[int, typer.Option(help="The most cells of a sketch.")] = 1 << 16,
    max_nonzeros: Annotated[int, typer.Option(help="The most cells one update may touch.")] = 32,
    projection: Annotated[
        Path | None,
        typer.Option(help="Write the projection to this JSON file, to agree on with the others.", show_default=False),
    ] = None,
    agreement: Annotated[
        Path | None,
        typer.Option(help="Write an agreement to this JSON file: the projection and what follows.", show_default=False),
    ] = None,
    index: Index = None,
    key: Key = None,
    value: Value = None,
    unit_column: UnitColumn = None,
    missing: Missing = "refuse",
    title: Title = "",
    seed: Annotated[int | None, typer.Option(help="Public seed of the projection; by default one drawn now.")] = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Take the plan, and write its files, though it misses the goal.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Choose a projection and a mechanism, and predict the error of squared distances.

    Where no sketch reaches the goal, the nearest one is shown, no file is written, and the exit status is 1.
    """
    for path, what in ((projection, "a projection"), (agreement, "an agreement")):
        if path is not None:
            new_file(path, ".json", what)
    if seed is not None and projection is None and agreement is None:
        raise ss.InvalidInputError("a seed belongs to what --projection FILE or --agreement FILE writes; name the file")
    if (agreement is None) != (not index):
        raise ss.InvalidInputError(
            "an agreement says which columns are sketched: --agreement FILE and --index NAME:TYPE belong together; "
            "--projection FILE writes the projection alone"
        )
    columns = columns_from(index or [], key, unit_column, value)
    of_units = neighbours_of(l1, l2, one_coordinate, unit, max_keys) or ss.L1(1, unit, max_keys)
    found = ss.plan(
        ss.planning.StreamFacts(
            dim=_dim(dim),
            squared_distances=squared_distance or None,
            events=events,
            spread=spread,
            step=None if step == "real" else step,
        ),
        epsilon=epsilon,
        delta=delta,
        neighbours=of_units,
        goal=ss.planning.Goal(
            relative_error=relative_error, confidence=confidence, max_cells=max_cells, max_nonzeros=max_nonzeros
        ),
    )
    missed = found.met is False and not accept
    agreed = found.projection(secrets.randbits(63) if seed is None else seed)
    if projection is not None and not missed:
        write_whole(projection, agreed.to_json().encode() + b"\n")
    if agreement is not None and index and not missed:
        ss.Agreement(agreed, **columns, neighbours=of_units, missing=missing, title=title).save(agreement)  # type: ignore[arg-type]
    if as_json:
        show_json(found.to_dict())
    else:
        typer.echo(str(found))
    if missed:
        factor = found.chosen.error / float(relative_error or 1)
        files = " and ".join(str(path) for path in (projection, agreement) if path is not None)
        unwritten = f", and {files} is not written" if files else ""
        say(
            f"The goal is missed{unwritten}: the predicted error is {factor:.2g} times what was asked "
            f"for. Ask for less, allow more, or take it all the same with --accept"
        )
        raise typer.Exit(1)


def _dim(text: str) -> int:
    if text == "hashed":
        return ss.HASHED_DIM
    try:
        return int(text)
    except ValueError:
        raise ss.InvalidInputError(f"dim must be a whole number or 'hashed', got {text!r:.40}") from None
