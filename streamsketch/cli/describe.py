"""``streamsketch describe``: the content of the columns of populations, from releases of features."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, NamedTuple

import streamsketch as ss
from streamsketch.cli._features import Shares, load_agreement, shares_of
from streamsketch.cli._keys import Signers
from streamsketch.cli._layout import show, table_of
from streamsketch.cli._options import option
from streamsketch.cli._pairs import Only, select_names
from streamsketch.cli._reading import Files, Raw, load_sketches
from streamsketch.cli._saying import say
from streamsketch.cli._showing import (
    UNDEFINED,
    AsJson,
    Confidence,
    estimate_fields,
    interval_name,
    join_names,
    meant,
    show_json,
)
from streamsketch.core.documents import Json
from streamsketch.estimation.blocks import AnySketch, block_of, is_secret
from streamsketch.estimation.estimate import interval_text, value_text
from streamsketch.estimation.intervals import Interval
from streamsketch.estimation.populations import has_people
from streamsketch.features.columns import Number

_SHARE_OF_RANGE = 0.05  # of a range: a mean whose interval is as near as that to an end
_SHORT = {"standard deviation": "std. dev."}


class _Described(NamedTuple):
    """What a population is like."""

    number: ss.estimation.Estimate
    """Of its units."""
    rows: list[Json]
    """Of `streamsketch.estimation.describe`."""
    secret: bool


def describe(  # noqa: PLR0913 - a command's options are its parameters
    files: Files,
    *,
    agreement: Annotated[
        Path,
        option("Input", "FILE", "Agreement by which the rows were sketched, a JSON file with features.", "--agreement"),
    ],
    share: Shares = None,
    column: Annotated[list[str] | None, option("Estimates", "COLUMN", "Show only this column. Repeatable.")] = None,
    confidence: Confidence = 0.95,
    only: Only = None,
    signer: Signers = None,
    raw: Raw = False,
    as_json: AsJson = False,
) -> None:
    """Describe the people in releases of features: means, deviations and shares, column by column.

    Means and standard deviations are of numbers cut to their agreed ranges, for units that have such a number. Shares
    are of all units. A unit with several rows counts once, by the average of its rows. Each interval holds
    by itself, and is clipped to what is possible. An estimate may be a little below 0, because of the noise.

    $ streamsketch describe clinic.sketch --agreement sites.json
    """
    sketches = load_sketches(files, least=1, command="describe", raw=raw, signer=signer)
    sketches = select_names(sketches, only, "describe", least=1)
    agreed, features = load_agreement(agreement, sketches)
    shares = shares_of(features, share)
    names = list(features.columns)
    for name in column or []:
        if name not in names:
            raise ss.InvalidInputError(
                f"there is no column {name}; columns are {join_names(names)}{meant(name, names)}"
            )
    described = {
        name: _Described(
            _number(sketch),
            [
                row
                for row in ss.estimation.describe(sketch, agreed, shares=shares, confidence=confidence).to_pylist()
                if not column or row["column"] in column
            ],
            secret=is_secret([sketch]),
        )
        for name, sketch in sketches.items()
    }
    several = [name for name, sketch in sketches.items() if not has_people(sketch, agreed)]
    unknown = [name for name, stream in described.items() if all(math.isnan(row["estimate"]) for row in stream.rows)]
    few = [name for name in unknown if name not in several]
    if as_json:
        show_json([_fields(name, stream, confidence) for name, stream in described.items()])
    else:
        unit = "unit" if agreed.neighbours is None else agreed.neighbours.unit
        title = next(iter(described)) if len(described) == 1 else None
        show(table_of(_columns(described, unit, confidence), title=title, texts=2 + (title is None)))
    for name, stream in described.items():
        for text in _at_ends(features, stream.rows):
            say(f"{name}: {text}")
    if several:
        say(
            f"Without averages, as people have several rows and these were not averaged: {join_names(several)}. In "
            f"agreements that streamsketch agree makes now, they are (clip average)."
        )
    if few:
        say(
            f"Without averages, as the number of units is within two standard errors of zero (an empty site, or one "
            f"too small for its noise): {join_names(few)}."
        )
    if is_secret(sketches.values()):
        say("warning: raw sketches took part: what is printed here is as secret as they are.")


def _number(sketch: AnySketch) -> ss.estimation.Estimate:
    """Return the number of units."""
    units = block_of([sketch]).units
    if units is None:
        raise ss.InvalidInputError(
            "units were not counted, so there are no averages: bound the rows, with no other rows added, under an "
            "agreement that counts units"
        )
    if isinstance(sketch, ss.PrivateSketch):
        return sketch.units
    return ss.estimation.Estimate(float(units.number[0]), 0.0, float(units.variance[0]), lowest=0.0)


def _at_ends(features: ss.Features, rows: list[Json]) -> Iterator[str]:
    """Yield a sentence for each mean that is at the end of its column's range, beyond what noise could do."""
    for row in rows:
        number = features.columns[row["column"]]
        if not isinstance(number, Number) or row["measure"] != "mean" or number.low < row["estimate"] < number.high:
            continue
        margin = _SHARE_OF_RANGE * (number.high - number.low)
        below, above = row["high"] <= number.low + margin, row["low"] >= number.high - margin
        if math.isfinite(row["estimate"]) and (below or above):
            end = number.low if below else number.high
            yield (
                f"the mean of {row['column']} is at the end {end:g} of its range, so most values are there or beyond. "
                f"Are they in another unit?"
            )


