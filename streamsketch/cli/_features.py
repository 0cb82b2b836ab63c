"""Features: read from files that people write, described in words, and found in releases."""

import dataclasses
import difflib
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import streamsketch as ss
from streamsketch.agreement.same import check_alike
from streamsketch.cli._options import option
from streamsketch.cli._reading import name_in_errors
from streamsketch.cli._showing import join_names
from streamsketch.core.documents import Json
from streamsketch.core.libraries import pa
from streamsketch.core.limits import current_limits, json_fields, read_bounded
from streamsketch.core.numbers import short
from streamsketch.core.text import aligned
from streamsketch.data.columns import NOT_SHOWN
from streamsketch.estimation.blocks import AnySketch
from streamsketch.features.columns import Category, Embedding, FeatureColumn, Number
from streamsketch.features.features import JOINT

Shares = Annotated[
    list[str] | None,
    option(
        "Estimates",
        "COLUMN=VALUE",
        "Also estimate the share of this value of a hashed category. Repeatable.",
        "--share",
    ),
]

_KINDS: dict[str, Any] = {column.kind: column for column in get_args(FeatureColumn)}
_PUBLIC = "is public: take it from a textbook or a data dictionary, as it is never learned from rows"
_NEEDED = {
    "number": f"low and high, the ends of a range that {_PUBLIC}",
    "category": "values, the list of its categories, or hashed, the number of features for any categories",
    "embedding": "size, how many numbers each embedding has",
}
_LISTED = 4  # categories on a line


def load_features(path: Path, seed: int | None) -> ss.Features:
    """Return the features in a file: the JSON of `Features`, in which fields that have a default may be omitted.

    Parameters
    ----------
    path
        The file.
    seed
        For a file without a seed; None to draw one now.

    Raises
    ------
    InvalidInputError
        For other JSON, fields that are missing or unknown, and two seeds; it names the file.
    OSError
        If the file cannot be read.
    """
    try:
        text = read_bounded(path, current_limits().max_json_bytes, "max_json_bytes")
        return ss.Features.from_dict(_fields_of(text, seed))
    except (ss.InvalidInputError, ss.errors.WireFormatError) as error:
        raise ss.InvalidInputError(f"{path} does not hold features: {error}") from None


def _fields_of(text: bytes, seed: int | None) -> Json:
    """Return all fields of features from the fields that a file has."""
    of_agreements = {field.name for field in dataclasses.fields(ss.Agreement)}
    fields = json_fields(text, "features", {"columns", *of_agreements})
    if "agreement" in fields:
        raise ss.InvalidInputError("it is an agreement already")
    if not isinstance(columns := fields.get("columns"), list):
        raise ss.InvalidInputError('it has no list of columns, {"columns": [{"name": …, "kind": …}, …]}')
    if seed is not None and fields.setdefault("seed", seed) != seed:
        raise ss.InvalidInputError(f"it has the seed {short(fields['seed'])}: leave out --set seed")
    defaults = {"seed": secrets.randbits(63), "joint": 0, "width": None, "joint_weight": None}
    return defaults | fields | {"columns": [_completed(column) for column in columns]}


def _completed(column: Any) -> Any:
    """Return the fields of a column, with defaults for omitted fields."""
    kind = _KINDS.get(str(column.get("kind"))) if isinstance(column, dict) else None
    if kind is None:
        return column  # its error says which kinds there are
    fields = dataclasses.fields(kind)
    needed = [field.name for field in fields if field.default is dataclasses.MISSING]
    if any(name not in column for name in needed) or (kind is Category and not column.keys() & {"values", "hashed"}):
        raise ss.InvalidInputError(f"the {kind.kind} {short(column.get('name'))} needs {_NEEDED[kind.kind]}")
    defaults = {field.name: field.default for field in fields if field.default is not dataclasses.MISSING}
    return defaults | column


