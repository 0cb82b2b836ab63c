"""The JSON of agreements, which strangers may have written, taken apart."""

from typing import Any

from streamsketch.agreement.columns import Column, columns_of
from streamsketch.core import short
from streamsketch.errors import InvalidInputError
from streamsketch.privacy import Neighbours
from streamsketch.projections import projection_from_fields

VERSION = 1


def arguments_of(fields: dict[str, Any], known: set[str]) -> dict[str, Any]:
    """Return the arguments of an agreement, whose fields are ``known``, from those of its JSON.

    Raises
    ------
    InvalidInputError
        For fields that are missing or unknown, or of another shape; `Agreement` checks the rest.
    """
    names = {"agreement", *known}
    if "kind" in fields and "agreement" not in fields:
        raise InvalidInputError("it is a projection alone; streamsketch.agree makes an agreement of it")
    if fields.keys() != names:
        missing_ones, unknown = sorted(names - fields.keys()), sorted(fields.keys() - names)
        raise InvalidInputError(
            f"an agreement has the fields {sorted(names)}; missing: {missing_ones}, unknown: {short(unknown)}"
        )
    if type(fields["agreement"]) is not int or fields["agreement"] != VERSION:
        raise InvalidInputError(f"this release reads agreements of version {VERSION}, got {short(fields['agreement'])}")
    index = fields["index"]
    if not isinstance(index, list):
        raise InvalidInputError(f"the index of an agreement must be a list of columns, got {short(index)}")
    return {
        "projection": projection_from_fields(_object(fields["projection"], "the projection")),
        "index": [_read_column(one, "an index column") for one in index],
        "key": None if fields["key"] is None else _read_column(fields["key"], "the key column"),
        "value": fields["value"],
        "unit": None if fields["unit"] is None else _read_column(fields["unit"], "the unit column"),
        "neighbours": None if fields["neighbours"] is None else Neighbours.from_dict(fields["neighbours"]),
        "missing": fields["missing"],
        "title": fields["title"],
    }


def _object(given: Any, what: str, names: set[str] | None = None) -> dict[str, Any]:
    if not isinstance(given, dict) or (names is not None and given.keys() != names):
        wanted = "a JSON object" if names is None else f"a JSON object of {', '.join(sorted(names))}"
        raise InvalidInputError(f"{what} of an agreement must be {wanted}, got {short(given)}")
    return given


def _read_column(given: Any, what: str) -> Column:
    fields = _object(given, what, {"name", "type"})
    (column,) = columns_of([(fields["name"], fields["type"])], what, "text")
    return column