def _fields(name: str, described: _Described, confidence: float) -> Json:
    """Return the description of a release as JSON; null where there are too few units."""
    measures = [
        {
            {"error": "standard_error"}.get(at, at): None if isinstance(value, float) and math.isnan(value) else value
            for at, value in row.items()
        }
        for row in described.rows
    ]
    for row in measures:
        for end in ("low", "high"):
            row[end] = row[end] if row["estimate"] is not None else None
    fields = {"of": name, "units": estimate_fields(described.number, confidence, "value"), "measures": measures}
    return fields | {"confidence": confidence} | ({"secret": True} if described.secret else {})


def _columns(described: Mapping[str, _Described], unit: str, confidence: float) -> dict[str, list[str]]:
    """Return descriptions as columns of a table for people: for each measure a row of each release."""
    heads = ("column", "measure", "stream", "estimate ± s.e.", interval_name(confidence))
    numbers = {name: stream.number for name, stream in described.items()}
    rows: list[tuple[str, ...]] = [
        (unit, "number", name, value_text(number), interval_text(number, number.interval(confidence)))
        for name, number in numbers.items()
    ]
    for same in zip(*(stream.rows for stream in described.values()), strict=True):
        rows += [
            (row["column"], _SHORT.get(row["measure"], row["measure"]), name, *_cells(row))
            for name, row in zip(described, same, strict=True)
        ]
    shown = [
        (_unless_same(row, before, 1), _unless_same(row, before, 2), *row[2:])
        for row, before in zip(rows, [("",) * 5, *rows], strict=False)
    ]
    of_one = len(described) == 1
    return {head: [row[place] for row in shown] for place, head in enumerate(heads) if head != "stream" or not of_one}


def _unless_same(row: tuple[str, ...], before: tuple[str, ...], count: int) -> str:
    """Return the last of some cells, or nothing if the row before begins with the same cells."""
    return "" if row[:count] == before[:count] else row[count - 1]


def _cells(row: Json) -> tuple[str, str]:
    if math.isnan(row["estimate"]):
        return UNDEFINED, ""
    estimate = ss.estimation.Estimate(row["estimate"], 0.0, row["error"] ** 2)
    return value_text(estimate), interval_text(estimate, Interval(row["low"], row["high"]))
