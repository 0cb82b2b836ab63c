"""``streamsketch plan``: the sketch to agree on."""

import csv
import re
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, TypeAlias

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
    column_name,
    columns_from,
    given_options,
    neighbours_of,
)
from streamsketch.cli._reading import new_file
from streamsketch.cli._saying import say
from streamsketch.cli._schedule_plan import schedule_plan
from streamsketch.cli._showing import Json, show_json
from streamsketch.cli._sign_plan import sign_mechanisms, sign_plan
from streamsketch.cli._site_plan import site_plan, write_site_plan
from streamsketch.core.files import write_whole
from streamsketch.core.libraries import pa, pa_csv
from streamsketch.data.canonical import HASHED_DIM
from streamsketch.data.readers.parquet import read_parquet
from streamsketch.privacy.neighbours import Neighbours
from streamsketch.report.keys import picture_of_keys

_TWO = 2
_OF_STREAMS = "squared_distance", "events", "relative_error", "l1", "l2", "one_coordinate"
_STATED = "pieces", "in_keys", "shares", "match", "catalogue", "cosine"
_OF_UNITS = *_STATED, "units", "keys", "picture", "question", "bounds"
_OF_SITES = (
    *("features", "numbers", "shift", "in_columns", "moved", "times", "class_share", "class_deviations", "columns"),
    *("deviation", "power", "write_features"),
)
_OF_SCHEDULES = "window", "ranges", "max_windows", "gap", "agreement", "write_schedule"
_OF_SIGNS = "members", "nearest", "top", "rest", "signs", "mechanism", "norm", "exact_query"


