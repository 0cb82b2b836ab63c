"""Columns and rows as events of units, as `bound_units` and Beam read them."""

from collections.abc import Sequence
from typing import Any

from streamsketch import InvalidInputError
from streamsketch.intake.units import column_events
from streamsketch.projections import Projection
from streamsketch.sketching.bounding.contributions import Contributions, concatenated
from streamsketch.sketching.bounding.digests import UnitDigests

SECRET = bytes(32)


def read_columns(
    projection: Projection,
    units: Any,
    keys: Any,
    index: Sequence[Any],
    values: Any,
    window: int = 0,
    secret: bytes = SECRET,
) -> Contributions:
    parts = column_events(projection, units, keys, index, values)
    return concatenated([Contributions.of(part, UnitDigests(secret), window) for part in parts])


def read_rows(projection: Projection, rows: Sequence[Any], secret: bytes = SECRET) -> Contributions:
    """Return the events of rows (unit, key, index, value) whose fields have one type each."""
    units, keys, indices, values = map(list, zip(*rows, strict=True))
    try:
        return read_columns(projection, units, keys, [indices], values, secret=secret)
    except InvalidInputError:
        return concatenated([])
