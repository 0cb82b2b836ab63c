"""``streamsketch agree``: what all parties sketch by."""

from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pq
import typer

import streamsketch as ss
from streamsketch.cli._agreeing import (
    L1,
    L2,
    Index,
    Key,
    Missing,
    OneCoordinate,
    Title,
    UnitColumn,
    Value,
    column_name,
    columns_from,
    neighbours_of,
    projection_from,
)
from streamsketch.cli._reading import new_file
from streamsketch.cli._showing import Json, show_result
from streamsketch.privacy import Neighbours


def agree(  # noqa: PLR0913 - the fields of an agreement
    sample: Annotated[
        Path | None,
        typer.Argument(help="A Parquet file whose types the columns have, where none are said.", metavar="SAMPLE"),
    ] = None,
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="The .json file to write, for all parties.")],
    index: Index = None,
    key: Key = None,
    value: Value = None,
    unit_column: UnitColumn = None,
    l1: L1 = None,
    l2: L2 = None,
    one_coordinate: OneCoordinate = None,
    unit: Annotated[
        str | None, typer.Option(help="What one unit is, in a word; by default, its column's name.")
    ] = None,
    max_keys: Annotated[int, typer.Option(help="In how many keys one unit may be.")] = 1,
    missing: Missing = "refuse",
    title: Title = "",
    projection: Annotated[
        Path | None, typer.Option(help="The projection, a JSON file; by default an SJLT of the options below.")
    ] = None,
    sketch_dim: Annotated[int | None, typer.Option(help="Cells of a sketch, k; by default 1024.")] = None,
    sparsity: Annotated[int | None, typer.Option(help="Nonzeros of a column, s; by default 4.")] = None,
    resolution: Annotated[
        str | None, typer.Option(help="Grid step of the values, such as 1/100; by default 1.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Public seed; by default one drawn now.")] = None,
    as_json: Json = False,
) -> None:
    """Write down what all parties sketch by: projection, columns and types, bounds, and what missing means.

    A column is NAME:TYPE, of type integer, text, bytes, date, timestamp, boolean or decimal(PLACES). A name alone has
    the type it has in SAMPLE; without SAMPLE it is text.
    """
    new_file(output, ".json", "an agreement")
    if not index:
        raise ss.InvalidInputError("say which columns are sketched: --index NAME:TYPE for each, in order")
    schema = None if sample is None else _schema(sample)
    fields: dict[str, Any] = {
        **columns_from(index, key, unit_column, value, () if schema is None else schema.names),
        "neighbours": _neighbours((l1, l2, one_coordinate), unit, unit_column, max_keys),
        "missing": missing,
        "title": title,
    }
    by = projection_from(projection, sketch_dim=sketch_dim, sparsity=sparsity, resolution=resolution, seed=seed)
    agreed = ss.Agreement(by, **fields) if schema is None else ss.agree(schema, by, **fields)
    agreed.save(output)
    fields = {"file": str(output), "fingerprint": agreed.fingerprint, "agreement": agreed.to_dict()}
    show_result(str(output), _facts(agreed), fields, as_json=as_json)


def _facts(agreed: ss.Agreement) -> dict[str, str]:
    """Return what an agreement says, for people."""
    facts = {
        "title": agreed.title,
        "index": ", ".join(map(str, agreed.index)),
        "value": agreed.value or "1 a row",
        "key": "" if agreed.key is None else str(agreed.key),
        "unit": "" if agreed.unit is None else str(agreed.unit),
        "bound": "" if agreed.neighbours is None else str(agreed.neighbours),
        "missing": agreed.missing,
        "projection": agreed.projection.to_json(),
        "fingerprint": agreed.fingerprint,
    }
    return {name: fact for name, fact in facts.items() if fact}


def _neighbours(
    bounds: tuple[str | None, str | None, str | None], unit: str | None, column: str | None, max_keys: int
) -> Neighbours | None:
    if not any(bounds) and (unit is not None or max_keys != 1):
        raise ss.InvalidInputError("--unit and --max-keys belong to a bound: say --l1 BOUND, too")
    word = unit or ("event" if column is None else column_name(column))
    return neighbours_of(*bounds, word, max_keys)


def _schema(sample: Path) -> pa.Schema:
    try:
        return pq.read_schema(sample)
    except pa.ArrowInvalid:
        raise ss.InvalidInputError(
            f"{sample} is not a Parquet file; of others, say the types: --index item:text, --index week:integer"
        ) from None