def plan(  # noqa: PLR0913 - a plan starts from many facts, each of them an option
    *,
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="Privacy loss ε of one release. For sites, the default is the smallest ε that finds the shift."
        ),
    ] = None,
    dim: Annotated[str, typer.Option(help="Number of possible indices, or hashed.")] = "hashed",
    squared_distance: Annotated[
        list[float] | None, typer.Option(help="Squared distance that matters, in squared data units. Repeatable.")
    ] = None,
    events: Annotated[int | None, typer.Option(help="Number of updates in one stream.")] = None,
    spread: Annotated[int, typer.Option(help="Smallest number of coordinates in which two streams differ.")] = 1,
    step: Annotated[
        str,
        typer.Option(help="Step of which all values are multiples, such as 1 or 1/100; real if there is no such step."),
    ] = "1",
    delta: Annotated[
        float | None, typer.Option(help="Failure probability δ of the bound ε. By default 0; for sites, at most 1e-6.")
    ] = None,
    l1: Annotated[
        str | None,
        typer.Option(help="One unit adds at most this much in total, in the values' units. By default 1."),
    ] = None,
    l2: L2 = None,
    one_coordinate: OneCoordinate = None,
    unit: Annotated[str, typer.Option(help="Name of what is protected, in a word.")] = "event",
    max_keys: Annotated[
        int | None, typer.Option(help="Number of keys that one unit may be in. By default 1, or what is known.")
    ] = None,
    items: Annotated[
        str | None,
        typer.Option(
            help="Number of different indices of one unit in a key, such as 10. Several sizes: 3,10,40.",
            show_default=False,
        ),
    ] = None,
    pieces: Annotated[
        str | None,
        typer.Option(help="Σ|value| of one unit in a key. By default, 1 for each item.", show_default=False),
    ] = None,
    in_keys: Annotated[
        str | None, typer.Option(help="Number of keys that one unit is in. By default 1.", show_default=False)
    ] = None,
    shares: Annotated[
        str | None,
        typer.Option(help="Relative frequency of each size. By default, all are equally frequent.", show_default=False),
    ] = None,
    match: Annotated[
        float | None,
        typer.Option(
            help="Probability that pieces of two units are of the same item, Σp². The size of the sketch hangs on it; "
            "without it, the plan is for a range.",
            show_default=False,
        ),
    ] = None,
    catalogue: Annotated[
        float | None,
        typer.Option(help="Instead of --match: how many different items are sold, or can occur.", show_default=False),
    ] = None,
    cosine: Annotated[
        str | None,
        typer.Option(
            help=(
                "Cosine of two keys that matters, or several. For neighbours, their cosine with the query; by default "
                "0.9."
            ),
            show_default=False,
        ),
    ] = None,
    sample: Annotated[
        Path | None,
        typer.Option(help="Parquet file of public rows, whose units are used instead of --items.", show_default=False),
    ] = None,
    units: Annotated[
        str | None,
        typer.Option(help="Number of units in a key, or at a site. Several sizes: 500,3000.", show_default=False),
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option(
            help="CSV or Parquet file of keys and their numbers of units, instead of --units: columns key "
            "and units, or the first two. The plan then names the keys that stand out.",
            show_default=False,
        ),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(help="Draw the result of --keys, --units or --sites into an .svg file."),
    ] = None,
    question: Annotated[
        str | None,
        typer.Option(
            help=(
                "Question to the releases: cosine (the default), distance, mean or point. neighbours is for published "
                "signs, without --items."
            ),
            show_default=False,
        ),
    ] = None,
    members: Annotated[
        int | None,
        typer.Option(help="Number of vectors in the collection.", show_default=False),
    ] = None,
    nearest: Annotated[
        int | None,
        typer.Option(help="Number of true neighbours that are wanted. By default 10.", show_default=False),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(
            help="Number of nearest members that a search returns. By default, the number of --nearest.",
            show_default=False,
        ),
    ] = None,
    rest: Annotated[
        str | None,
        typer.Option(help="Cosine of the other members, or several. By default 0.", show_default=False),
    ] = None,
    signs: Annotated[
        str | None,
        typer.Option(help="Numbers of signs to compare. By default 256,1024,4096.", show_default=False),
    ] = None,
    mechanism: Annotated[
        str | None,
        typer.Option(
            help=f"Mechanism that publishes the signs: {', '.join(sign_mechanisms())}. By default the first.",
            autocompletion=sign_mechanisms,
            show_default=False,
        ),
    ] = None,
    norm: Annotated[
        float | None,
        typer.Option(help="Euclidean norm of the vectors, if flips depend on the cells.", show_default=False),
    ] = None,
    exact_query: Annotated[
        bool, typer.Option("--exact-query", help="The query is your own vector, which is not published.")
    ] = False,
    sites: Annotated[
        bool, typer.Option("--sites", help="Plan features by which to compare sites of --units people.")
    ] = False,
    features: Annotated[
        Path | None,
        typer.Option(help="JSON file of columns with their public ranges.", show_default=False),
    ] = None,
    numbers: Annotated[
        int | None, typer.Option(help="Number of columns of numbers, instead of --features.", show_default=False)
    ] = None,
    shift: Annotated[
        float | None,
        typer.Option(help="Shift of a number that should be found, in standard deviations.", show_default=False),
    ] = None,
    in_columns: Annotated[
        int | None, typer.Option(help="Number of columns in which the shift or the class appears.", show_default=False)
    ] = None,
    moved: Annotated[
        float | None,
        typer.Option(help="Share of people in another category that should be found.", show_default=False),
    ] = None,
    times: Annotated[
        float | None,
        typer.Option(help="Factor by which a class of people is more frequent.", show_default=False),
    ] = None,
    class_share: Annotated[
        float | None, typer.Option(help="Share of that class. By default 0.5.", show_default=False)
    ] = None,
    class_deviations: Annotated[
        float | None,
        typer.Option(
            help="Distance of the class's means from the others', in standard deviations. By default 1.",
            show_default=False,
        ),
    ] = None,
    columns: Annotated[
        bool | None,
        typer.Option(
            "--columns/--no-columns",
            help="Whether numbers get features of their own. By default, they do if there are enough people.",
        ),
    ] = None,
    deviation: Annotated[
        float | None,
        typer.Option(
            help="Standard deviation of a number, as a share of its range. By default 1/6.",
            show_default=False,
        ),
    ] = None,
    power: Annotated[
        float | None,
        typer.Option(help="Probability with which the shift must be found. By default 0.8.", show_default=False),
    ] = None,
    write_features: Annotated[
        Path | None,
        typer.Option("--write-features", help="Write the features to a .json file, for `agree --features`."),
    ] = None,
    windows: Annotated[
        int | None,
        typer.Option(help="Plan a schedule for publishing a stream of this many windows.", min=1, show_default=False),
    ] = None,
    window: Annotated[
        str | None, typer.Option(help="Length of a window, such as '1 hour'.", show_default=False)
    ] = None,
    ranges: Annotated[
        list[str] | None,
        typer.Option(
            "--range",
            help="Range that matters: a number of windows, a length such as '1 week' (with --window), or "
            "prefix: all windows from the first on (the default). Repeatable.",
            metavar="RANGE",
            show_default=False,
        ),
    ] = None,
    max_windows: Annotated[
        str | None,
        typer.Option(
            help="Number of windows that a unit may be in, or all. By default 1.", metavar="N|all", show_default=False
        ),
    ] = None,
    gap: Annotated[
        int | None,
        typer.Option(help="Smallest distance between two windows of a unit. By default 1.", show_default=False),
    ] = None,
    agreement: Annotated[
        Path | None,
        typer.Option(
            help="With --windows and --epsilon: the agreement of the stream, by which the plan knows its noise.",
            show_default=False,
        ),
    ] = None,
    write_schedule: Annotated[
        Path | None,
        typer.Option(
            "--write-schedule",
            help="Write the schedule to a .json file, for policies.",
            show_default=False,
        ),
    ] = None,
    bounds: Annotated[
        str | None, typer.Option(help="Bounds to choose from, such as 5,10,20.", show_default=False)
    ] = None,
    relative_error: Annotated[
        float | None, typer.Option(help="Relative error to reach, e.g. 0.2. By default, the smallest possible.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Confidence with which the goal is reached, in [0.5, 1).")] = 0.95,
    max_cells: Annotated[int, typer.Option(help="Maximum number of cells of a sketch.")] = 1 << 16,
    max_nonzeros: Annotated[int, typer.Option(help="Maximum number of cells that one update may change.")] = 32,
    write_projection: Annotated[
        Path | None,
        typer.Option(
            help="Write the projection to a .json file, to agree on with the other parties.", show_default=False
        ),
    ] = None,
    write_agreement: Annotated[
        Path | None,
        typer.Option(
            help="Write an agreement to a .json file: the projection, with the columns and bound.", show_default=False
        ),
    ] = None,
    index: Index = None,
    key: Key = None,
    value: Value = None,
    unit_column: UnitColumn = None,
    missing: Missing = "refuse",
    title: Title = "",
    seed: Annotated[
        int | None, typer.Option(help="Public seed of the projection. By default, one is drawn now.")
    ] = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Accept the plan and write its files although it misses the goal.")
    ] = False,
    as_json: Json = False,
) -> None:
    r"""Choose a projection and a mechanism, and predict the error.

    By default, the plan is for squared distances between streams.

    With --items or --sample, it is for whole units, such as customers, which are clipped. The plan then also chooses
    their bound, and how they are clipped to it. The content of both options must be public.

    With --question neighbours, it is for published signs, and predicts the share of a vector's true neighbours that is
    found.

    With --sites, it is for features of people, and predicts which difference between two sites is found, and how many
    people are needed.

    With --windows, it is for the windows of a stream, and chooses which sums of windows are published, for the ranges
    of time that matter.

    If no sketch reaches the goal, the closest plan is shown, no file is written, and the exit status is 1.

    $ streamsketch plan --epsilon 1 --unit sale --squared-distance 20000 --relative-error 0.2 \
      --write-projection projection.json

    $ streamsketch plan --items 10 --units 2000 --cosine 0.9 --epsilon 1 --delta 1e-6 --unit customer

    $ streamsketch plan --question neighbours --members 100000 --epsilon 4

    $ streamsketch plan --sites --numbers 5 --units 2000 --shift 0.3 --epsilon 1 --unit patient

    $ streamsketch plan --windows 365 --window '1 day' --range '1 week'
    """
    given = dict(locals())
    if sites or windows is not None:
        (_plan_sites if sites else _plan_windows)(given)
        return
    _check_none(given, _OF_SITES, "these are about sites; give --sites, too")
    _check_none(given, _OF_SCHEDULES, "these are about windows; give --windows, too")
    if epsilon is None:
        raise ss.InvalidInputError("state how much privacy a release may spend: --epsilon 1")
    delta = given["delta"] = delta or 0.0
    _check_files(write_projection, write_agreement, index, seed, sample)
    if picture is not None:
        new_file(picture, ".svg", "a picture")
    named = columns_from(index or [], key, unit_column, value)
    if question == "neighbours":
        _show(_plan_signs(given), as_json=as_json)
        return
    _check_none(given, _OF_SIGNS, "these are about published signs; give --question neighbours, too")
    found: ss.planning.Plan | ss.planning.UnitPlan
    if items is not None or sample is not None:
        found = _plan_units(given, named)
        agreed_on: dict[str, Any] = found.agreement_arguments
    else:
        found, neighbours = _plan_streams(given)
        agreed_on = {"neighbours": neighbours}
    missed = isinstance(found, ss.planning.Plan) and found.met is False and not accept
    agreed = found.projection(secrets.randbits(63) if seed is None else seed)
    if write_projection is not None and not missed:
        write_whole(write_projection, agreed.to_json().encode() + b"\n")
    if write_agreement is not None and index and not missed:
        ss.Agreement(agreed, **named, **agreed_on, missing=missing, title=title).save(write_agreement)  # type: ignore[arg-type]
    if picture is not None and isinstance(found, ss.planning.UnitPlan):
        write_whole(picture, picture_of_keys(found).encode())
    _show(found, as_json=as_json)
    if missed:
        factor = found.chosen.error / float(relative_error or 1)
        files = " and ".join(str(path) for path in (write_projection, write_agreement) if path is not None)
        unwritten = f", and {files} is not written" if files else ""
        say(
            f"The goal is missed{unwritten}: the predicted error is {factor:.2g} times what was asked "
            f"for. Ask for less, allow more, or take it all the same with --accept",
            note=False,
        )
        raise typer.Exit(1)


