"""``streamsketch agree``: the file by which all parties sketch."""

from pathlib import Path
from typing import Annotated, Any, cast

import typer

import streamsketch as ss
from streamsketch.agreement.grids import fine_enough
from streamsketch.agreement.infer import clip_of_features, counting_of, whole_unit_bounds
from streamsketch.agreement.terms import keys_text
from streamsketch.cli._agreeing import (
    L1,
    Index,
    Key,
    Missing,
    SketchL2,
    UnitColumn,
    Value,
    column_name,
    columns_from,
    given_options,
    neighbours_of,
    projection_from,
)
from streamsketch.cli._features import check_columns, features_text, load_features
from streamsketch.cli._fields import FIELDS_HELP, AreWindows, further_fields
from streamsketch.cli._options import option
from streamsketch.cli._reading import new_file
from streamsketch.cli._saying import say
from streamsketch.cli._showing import Json, show_result
from streamsketch.core.libraries import pa, pq
from streamsketch.core.numbers import short
from streamsketch.core.text import names_given
from streamsketch.data.readers.opening import open_file
from streamsketch.privacy.schedule_kinds import schedule_from_json

_WORTH_SAYING = 0.9  # of the error


def agree(  # noqa: PLR0913 - the fields of an agreement
    sample: Annotated[
        Path | None,
        typer.Argument(
            help=(
                "Parquet file from which columns take their types, unless --index, --key and the other options state "
                "them."
            ),
            metavar="SAMPLE",
        ),
    ] = None,
    *,
    output: Annotated[Path, option("Output", "FILE", "File to write, .json, for all parties.", "--output", "-o")],
    features: Annotated[
        Path | None,
        option(
            "Input",
            "FILE",
            "Compare populations by features instead of an index: a JSON file of columns with their public ranges and "
            "categories.",
        ),
    ] = None,
    index: Index = None,
    key: Key = None,
    value: Value = None,
    unit_column: UnitColumn = None,
    l1: L1 = None,
    sketch_l2: SketchL2 = None,
    unit: Annotated[
        str | None, option("Privacy", "WORD", "Name of one unit, in a word. By default, the name of its column.")
    ] = None,
    max_keys: Annotated[
        int | None,
        option(
            "Privacy",
            "NUMBER",
            "Number of keys that one unit may be in; without --key, of windows (`sketch --window`). By default 1; "
            "with --sketch-l2 and --key, any number.",
        ),
    ] = None,
    epsilon: Annotated[
        str | None,
        option(
            "Privacy",
            "EPSILON",
            "Privacy loss ε of each release, a decimal > 0. Without it, each party states it when it releases.",
        ),
    ] = None,
    delta: Annotated[
        str | None, option("Privacy", "DELTA", "Probability δ with which ε may fail. By default 0.")
    ] = None,
    public_key: Annotated[
        list[str] | None,
        option(
            "Privacy",
            "KEY",
            "Keys that are published, separated by commas or one by one; named without looking at data.",
        ),
    ] = None,
    keys_are_public: Annotated[
        bool, option("Privacy", "", "Publish all keys of the data: which have data is no secret.", "--keys-are-public")
    ] = False,
    window: Annotated[
        str | None,
        option(
            "Windows",
            "LENGTH",
            "Length of windows, such as '1 hour', or day, week or month of the calendar. Each window is then a release "
            "of its own.",
        ),
    ] = None,
    time: Annotated[str | None, option("Windows", "COLUMN", "With --window: column of times, or NAME:date.")] = None,
    first: Annotated[
        str | None,
        option("Windows", "TIME", "Start of the first window: a time, or the first date of a day, a week or a month."),
    ] = None,
    missing: Missing = "refuse",
    units: Annotated[
        str | None,
        option(
            "Size of the sketch",
            "NUMBERS",
            "Public numbers of units, such as 500,3000 or DE=95,UK=3900. The size of the sketch is then planned, for "
            "ε = 1, unless it is stated; keys below the noise floor are named.",
        ),
    ] = None,
    further: Annotated[
        list[str] | None,
        option("Further fields", "NAME=VALUE", f"{FIELDS_HELP} Repeat it for several fields.", "--set"),
    ] = None,
    as_json: Json = False,
) -> None:
    r"""Write down how all parties sketch, bound and release: one file.

    The file names the projection, the columns, the bound on what one unit adds, and how missing values are treated.

    If --unit-column is given without a bound, each unit is protected, whatever its rows contain, and each counts the
    same, as with --sketch-l2 1 --set clip=equal; with --features it counts as one row, the average of its own. With
    --key, add --max-keys, the number of keys that one unit may be in. Units are then counted, too.

    A column is NAME:TYPE. The types are integer, text, bytes, date, timestamp, boolean and decimal(PLACES). A name
    alone has the type it has in SAMPLE; without SAMPLE it is text.

    --features compares sites by sums over units of numbers, categories and embeddings. The file has columns, a seed,
    and joint, the number of waves over all numbers together: {"columns": [{"name": "age", "kind": "number", "low": 0,
    "high": 110}, {"name": "sex", "kind": "category", "values": ["F", "M"]}, {"name": "diagnosis", "kind": "category",
    "hashed": 64}], "seed": 7, "joint": 8}. Nothing in it is learned from rows.

    With --epsilon, the agreement says what each release spends, so that `release ROWS --agreement FILE` needs nothing
    else, and all parties publish alike. With --key, it then says which keys are published: --public-key,
    --keys-are-public or --set select-keys=EPSILON,DELTA.

    With --window and --time, each window is published by itself, from --first on, and a unit pays in each; with --set
    windows=keys, all are one release. With --set schedule=FILE, sums of windows are published, and --epsilon is for
    all.

    $ streamsketch agree --index item:text --unit-column customer:text --missing drop --epsilon 1 --delta 1e-6 \
        -o terms.json

    $ streamsketch agree --index item:text --key shop:text --unit-column customer:text --max-keys 1 --missing drop \
        -o agreement.json
    """
    new_file(output, ".json", "an agreement")
    more = further_fields(further or [])
    l2, one_coordinate, clip, count = more.l2, more.one_coordinate, more.clip, more.count
    projection, seed = more.projection, more.seed
    schema = None if sample is None else _schema(sample)
    options: dict[str, Any] = {name: getattr(more, name) for name in ("sketch_dim", "sparsity", "resolution")}
    by: ss.projections.Projection
    if features is None:
        if not index:
            raise ss.InvalidInputError(
                "state which columns are sketched: --index NAME:TYPE for each, in order; or --features FILE"
            )
        columns, by = None, projection_from(projection, **options, seed=seed)
    else:
        options |= {"projection": projection, "l1": l1, "l2": l2, "one_coordinate": one_coordinate}
        columns = _features(features, seed, options | {"index": index, "value": value}, unit_column)
        by = columns.projection
    options = {"l1": l1, "l2": l2, "sketch_l2": sketch_l2, "one_coordinate": one_coordinate}
    word = unit or ("event" if unit_column is None else column_name(unit_column))
    in_keys = 1 if key is None and max_keys is None else max_keys  # without keys there is one stream
    bounds: dict[str, Any] = {"neighbours": neighbours_of(options, word, in_keys), "clip": clip}
    if bounds["neighbours"] is None and unit_column is not None:
        known: dict[str, Any] = {"max_keys": max_keys, "clip": clip, "averaged": columns is not None}
        bounds = whole_unit_bounds(by, word, keyed=key is not None, **known)
    elif bounds["neighbours"] is None and (unit is not None or max_keys is not None or count):
        raise ss.InvalidInputError(
            "--unit, --max-keys and --set count=yes belong to a bound: give --unit-column, or --l1 BOUND"
        )
    elif columns is not None:
        bounds["clip"] = clip_of_features(bounds["neighbours"], clip)  # type: ignore[arg-type]
    fine = by if columns is not None else fine_enough(by, bounds["neighbours"])
    if count is not None:
        bounds["counting"] = counting_of(fine, bounds["neighbours"]) if count else None
    fields: dict[str, Any] = {
        **columns_from(index or [], key, unit_column, value, () if schema is None else schema.names),
        **bounds,
        "missing": missing,
        "title": more.title,
        "terms": _terms(epsilon, delta, more.mechanism),
        "windows": _windows(
            {"time_format": more.time_format, "zone": more.zone, "first": first, "last": more.last},
            window,
            time,
            more.windows_are,
        ),
        "schedule": None if more.schedule is None else schedule_from_json(more.schedule.read_text()),
        "text": more.text,
        "keys": _keys(names_given(public_key or [], "--public-key"), more.select_keys, keys_are_public=keys_are_public),
    }
    if columns is not None:
        fields |= {"features": columns, "index": None}
    agreed = ss.Agreement(fine, **fields) if schema is None else _typed(schema, fine, fields)
    _check_features(agreed, sample, schema)
    sized = _planned(agreed, units, more.items, more.catalogue)
    if sized is not None and (projection, more.sketch_dim, more.sparsity) == (None, None, None):
        agreed = agreed.replace(projection=sized[1].projection(getattr(by, "seed", 0)))
        sized = (sized[1], sized[1])
    agreed.save(output)
    fields = {"file": str(output), "fingerprint": agreed.fingerprint, "agreement": agreed.to_dict()}
    show_result(str(output), _facts(agreed, by), fields, as_json=as_json)
    _say_size(agreed, sized)