def check_columns(features: ss.Features, schema: "pa.Schema", path: Path) -> None:
    """Raise `InvalidInputError` unless a file has the columns of these features."""
    for name in features.columns:
        if schema.names.count(name) != 1:
            fault = "has no" if name not in schema.names else "has more than one"
            raise ss.InvalidInputError(
                f"{path} {fault} column {name}; {NOT_SHOWN}. Name the columns of the file in the features"
            )
    features.cells({name: pa.nulls(1, schema.field(name).type) for name in features.columns})


def features_text(features: ss.Features) -> str:
    """Return a description of each column, one line each."""
    rows = [(name, _column_text(column)) for name, column in features.columns.items()]
    if features.joint:
        rows.append((JOINT, f"{features.joint} waves of all numbers together"))
    return aligned(rows, left=2)


def _column_text(column: FeatureColumn) -> str:
    if isinstance(column, Number):
        text = f"number from {column.low:g} to {column.high:g}" + _unless_default(column, "moments")
    elif isinstance(column, Embedding):
        text = f"embedding of {column.size:,} numbers, {column.waves} waves"
    elif column.values is None:
        text = f"any category, hashed into {column.hashed} features"
    else:
        more = len(column.values) - _LISTED
        text = f"category: {', '.join(column.values[:_LISTED])}{f' and {more:,} more' if more > 0 else ''}"
    return text + _unless_default(column, "weight")


def _unless_default(column: FeatureColumn, field: str) -> str:
    default = next(entry.default for entry in dataclasses.fields(column) if entry.name == field)
    value = getattr(column, field)
    return "" if value == default else f", {field} {value}"


def load_agreement(path: Path, sketches: Mapping[str, AnySketch]) -> tuple[ss.Agreement, ss.Features]:
    """Return the agreement in a file, which these sketches of one agreement follow, and its features.

    Raises
    ------
    InvalidInputError
        For an agreement without features.
    IncompatibleProjectionsError, IncompatibleAgreementsError
        If sketches follow another one.
    """
    agreed = ss.Agreement.load(path)
    if agreed.features is None:
        raise ss.InvalidInputError(
            f"{path} has no features, so its releases are of items: frequency shows these, and compare --why those "
            f"that differ"
        )
    name, sketch = next(iter(sketches.items()))
    with name_in_errors(name, str(path)):
        sketch.projection.check_same(agreed.projection)
        check_alike(sketch.agreement, agreed)
    return agreed, cast("ss.features.Features", agreed.features)


def shares_of(features: ss.Features, texts: list[str] | None) -> dict[str, list[str]]:
    """Return the hashed categories whose shares are requested, by column, from options COLUMN=VALUE.

    Raises
    ------
    InvalidInputError
        For other text, and columns that are no hashed categories.
    """
    hashed = [
        name for name, column in features.columns.items() if isinstance(column, Category) and column.values is None
    ]
    shares: dict[str, list[str]] = {}
    for text in texts or []:
        # names and values may have an equals sign, too
        fitting = [name for name in hashed if text.startswith(f"{name}=") and len(text) > len(name) + 1]
        if not fitting:
            raise ss.InvalidInputError(_no_share(features, hashed, text))
        name = max(fitting, key=len)
        if (value := text[len(name) + 1 :]) not in shares.setdefault(name, []):
            shares[name].append(value)
    return shares


def _no_share(features: ss.Features, hashed: list[str], text: str) -> str:
    name, equals, value = text.partition("=")
    column = features.columns.get(name)
    if not equals or not value:
        return f"--share takes COLUMN=VALUE, such as diagnosis=E11, got {text}"
    if isinstance(column, Category):
        return f"the categories of {name} are listed in the agreement, and all their shares shown: leave out --share"
    close = difflib.get_close_matches(name, hashed, n=1)
    names = f"which are {join_names(hashed)}" if hashed else "and there are none here"
    return f"--share is for hashed categories, {names}; got {text}" + (f". Did you mean {close[0]}?" if close else "")
