"""``streamsketch agree``: the file by which all parties sketch."""

import dataclasses
from pathlib import Path
from typing import Annotated, Any, cast

import typer

import streamsketch as ss
from streamsketch.agreement.grids import fine_enough
from streamsketch.agreement.infer import clip_of_features, counting_of, warn_of_usual_size, whole_unit_bounds
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
    neighbours_of,
    projection_from,
    published_keys,
)
from streamsketch.cli._completing import Completion, base_of, check_header, refuse_to_change_the_map
from streamsketch.cli._features import check_columns, features_text, load_features
from streamsketch.cli._fields import FIELDS, Further, set_fields, set_option
from streamsketch.cli._options import given_options, option
from streamsketch.cli._saying import say
from streamsketch.cli._showing import AsJson, show_result
from streamsketch.cli._writing import new_file
from streamsketch.core.libraries import pa, pq
from streamsketch.core.numbers import short
from streamsketch.core.text import names_given
from streamsketch.data.readers.formats import format_of
from streamsketch.data.readers.opening import open_file
from streamsketch.planning.agreed_sizes import sizes_of, with_planned_size, with_size
from streamsketch.planning.unit_plans import UnitPlan
from streamsketch.privacy.schedule_kinds import schedule_from_json
from streamsketch.release.agreed_publisher import publisher_of
from streamsketch.storage.first_bytes import is_raw

_WORTH_SAYING = 0.9  # of the error
_REMEDIES = {"units": "--units NUMBERS", "items": "--set items=NUMBERS", "catalogue": "--set catalogue=NUMBER"}