def _planned(
    agreed: ss.Agreement, units: str | None, items: str | None, catalogue: float | None
) -> tuple[ss.planning.UnitPlan, ss.planning.UnitPlan] | None:
    """Return what to expect of keys of so many units, under the agreement and with the size that is best."""
    if units is None:
        if items is not None or catalogue is not None:
            raise ss.InvalidInputError("items and catalogue go with --units, the number of units in a key: give both")
        return None
    parts = [part.rpartition("=") for part in units.split(",")]
    named = all(name for name, _, _ in parts)
    try:
        numbers = [float(number) for _, _, number in parts]
        sizes = [float(part) for part in (items or "10").split(",")]
    except ValueError:
        raise ss.InvalidInputError(
            f"--units and --set items=NUMBERS take numbers with commas, such as 500,3000 or DE=95,UK=3900, got "
            f"{short(units)} and {short(items)}"
        ) from None
    typical = ss.planning.TypicalUnit(items=sizes, catalogue=catalogue)
    known = {name.strip(): number for (name, _, _), number in zip(parts, numbers, strict=True)}
    return ss.planning.plan_sizes(agreed, typical, units=known if named else numbers)


def _say_size(agreed: ss.Agreement, sized: tuple[ss.planning.UnitPlan, ss.planning.UnitPlan] | None) -> None:
    """Print what a size rests on, and the keys below the noise floor, if units are clipped in sketch space."""
    if sized is None:
        in_cells = agreed.neighbours is not None and agreed.neighbours.of_sketches
        if agreed.unit is not None and agreed.features is None and in_cells:
            say(
                f"Nobody planned k = {agreed.projection.sketch_dim:,} cells: noise may hide small keys that fewer "
                f"cells would show. --units NUMBERS plans the size, and names the keys below the noise floor."
            )
        return
    plan, best = sized
    say(f"Assumed, at ε = {plan.epsilon:g}: {plan.facts.assumed(plan.unit)}.")
    for condition, outlook in plan.outlooks.items():
        error, best_then = outlook.error, outlook.best
        say(f"If {condition}: cosines ± {error:.2g}, and ± {best_then.error:.2g} with {best_then.cells:,} cells.")
    if best.chosen.error < _WORTH_SAYING * plan.chosen.error:
        say(
            f"With k = {plan.chosen.cells:,} cosines are ± {plan.chosen.error:.2g}; with k = {best.chosen.cells:,} "
            f"they would be ± {best.chosen.error:.2g}."
        )
    for sentence in plan.standing:
        say(sentence)