def _plan_sites(given: dict[str, Any]) -> None:
    """Plan features for sites, show the plan and write its files."""
    others = {
        *_OF_STREAMS,
        *_OF_UNITS,
        *_OF_SIGNS,
        "items",
        "sample",
        "write_projection",
        "write_agreement",
        "index",
        "key",
    }
    others = (others | {"value", "unit_column"}) - {"units", "picture"}
    _check_none(given, others, "not an option for --sites; leave it out")
    for name, suffix, what in (("write_features", ".json", "features"), ("picture", ".svg", "a picture")):
        if given[name] is not None:
            new_file(given[name], suffix, what)
    found = site_plan(given)
    missed = not found.reached and not given["accept"]
    write_site_plan(found, given, missed=missed)
    _show(found, as_json=given["as_json"])
    if missed:
        unwritten = "" if given["write_features"] is None else f", and {given['write_features']} is not written"
        needed = [] if found.units_needed is None else [f"{found.units_needed:,} {found.units_word} a site"]
        needed += [] if found.epsilon_needed is None else [f"ε = {found.epsilon_needed:g}"]
        takes = f": it takes {' or '.join(needed)}" if needed else ""
        missing = f"The goal is missed{unwritten}{takes}."
        say(f"{missing} Ask for less, or take the plan all the same with --accept", note=False)
        raise typer.Exit(1)


