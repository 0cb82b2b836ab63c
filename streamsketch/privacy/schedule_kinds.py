"""How a schedule is read from JSON, whatever its kind."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from streamsketch.core.limits import read_json
from streamsketch.core.numbers import short
from streamsketch.core.wrong import check_json_text
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.schedule import SCHEDULES, Schedule


def schedule_of(fields: Any) -> Schedule:
    """Return the schedule that `Schedule.to_dict` wrote. Fields with a default may be left out.

    Raises
    ------
    InvalidInputError
        For anything else.
    MissingProductError
        If its kind is not installed.

    Examples
    --------
    >>> schedule_of({"kind": "tree", "horizon": 365}).depth
    5
    """
    name = fields.get("kind") if isinstance(fields, Mapping) else None
    kind = SCHEDULES.get(name, f"this is a schedule of the kind {short(name)}") if isinstance(name, str) else None
    if kind is None:
        raise InvalidInputError(
            f"a schedule must be an object with a kind out of {', '.join(SCHEDULES)}, got {short(fields)}"
        )
    arguments = {name: value for name, value in fields.items() if name != "kind"}
    if unknown := arguments.keys() - {field.name for field in dataclasses.fields(kind)}:
        raise InvalidInputError(f"a {kind.kind} has no {', '.join(sorted(map(short, unknown)))}")
    if "horizon" not in arguments:
        raise InvalidInputError(
            "a schedule needs a horizon, which is the number of windows that its noise is for; set horizon"
        )
    return kind(**arguments)


def schedule_from_json(text: str) -> Schedule:
    """Return the schedule that `Schedule.to_json` wrote; raise `InvalidInputError` for anything else.

    Examples
    --------
    >>> from streamsketch.continual import Tree
    >>> schedule_from_json(Tree(horizon=365).to_json()) == Tree(horizon=365)
    True
    """
    check_json_text(text, "a schedule")
    try:
        fields = read_json(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"the schedule is not JSON ({type(error).__name__})") from None
    return schedule_of(fields)
