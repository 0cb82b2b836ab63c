"""The fields of an agreement's JSON: from an `Agreement`, and as the arguments of one."""

import json
from collections.abc import Mapping
from typing import Any

from streamsketch.agreement.agreed_features import AgreedFeatures
from streamsketch.agreement.columns import Column, columns_of
from streamsketch.agreement.rows_of_unit import RowsOfUnit
from streamsketch.agreement.terms import Terms, keys_from_dict, keys_to_dict
from streamsketch.agreement.text import TextRule
from streamsketch.agreement.windows import Windows
from streamsketch.core.documents import Json
from streamsketch.core.numbers import short
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.counting import Counting
from streamsketch.privacy.neighbours import Neighbours
from streamsketch.privacy.schedule import Schedule
from streamsketch.privacy.schedule_kinds import schedule_of
from streamsketch.products import SERVICES
from streamsketch.projections.from_fields import projection_from_fields

NESTED = {"projection", "key", "index", "unit", "neighbours", "counting", "features", "release", "keys", "windows"}
NESTED |= {"schedule", "text", "rows_of_unit"}
"""Fields that are objects or lists."""

VERSION = 1
_IN_JSON = {"terms": "release"}  # fields with another name in JSON
_LATER = (
    "clip",
    "counting",
    "features",
    "release",
    "keys",
    "windows",
    "schedule",
    "text",
    "rows_of_unit",
)  # fields that JSON leaves out where they are None: agreements without them keep their fingerprint


def fields_of(agreed: Mapping[str, Any]) -> Json:
    """Return the JSON of an `Agreement`, as a dict, from its fields."""
    stated: dict[str, Any] = {}
    for name in ("counting", "features", "terms", "windows", "schedule", "text", "rows_of_unit"):
        if agreed[name] is not None:
            stated[_IN_JSON.get(name, name)] = agreed[name].to_dict()
    if agreed["clip"] is not None:
        stated["clip"] = agreed["clip"]
    if agreed["keys"] is not None:
        stated["keys"] = keys_to_dict(agreed["keys"])
    return {
        "agreement": VERSION,
        "projection": json.loads(agreed["projection"].to_json()),
        "key": _shown(agreed["key"]),
        "index": [_shown(column) for column in agreed["index"]],
        "value": agreed["value"],
        "unit": _shown(agreed["unit"]),
        "neighbours": None if agreed["neighbours"] is None else agreed["neighbours"].to_dict(),
        "missing": agreed["missing"],
        "title": agreed["title"],
        **stated,
    }


def _shown(column: Column | None) -> dict[str, str] | None:
    return None if column is None else column._asdict()


def arguments_of(fields: Json, arguments: set[str]) -> dict[str, Any]:
    """Return the arguments of an agreement, named by ``arguments``, from the fields of its JSON.

    Raises
    ------
    InvalidInputError
        For fields that are missing or unknown, or of another shape; `Agreement` checks the rest.
    """
    names = {"agreement", *(_IN_JSON.get(name, name) for name in arguments)}
    if "kind" in fields and "agreement" not in fields:
        raise InvalidInputError("it is a projection alone; streamsketch.agree makes an agreement from it")
    needed = names - set(_LATER)
    if not needed <= fields.keys() <= names or any(fields.get(name, "") is None for name in _LATER):
        missing_ones, unknown = sorted(needed - fields.keys()), sorted(fields.keys() - needed)
        raise InvalidInputError(
            f"an agreement has the fields {sorted(needed)}; missing: {missing_ones}, unknown: {short(unknown)}"
        )
    if type(fields["agreement"]) is not int or fields["agreement"] != VERSION:
        raise InvalidInputError(f"this release reads agreements of version {VERSION}, got {short(fields['agreement'])}")
    index = fields["index"]
    if not isinstance(index, list):
        raise InvalidInputError(f"the index of an agreement must be a list of columns, got {short(index)}")
    return {
        "projection": projection_from_fields(_object(fields["projection"], "the projection")),
        "index": [_read_column(column, "an index column") for column in index],
        "key": None if fields["key"] is None else _read_column(fields["key"], "the key column"),
        "value": fields["value"],
        "unit": None if fields["unit"] is None else _read_column(fields["unit"], "the unit column"),
        "neighbours": None if fields["neighbours"] is None else Neighbours.from_dict(fields["neighbours"]),
        "missing": fields["missing"],
        "title": fields["title"],
        "clip": fields.get("clip"),
        "counting": Counting.from_dict(fields["counting"]) if "counting" in fields else None,
        "features": _read_features(fields),
        "terms": Terms.from_dict(fields["release"]) if "release" in fields else None,
        "keys": _read_keys(fields),
        "windows": Windows.from_dict(fields["windows"]) if "windows" in fields else None,
        "schedule": _read_schedule(fields),
        "text": TextRule.from_dict(fields["text"]) if "text" in fields else None,
        "rows_of_unit": RowsOfUnit.from_dict(fields["rows_of_unit"]) if "rows_of_unit" in fields else None,
    }


def _read_keys(fields: Json) -> Any:
    """Return the published keys of an agreement's JSON; whether there is a key column is checked later."""
    if "keys" not in fields:
        return None
    key = fields["key"]
    return keys_from_dict(fields["keys"], isinstance(key, dict) and key.get("type") == "bytes")


def _read_features(fields: Json) -> AgreedFeatures | None:
    if "features" not in fields:
        return None
    features: AgreedFeatures = SERVICES.need("agreed features", "the agreement has features")(fields["features"])
    return features


def _read_schedule(fields: Json) -> Schedule | None:
    """Return the schedule of an agreement's JSON, which states every field of it."""
    if "schedule" not in fields:
        return None
    schedule = schedule_of(fields["schedule"])
    if schedule.to_dict() != fields["schedule"]:
        raise InvalidInputError(
            f"the schedule of an agreement must be {schedule.to_dict()}, got {short(fields['schedule'])}"
        )
    return schedule


def _object(value: Any, what: str, names: set[str] | None = None) -> dict[str, Any]:
    if not isinstance(value, dict) or (names is not None and value.keys() != names):
        wanted = "a JSON object" if names is None else f"a JSON object of {', '.join(sorted(names))}"
        raise InvalidInputError(f"{what} of an agreement must be {wanted}, got {short(value)}")
    return value


def _read_column(value: Any, what: str) -> Column:
    fields = _object(value, what, {"name", "type"})
    (column,) = columns_of([(fields["name"], fields["type"])], what, "text")
    return column