def _plan_windows(given: dict[str, Any]) -> None:
    """Plan a schedule, show the plan and write the schedule."""
    others = {
        *_OF_STREAMS,
        *_OF_UNITS,
        *_OF_SIGNS,
        "items",
        "sample",
        "write_projection",
        "write_agreement",
        "index",
        "key",
    }
    _check_none(given, {*others, "value", "unit_column", "seed"}, "not an option for --windows; leave it out")
    output = given["write_schedule"]
    if output is not None:
        new_file(output, ".json", "a schedule")
    found = schedule_plan(given)
    if output is not None:
        write_whole(output, found.chosen.schedule.to_json().encode() + b"\n")
    _show(found, as_json=given["as_json"])


_Found: TypeAlias = (
    ss.planning.Plan | ss.planning.UnitPlan | ss.planning.SignPlan | ss.planning.SitePlan | ss.planning.SchedulePlan
)


def _show(found: _Found, *, as_json: bool) -> None:
    if as_json:
        show_json(found.to_dict())
    else:
        typer.echo(str(found))


def _plan_signs(given: dict[str, Any]) -> ss.planning.SignPlan:
    """Return the plan for published signs."""
    others = {*_OF_STREAMS, *_OF_UNITS, "items", "sample", "write_projection", "write_agreement"} - {
        "l1",
        "one_coordinate",
    }
    _check_none(given, others - {"cosine", "question"}, "not an option for --question neighbours; leave it out")
    bounds = {name: given[name] for name in ("l1", "one_coordinate")}
    several = {
        name: None if given[name] is None else _numbers(given[name], f"--{name}")
        for name in ("cosine", "rest", "signs")
    }
    return sign_plan(
        given | several | {"dim": _dim(given["dim"])}, neighbours_of(bounds, given["unit"], given["max_keys"])
    )