def agree(  # noqa: PLR0913 - the fields of an agreement
    sample: Annotated[
        Path | None,
        typer.Argument(
            help=(
                "Parquet or CSV file that has the columns; those of Parquet have types, and those of CSV are text "
                "unless stated. Or an agreement (.json) or a .raw-sketch file, to which options are added."
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
            "Number of keys that one unit may be in; without --key, of windows that are keys. By default 1; with "
            "--sketch-l2 and --key, any number.",
        ),
    ] = None,
    epsilon: Annotated[
        str | None,
        option(
            "Privacy",
            "EPSILON",
            "Privacy loss ε of each release, a decimal > 0. Without it, a later `agree FILE.json --epsilon` adds it.",
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
    missing: Missing = None,
    units: Annotated[
        str | None,
        option(
            "Size of the sketch",
            "NUMBERS",
            "Public numbers of units in a key, such as 500,3000 or DE=95,UK=3900, by which the size of the sketch is "
            "planned, unless it is stated; by default 2,000. Keys below the noise floor are named.",
        ),
    ] = None,
    further: Annotated[list[str] | None, set_option("Further fields", FIELDS)] = None,
    as_json: AsJson = False,
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

    With an agreement as SAMPLE, what the options state is added to it, such as what a release spends; and with a raw
    sketch, to what it follows. The columns and the bound stay: `release RAW --agreement FILE` then releases it.

    With --window and --time, each window is published by itself, from --first on, and a unit pays in each; with --set
    windows=keys, all are one release. With --set schedule=FILE, sums of windows are published, and --epsilon is for
    all.

    $ streamsketch agree --index item:text --unit-column customer:text --missing drop --epsilon 1 --delta 1e-6 \
        --set sketch-dim=1024 -o terms.json

    $ streamsketch agree sales.csv --index item --key shop --unit-column customer --max-keys 1 --missing drop \
        --set sketch-dim=1024 -o agreement.json
    """
    new_file(output, ".json", "an agreement")
    more = set_fields(Further(), FIELDS, further)
    base = None if sample is None else base_of(sample)
    before = base if isinstance(base, ss.Agreement) else None
    stated = _Stated(
        columns=columns_from(index or [], key, unit_column, value, _names_in(sample)),
        bounds={"l1": l1, "l2": more.l2, "sketch_l2": sketch_l2, "one_coordinate": more.one_coordinate},
        unit=unit,
        unit_column=unit_column,
        max_keys=max_keys,
        missing=missing,
        more=more,
        terms=_terms(epsilon, delta, more.mechanism, None if before is None else before.terms),
        windows=_windows(window, time, first, more, None if before is None else before.windows),
        keys=published_keys(
            names_given(public_key or [], "--public-key"), more.select_keys, keys_are_public=keys_are_public
        ),
    )
    stated.check_terms(base)
    if sample is not None and base is not None:
        sizes = {"features": features, "units": units, "projection": more.projection, "sketch-dim": more.sketch_dim}
        sizes |= {"sparsity": more.sparsity, "resolution": more.resolution, "seed": more.seed}
        refuse_to_change_the_map(sample, sizes)
        agreed = stated.completion.of(base)
        by, sized = agreed.projection, None
    else:
        agreed, by = stated.made(sample, features)
        agreed, sized = _with_size(agreed, units, more)
    if agreed.terms is not None:
        publisher_of(agreed)  # which knows the mechanisms
    agreed.save(output)
    fields = {"file": str(output), "fingerprint": agreed.fingerprint, "agreement": agreed.to_dict()}
    show_result(str(output), facts_of(agreed, by), fields, as_json=as_json)
    if base is None:
        _say_size(sized)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Stated:
    """What the options of `agree` state."""

    columns: dict[str, Any]
    bounds: dict[str, str | None]
    unit: str | None
    unit_column: str | None
    max_keys: int | None
    missing: str | None
    more: Further
    terms: ss.Terms | None
    windows: ss.Windows | None
    keys: Any

    @property
    def _word(self) -> str:
        return self.unit or ("event" if self.unit_column is None else column_name(self.unit_column))

    def check_terms(self, base: object) -> None:
        """Raise `InvalidInputError` if terms lack a bound or published keys, which options state."""
        if self.terms is None:
            return
        agreement = base if isinstance(base, ss.Agreement) else None
        is_bounded = self.unit_column is not None or any(bound is not None for bound in self.bounds.values())
        if not is_bounded and (agreement is None or agreement.neighbours is None):
            raise ss.InvalidInputError(
                "a release protects somebody: also give --unit-column COLUMN, which names them, or --l1 BOUND, how "
                "much one of them may contribute"
            )
        windows = self.windows or (None if agreement is None else agreement.windows)
        keys = self.keys if self.keys is not None or agreement is None else agreement.keys
        are_listed = keys != "public" and not isinstance(keys, ss.Selected)
        if windows is not None and windows.are == "keys" and windows.last is None and are_listed:
            raise ss.InvalidInputError(
                "windows are keys, and which of them have data is private: state the first and the last, --first TIME "
                "--set last=TIME, or, with a key column, --keys-are-public"
            )
        is_keyed = self.columns["key"] is not None or (agreement is not None and agreement.key is not None)
        if is_keyed and keys is None:
            raise ss.InvalidInputError(
                "which keys have data is private: give --public-key KEY,…, a list chosen without looking at the data; "
                "--keys-are-public, if they are no secret; or --set select-keys=EPSILON,DELTA, a private choice"
            )

    @property
    def _schedule(self) -> Any:
        path = self.more.schedule
        return None if path is None else schedule_from_json(path.read_text())

    @property
    def completion(self) -> Completion:
        """The fields that are added to an agreement, or to a map."""
        more = self.more
        return Completion(
            columns=self.columns,
            neighbours=neighbours_of(self.bounds, self._word, self.max_keys),
            unit=self.unit,
            max_keys=self.max_keys,
            count=more.count,
            others={
                "clip": more.clip,
                "rows_of_unit": more.rows_of_unit,
                "missing": self.missing,
                "title": more.title or None,
                "terms": self.terms,
                "windows": self.windows,
                "schedule": self._schedule,
                "keys": self.keys,
                **({} if more.text == "new" else {"text": more.text}),
            },
        )

    def made(self, sample: Path | None, features: Path | None) -> tuple[ss.Agreement, ss.projections.Projection]:
        """Return an agreement, and its map before its grid was chosen."""
        is_csv = sample is not None and format_of(str(sample)) == "csv"
        if sample is not None and is_csv:
            check_header(sample, self.columns)
        schema = None if sample is None or is_csv else _schema(sample)
        columns, by = self._map(features)
        bounds = self._bounds(by, of_features=columns is not None)
        fine = by if columns is not None else fine_enough(by, bounds["neighbours"])
        if self.more.count is not None:
            bounds["counting"] = counting_of(fine, bounds["neighbours"]) if self.more.count else None
        fields: dict[str, Any] = {
            **self.columns,
            **bounds,
            "missing": self.missing or "refuse",
            "title": self.more.title,
            "terms": self.terms,
            "windows": self.windows,
            "schedule": self._schedule,
            "text": self.more.text,
            "rows_of_unit": self.more.rows_of_unit,
            "keys": self.keys,
        }
        if columns is not None:
            fields |= {"features": columns, "index": None}
        agreed = ss.Agreement(fine, **fields) if schema is None else _typed(schema, fine, fields)
        _check_features(agreed, sample, schema)
        return agreed, by

    def _map(self, features: Path | None) -> tuple[ss.Features | None, ss.projections.Projection]:
        more = self.more
        sizes: dict[str, Any] = {name: getattr(more, name) for name in ("sketch_dim", "sparsity", "resolution")}
        if features is None:
            if not self.columns["index"]:
                raise ss.InvalidInputError(
                    "state which columns are sketched: --index NAME:TYPE for each, in order; or --features FILE"
                )
            return None, projection_from(more.projection, **sizes, seed=more.seed)
        others = sizes | {"projection": more.projection, **self.bounds, "sketch_l2": None}
        others |= {"index": self.columns["index"], "value": self.columns["value"]}
        columns = _features(features, more.seed, others, self.unit_column)
        return columns, columns.projection

    def _bounds(self, by: ss.projections.Projection, *, of_features: bool) -> dict[str, Any]:
        """Return neighbours, clip and counting, as far as they are stated or follow."""
        clip, keyed = self.more.clip, self.columns["key"] is not None
        in_keys = 1 if not keyed and self.max_keys is None else self.max_keys  # without keys there is one stream
        neighbours = neighbours_of(self.bounds, self._word, in_keys)
        if neighbours is not None:
            return {
                "neighbours": neighbours,
                "clip": clip_of_features(neighbours, clip, self.more.rows_of_unit) if of_features else clip,  # type: ignore[arg-type]
            }
        if self.unit_column is not None:
            return whole_unit_bounds(
                by,
                self._word,
                keyed=keyed,
                max_keys=self.max_keys,
                clip=clip,  # type: ignore[arg-type] # it checks
                averaged=of_features,
                rows_of_unit=self.more.rows_of_unit,
            )
        if self.unit is not None or self.max_keys is not None or self.more.count:
            raise ss.InvalidInputError(
                "--unit, --max-keys and --set count=yes belong to a bound: give --unit-column, or --l1 BOUND"
            )
        return {"neighbours": None, "clip": clip}


def _names_in(sample: Path | None) -> list[str]:
    """Return the columns of a Parquet file, whose names may have colons."""
    if sample is None or sample.suffix == ".json" or format_of(str(sample)) == "csv" or is_raw(sample):
        return []
    return list(_schema(sample).names)


def _with_size(
    agreed: ss.Agreement, units: str | None, more: Further
) -> tuple[ss.Agreement, tuple[UnitPlan, UnitPlan] | None]:
    """Return an agreement with the planned size, unless a size is stated, and what --units says to expect of keys."""
    is_sized = more.projection is not None or more.sketch_dim is not None
    is_usual = not is_sized and (more.sparsity is not None or more.resolution is not None)
    in_cells = agreed.unit is not None and agreed.neighbours is not None and agreed.neighbours.of_sketches
    counts, items = _facts(units, more.items)
    if units is not None:
        plan, best = sizes_of(agreed, counts, items, more.catalogue)
        if is_sized or is_usual:
            return agreed, (plan, best)
        return with_size(agreed, best, counting_of), (best, best)
    is_plannable = in_cells and not is_usual and agreed.schedule is None and agreed.features is None
    if (items, more.catalogue) != (None, None) and (is_sized or not is_plannable):
        raise ss.InvalidInputError("items and catalogue go with --units, the number of units in a key: give both")
    if is_sized or agreed.features is not None or not (agreed.terms is None or agreed.terms.is_noise):
        return agreed, None
    if is_plannable:
        return with_planned_size(agreed, None, items, more.catalogue, counting_of, _REMEDIES), None
    warn_of_usual_size(agreed, "State it by --set sketch-dim=NUMBER; `streamsketch plan` predicts its errors")
    return agreed, None


def _facts(units: str | None, items: str | None) -> tuple[list[float] | dict[str, float] | None, list[float] | None]:
    """Return the numbers of units of all keys or of each, and the sizes of units, as far as they are stated."""
    parts = [part.rpartition("=") for part in (units or "").split(",")]
    try:
        numbers = [float(number) for _, _, number in parts] if units is not None else None
        sizes = None if items is None else [float(part) for part in items.split(",")]
    except ValueError:
        raise ss.InvalidInputError(
            f"--units and --set items=NUMBERS take numbers with commas, such as 500,3000 or DE=95,UK=3900, got "
            f"{' and '.join(short(text) for text in (units, items) if text is not None)}"
        ) from None
    if numbers is None or not all(name for name, _, _ in parts):
        return numbers, sizes
    return {name.strip(): number for (name, _, _), number in zip(parts, numbers, strict=True)}, sizes


def _say_size(sized: tuple[UnitPlan, UnitPlan] | None) -> None:
    """Print what the size for --units rests on, and the keys below the noise floor."""
    if sized is None:
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


def _terms(epsilon: str | None, delta: str | None, mechanism: str | None, before: ss.Terms | None) -> ss.Terms | None:
    """Return the terms of options, which replace those of an agreement one by one; None if nothing is stated."""
    stated = {"epsilon": epsilon, "delta": delta, "mechanism": mechanism}
    if before is not None:
        replaced: dict[str, Any] = {name: term for name, term in stated.items() if term is not None}
        return dataclasses.replace(before, **replaced) if replaced else None
    if epsilon is None:
        if delta is not None or mechanism is not None:
            raise ss.InvalidInputError("--delta and --set mechanism=NOISE are terms of a release: also give --epsilon")
        return None
    return ss.Terms(epsilon=epsilon, delta=delta or "0", mechanism=mechanism or "auto")


def _windows(
    every: str | None, time: str | None, first: str | None, more: Further, before: ss.Windows | None
) -> ss.Windows | None:
    """Return the windows of options, which replace fields of those of an agreement; None if nothing is stated."""
    name, _, kind = (time or "").rpartition(":")
    stated: dict[str, Any] = {
        "time": (name, kind) if name and kind in ("date", "timestamp") else time,
        "every": every,
        "format": more.time_format,
        "zone": more.zone,
        "first": first,
        "last": more.last,
        "are": more.windows_are,
    }
    stated = {field: value for field, value in stated.items() if value is not None}
    if not stated:
        return None
    if before is not None:
        return dataclasses.replace(before, **stated)
    if every is None or time is None:
        raise ss.InvalidInputError("windows have a length and a column of times: --window LENGTH --time COLUMN")
    return ss.Windows(**stated)


def _typed(schema: "pa.Schema", projection: ss.projections.Projection, fields: dict[str, Any]) -> ss.Agreement:
    """Return the agreement whose columns take their types from a schema."""
    later = ["terms", "keys", "windows", "schedule"]
    rows = fields["rows_of_unit"]
    if rows is None or ss.agreement.RowsOfUnit.parse(rows).time is None:  # which the windows may have
        later.append("rows_of_unit")
    terms = {name: fields.pop(name) for name in later}
    return ss.agree(schema, projection, **fields).replace(**terms)


def _features(path: Path, seed: int | None, others: dict[str, Any], unit_column: str | None) -> ss.Features:
    """Return the features in a file, if the other options can be combined with them."""
    if names := given_options(others):
        raise ss.InvalidInputError(
            f"{path} says what is added up, on which grid; rows have length 1 whatever they hold: leave out {names}"
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
        remedy = "give --max-keys, in how many keys a unit may be" if many else "give --set count=yes"
        raise ss.InvalidInputError(
            f"features are compared as averages over units, and so their number must be published: {remedy}"
        )
    if sample is not None and schema is not None:
        check_columns(cast("ss.features.Features", agreed.features), schema, sample)


def facts_of(agreed: ss.Agreement, projection: ss.projections.Projection) -> dict[str, str]:
    """Return the content of an agreement, for people; ``projection`` is its projection before its grid was chosen."""
    grid = (
        f"resolution {agreed.projection.grid}, on which a clipped unit's sketch has a norm of "
        f"{agreed.neighbours.most_in_a_cell(agreed.projection):,} steps, so that its cells are not rounded away"
        if agreed.neighbours is not None and agreed.neighbours.of_sketches and agreed.projection != projection
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
        "rows of a unit": "" if agreed.rows_of_unit is None else str(agreed.rows_of_unit),
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
            f"{sample} is neither Parquet nor CSV, an agreement or a raw sketch. Leave it out, and state the type of "
            f"each column: --index item:text, --index week:integer"
        ) from None
