"""A projection from its kind and fields. Most are of the family imported here; the others load when one is read."""

import dataclasses
from importlib import import_module

from streamsketch.core.documents import Json
from streamsketch.core.numbers import short
from streamsketch.errors import InvalidInputError
from streamsketch.projections import sjlt
from streamsketch.projections.base import KINDS, Projection

__all__ = ["projection_from_fields", "sjlt"]


def projection_from_fields(fields: Json) -> Projection:
    """Build a projection from its kind and fields; raise `InvalidInputError` naming what is wrong."""
    arguments = dict(fields)
    kind = arguments.pop("kind", None)
    if kind == "identity":
        import_module("streamsketch.projections.identity")  # alone: the other families take long to load
    elif not isinstance(kind, str) or kind not in KINDS:
        import_module("streamsketch.projections.families")  # registers all kinds
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidInputError(f"unknown projection kind {short(kind)}; this version knows {', '.join(sorted(KINDS))}")
    cls, fixed = KINDS[kind]
    names = {field.name for field in dataclasses.fields(cls) if field.init} - fixed.keys()
    if arguments.keys() != names:
        missing, unknown = sorted(names - arguments.keys()), sorted(arguments.keys() - names)
        raise InvalidInputError(
            f"a projection of kind {kind!r} has the fields {sorted(names)}; "
            f"missing: {missing}, unknown: {short(unknown)}"
        )
    return cls(**arguments, **fixed)