def _plan_units(given: dict[str, Any], columns: dict[str, Any]) -> ss.planning.UnitPlan:
    """Return the plan for whole units."""
    why = "for distances between streams; with --items or --sample, the plan finds bounds and distances. Leave it out"
    _check_none(given, _OF_STREAMS, why)
    if given["write_agreement"] is not None and given["unit_column"] is None:
        raise ss.InvalidInputError("an agreement on whole units names their column: give --unit-column NAME:TYPE")
    if given["units"] is not None and given["keys"] is not None:
        raise ss.InvalidInputError("--units and --keys both state how many units a key has; give one of them")
    return ss.planning.plan_units(
        _facts(given, columns),
        question=given["question"] or "cosine",
        units=_units_of(given["units"], given["keys"]),
        dim=_dim(given["dim"]),
        bounds=None if given["bounds"] is None else given["bounds"].split(","),
        **{name: given[name] for name in ("epsilon", "delta", "unit", "max_keys", "max_cells", "max_nonzeros")},
    )


def _plan_streams(given: dict[str, Any]) -> tuple[ss.planning.Plan, Neighbours]:
    """Return the plan for squared distances of streams."""
    _check_none(given, _OF_UNITS, "these are about whole units; give --items or --sample, too")
    unit, max_keys = given["unit"], given["max_keys"]
    bounds = {name: given[name] for name in ("l1", "l2", "one_coordinate")}
    neighbours = neighbours_of(bounds, unit, max_keys) or ss.L1(1, unit, max_keys or 1)
    streams = ss.planning.StreamFacts(
        dim=_dim(given["dim"]),
        squared_distances=given["squared_distance"] or None,
        events=given["events"],
        spread=given["spread"],
        step=None if given["step"] == "real" else given["step"],
    )
    limits = {name: given[name] for name in ("relative_error", "confidence", "max_cells", "max_nonzeros")}
    found = ss.plan(
        streams,
        epsilon=given["epsilon"],
        delta=given["delta"],
        neighbours=neighbours,
        goal=ss.planning.Goal(**limits),
    )
    return found, neighbours


def _check_files(
    projection: Path | None, agreement: Path | None, index: list[str] | None, seed: int | None, sample: Path | None
) -> None:
    for path, what in ((projection, "a projection"), (agreement, "an agreement")):
        if path is not None:
            new_file(path, ".json", what)
    if seed is not None and projection is None and agreement is None:
        raise ss.InvalidInputError(
            "a seed belongs to what --write-projection FILE or --write-agreement FILE writes; name the file"
        )
    if (agreement is None and sample is None and index) or (agreement is not None and not index):
        raise ss.InvalidInputError(
            "an agreement names the columns that are sketched: --write-agreement FILE and --index NAME:TYPE belong "
            "together; --write-projection FILE writes the projection alone"
        )


def _check_none(given: dict[str, Any], names: Iterable[str], why: str) -> None:
    if wrong := given_options({name: value for name, value in given.items() if name in set(names)}):
        raise ss.InvalidInputError(f"{wrong}: {why}")


