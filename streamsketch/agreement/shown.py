"""An agreement for people: in one line, and as a table of a notebook."""

from collections.abc import Mapping
from typing import Any

from streamsketch.agreement.columns import Column
from streamsketch.agreement.terms import keys_text
from streamsketch.core.notebooks import facts

_FIELDS = (  # a field, its name in a table, and what stands before it in a line
    ("key", "key", "key "),
    ("unit", "unit", "unit "),
    ("neighbours", "bound", "for "),
    ("clip", "clip", "clip "),
    ("rows_of_unit", "rows of a unit", "rows of a unit: "),
    ("counting", "counts", "with "),
    ("terms", "release", "released with "),
    ("keys", "keys", ""),
    ("windows", "windows", "windows of "),
    ("schedule", "schedule", ""),
    ("text", "text", "text in "),
)


def line_of(fields: Mapping[str, Any], fingerprint: str) -> str:
    """Return an agreement with these fields in one line."""
    if fields["features"] is None:
        parts = [f"index {value_text(fields['index'])}", f"value {fields['value'] or '1 a row'}"]
    else:
        parts = [f"{fields['features'].dim} features of {' '.join(fields['features'].columns)}"]
    parts += [f"{start}{value}" for _, start, value in _stated(fields)]
    title = fields["title"] or "Agreement"
    return f"{title}: {', '.join(parts)}, missing {fields['missing']}; {fingerprint}"


def table_of(fields: Mapping[str, Any], fingerprint: str) -> str:
    """Return an agreement with these fields as HTML, with a row for each field that it states."""
    rows: list[tuple[str, Any]] = [("projection", repr(fields["projection"]))]
    if fields["features"] is None:
        rows += [("index", list(map(str, fields["index"]))), ("value", fields["value"] or "1 a row")]
    else:
        rows += [("features", list(fields["features"].columns))]
    rows += [(name, value) for name, _, value in _stated(fields)]
    rows += [("missing values", fields["missing"]), ("fingerprint", fingerprint)]
    return facts(fields["title"] or "Agreement", rows)


def _stated(fields: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    """Return the fields that an agreement states: names in a table, what stands before them in a line, and values."""
    values = [(title, start, fields[name]) for name, title, start in _FIELDS]
    return [
        (title, start, keys_text(value) if title == "keys" else value)
        for title, start, value in values
        if value is not None
    ]


def value_text(value: Any) -> str:
    """Return the value of a field, as messages show it."""
    if isinstance(value, Column):
        return str(value)
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return "none" if value is None else repr(value) if isinstance(value, str) else str(value)
