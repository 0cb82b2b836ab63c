"""Every kind of map. Importing this imports all families, each of which registers its own kinds."""

import dataclasses
from typing import Any

from streamsketch.core.numbers import short
from streamsketch.errors import InvalidInputError
from streamsketch.projections import fjlt, identity, independent, oporp, rotation, sjlt, srht
from streamsketch.projections.base import KINDS, Projection

__all__ = ["KINDS", "fjlt", "identity", "independent", "oporp", "projection_from_fields", "rotation", "sjlt", "srht"]


def projection_from_fields(fields: dict[str, Any]) -> Projection:
    """Build a projection from its kind and fields; raise `InvalidInputError` naming what is wrong."""
    given = dict(fields)
    kind = given.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidInputError(f"unknown projection kind {short(kind)}; this version knows {', '.join(KINDS)}")
    cls, fixed = KINDS[kind]
    names = {field.name for field in dataclasses.fields(cls) if field.init} - fixed.keys()
    if given.keys() != names:
        missing, unknown = sorted(names - given.keys()), sorted(given.keys() - names)
        raise InvalidInputError(
            f"a projection of kind {kind!r} has the fields {sorted(names)}; "
            f"missing: {missing}, unknown: {short(unknown)}"
        )
    return cls(**given, **fixed)