def _facts(given: dict[str, Any], columns: dict[str, Any]) -> ss.planning.TypicalUnit | ss.planning.UnitSample:
    """Return the facts about units: as stated, or from a file."""
    items, sample = given["items"], given["sample"]
    if items is not None and sample is not None:
        raise ss.InvalidInputError("--items and --sample both state what a unit adds; give one of them")
    if sample is None:
        numbers: dict[str, Any] = {
            argument: _numbers(given[name], f"--{name.replace('_', '-')}")
            for argument, name in (
                {each: each for each in ("pieces", "shares", "cosine")} | {"keys": "in_keys"}
            ).items()
            if given[name]
        }
        known: dict[str, Any] = {name: given[name] for name in ("match", "catalogue")}
        return ss.planning.TypicalUnit(items=_numbers(items or "", "--items"), **numbers, **known)
    _check_none(given, _STATED, "--sample says what units add; leave them out")
    if not columns["index"] or columns["unit"] is None:
        raise ss.InvalidInputError("name the columns of the sample: --index and --unit-column, and --key if it has one")
    names: dict[str, Any] = {
        name: given if given is None else _name(given) for name, given in columns.items() if name != "index"
    }
    index = [_name(one) for one in columns["index"]]
    try:
        rows = read_parquet(
            sample, list(dict.fromkeys([*index, *(name for name in names.values() if name is not None)]))
        )
    except ss.InvalidInputError as error:
        raise ss.InvalidInputError(f"a sample of units is a Parquet file: {error}") from None
    return ss.planning.UnitSample.of(rows, index=index, **names)


def _units_of(units: str | None, keys: Path | None) -> list[float] | dict[str, float] | None:
    """Return how many units each key has, as stated or from a file."""
    if keys is None:
        return None if units is None else _numbers(units, "--units")
    try:
        if keys.suffix == ".parquet":
            table = read_parquet(keys)
        else:
            # as text, so that a key 007 or a date stays as it is written
            names, header = _header_of(keys)
            text = pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
            read = pa_csv.ReadOptions(column_names=names, skip_rows=int(header))
            table = pa_csv.read_csv(keys, read_options=read, convert_options=text)
    except pa.ArrowInvalid:
        raise ss.InvalidInputError(f"{keys} is not a CSV or Parquet file of keys and their numbers of units") from None
    if {"key", "units"} <= set(table.column_names):
        table = table.select(["key", "units"])
    elif table.num_columns != _TWO:
        raise ss.InvalidInputError(
            f"{keys} must have columns key and units, or two columns in this order, got "
            f"{', '.join(map(repr, table.column_names)):.100}"
        )
    names, numbers = (column.to_pylist() for column in table.columns)
    found: dict[str, float] = {}
    for row, (name, number) in enumerate(zip(names, numbers, strict=True), start=1):
        try:
            found[str(name)] = float(number)
        except (TypeError, ValueError):
            raise ss.InvalidInputError(
                f"the number of units in row {row} of {keys} is not a number, got {number!r:.40}"
            ) from None
    if len(found) < len(names):
        raise ss.InvalidInputError(f"{keys} has {len(names):,} rows and {len(found):,} different keys: one row a key")
    return found


def _header_of(file: Path) -> tuple[list[str], bool]:
    """Return the names of a CSV file's columns, and whether its first row contains them."""
    with file.open(newline="", encoding="utf-8-sig", errors="replace") as lines:
        first = next(csv.reader(lines), [])
    if len(first) == _TWO and re.fullmatch(r"\s*\d[\d_.,eE+]*\s*", first[1]):
        return ["key", "units"], False
    return first, True


def _name(column: Any) -> str:
    return column_name(column) if isinstance(column, str) else column[0]


def _numbers(text: str, option: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ss.InvalidInputError(f"{option} takes numbers with commas, such as 3,10,40, got {text!r:.40}") from None


def _dim(text: str) -> int:
    if text == "hashed":
        return HASHED_DIM
    try:
        return int(text)
    except ValueError:
        raise ss.InvalidInputError(f"dim must be a whole number or 'hashed', got {text!r:.40}") from None