def _terms(epsilon: str | None, delta: str | None, mechanism: str | None) -> ss.Terms | None:
    if epsilon is None:
        if delta is not None or mechanism is not None:
            raise ss.InvalidInputError("--delta and --set mechanism=NOISE are terms of a release: also give --epsilon")
        return None
    return ss.Terms(epsilon=epsilon, delta=delta or "0", mechanism=mechanism or "auto")


def _windows(
    stated: dict[str, str | None], every: str | None, time: str | None, are: AreWindows | None
) -> ss.Windows | None:
    """Return the windows of options; None if there are none."""
    if every is None or time is None:
        if any((every, time, are, *stated.values())):
            raise ss.InvalidInputError("windows have a length and a column of times: --window LENGTH --time COLUMN")
        return None
    name, _, kind = time.rpartition(":")
    column: Any = (name, kind) if name and kind in ("date", "timestamp") else time
    fields: dict[str, Any] = {("format" if name == "time_format" else name): text for name, text in stated.items()}
    return ss.Windows(time=column, every=every, **fields, are=are or "releases")


def _keys(listed: list[str], share: str | None, *, keys_are_public: bool) -> Any:
    if bool(listed) + (share is not None) + keys_are_public > 1:
        raise ss.InvalidInputError("give one of --public-key, --keys-are-public and --set select-keys=EPSILON,DELTA")
    if share is not None:
        epsilon, _, delta = share.partition(",")
        return ss.Selected(epsilon=epsilon.strip(), delta=delta.strip())
    return "public" if keys_are_public else listed or None


def _typed(schema: "pa.Schema", projection: ss.projections.Projection, fields: dict[str, Any]) -> ss.Agreement:
    """Return the agreement whose columns take their types from a schema."""
    terms = {name: fields.pop(name) for name in ("terms", "keys", "windows", "schedule")}
    return ss.agree(schema, projection, **fields).replace(**terms)


def _features(path: Path, seed: int | None, others: dict[str, Any], unit_column: str | None) -> ss.Features:
    """Return the features in a file, if the other options can be combined with them."""
    if given := given_options(others):
        raise ss.InvalidInputError(
            f"{path} says what is added up, on which grid; rows have length 1 whatever they hold: leave out {given}"
        )
    if unit_column is None:
        raise ss.InvalidInputError(
            "features are compared as averages over units, so state which column names them: --unit-column patient"
        )
    return load_features(path, seed)


def _check_features(agreed: ss.Agreement, sample: Path | None, schema: "pa.Schema | None") -> None:
    """Raise `InvalidInputError` if features would have no averages, or a sample has other columns."""
    if agreed.features is None:
        return
    if not agreed.layout.is_counted:
        many = agreed.neighbours is not None and agreed.neighbours.any_keys
        remedy = "give --max-keys, in how many keys a unit may be" if many else "leave out --set count=no"
        raise ss.InvalidInputError(
            f"features are compared as averages over units, and so their number must be published: {remedy}"
        )
    if sample is not None and schema is not None:
        check_columns(cast("ss.features.Features", agreed.features), schema, sample)


def _facts(agreed: ss.Agreement, given: ss.projections.Projection) -> dict[str, str]:
    """Return the content of an agreement, for people; ``given`` is its projection before its grid was chosen."""
    grid = (
        f"resolution {agreed.projection.grid}, on which a clipped unit's sketch has a norm of "
        f"{agreed.neighbours.most_in_a_cell(agreed.projection):,} steps, so that its cells are not rounded away"
        if agreed.neighbours is not None and agreed.neighbours.of_sketches and agreed.projection != given
        else ""
    )
    features = cast("ss.features.Features | None", agreed.features)
    facts = {
        "title": agreed.title,
        "features": "" if features is None else features_text(features),
        "cells": "" if features is None else f"{features.dim:,}, by the seed {features.seed}",
        "index": ", ".join(map(str, agreed.index)),
        "value": "" if agreed.features is not None else agreed.value or "1 a row",
        "key": "" if agreed.key is None else str(agreed.key),
        "unit": "" if agreed.unit is None else str(agreed.unit),
        "bound": "" if agreed.neighbours is None else str(agreed.neighbours),
        "clip": agreed.clip or "",
        "published": _counts(agreed),
        "grid": grid,
        "release": "" if agreed.terms is None else str(agreed.terms),
        "keys": "" if agreed.keys is None else keys_text(agreed.keys),
        "windows": "" if agreed.windows is None else str(agreed.windows),
        "schedule": "" if agreed.schedule is None else str(agreed.schedule),
        "text": "" if agreed.text is None else f"compared in {agreed.text}, of Unicode 14.0",
        "missing": _missing(agreed),
        "projection": "" if agreed.features is not None else repr(agreed.projection),
        "fingerprint": agreed.fingerprint,
    }
    return {name: fact for name, fact in facts.items() if fact}


def _missing(agreed: ss.Agreement) -> str:
    if agreed.features is None:
        return agreed.missing
    named = " or ".join(column.name for column in agreed.columns)
    return f"{agreed.missing} rows without {named}; in others it is a feature"


def _counts(agreed: ss.Agreement) -> str:
    if agreed.counting is not None:
        return f"beside the cells, {agreed.counting}"
    if agreed.unit is None or agreed.neighbours is None or not agreed.neighbours.of_sketches:
        return ""
    remedy = "--max-keys" if agreed.neighbours.any_keys else "--set count=yes"
    return f"no count of units, so no averages: {remedy} adds it"


def _schema(sample: Path) -> "pa.Schema":
    sample.open("rb").close()  # Arrow's error would not name it
    try:
        return pq.read_schema(open_file(sample))
    except pa.ArrowInvalid:
        raise ss.InvalidInputError(
            f"{sample} is not a Parquet file, and only such a SAMPLE has types. Leave it out, and state the type of "
            f"each column: --index item:text, --index week:integer"
        ) from None
