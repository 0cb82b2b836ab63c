"""Options of several commands: those that make an agreement, and bounds on what one unit adds."""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import streamsketch as ss
from streamsketch.agreement.columns import TYPES, is_type
from streamsketch.cli._options import option
from streamsketch.core.numbers import exact_fraction
from streamsketch.core.text import names_given
from streamsketch.privacy.neighbours import NEIGHBOURS, Neighbours

Index = Annotated[
    list[str] | None,
    option(
        "Input",
        "COLUMN",
        "Column that identifies an item or event, with its type: item:text or week:integer. Repeat it for several "
        "columns, in order.",
    ),
]
Key = Annotated[
    str | None, option("Input", "COLUMN", "Column of keys, with its type. Each key gets a sketch of its own.")
]
Value = Annotated[str | None, option("Input", "COLUMN", "Column of numbers to add up. By default, each row counts 1.")]
UnitColumn = Annotated[str | None, option("Input", "COLUMN", "Column that identifies the privacy unit, with its type.")]
L1 = Annotated[
    str | None, option("Privacy", "BOUND", "One unit adds at most this much in total, in the values' units.")
]
SketchL2 = Annotated[
    str | None,
    option(
        "Privacy",
        "BOUND",
        "Instead of --l1: one unit changes the exact sketches of all keys by at most this L2 norm, whatever its "
        "rows hold.",
    ),
]
AssertBounds = Annotated[
    bool,
    option(
        "Privacy",
        "",
        "Assert that units keep to the bound, whatever was enforced on the data. The guarantee then states that "
        "the bound is asserted.",
        "--assert-bounds",
    ),
]
Missing = Annotated[
    str | None,
    option(
        "Input",
        "refuse|drop|keep",
        "How to treat rows with a null or blank value: refuse them (the default), drop them, or keep blank text as a "
        "value.",
    ),
]


def typed(text: str, columns: Sequence[str] = ()) -> str | tuple[str, str]:
    """Return the column that NAME:TYPE or a name alone describes; a name with colons must be one of ``columns``."""
    name, _, kind = text.rpartition(":")
    if name and is_type(kind):
        return name, kind
    if name and text not in columns:
        raise ss.InvalidInputError(
            f"{text} does not end in a type of an agreement: write NAME:TYPE, with one of {', '.join(TYPES)}. A "
            f"column whose own name has a colon is named with its type, as '{text}:text'"
        )
    return text


def column_name(text: str) -> str:
    """Return the name of the column that NAME:TYPE describes."""
    name, _, kind = text.rpartition(":")
    return name if name and is_type(kind) else text


def columns_from(
    index: list[str], key: str | None, unit: str | None, value: str | None, columns: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the columns of an agreement from options; ``columns`` are those of a sample."""
    if value is not None and ":" in value and value not in columns:
        raise ss.InvalidInputError(
            f"--value is the name of a column, without a type, as values are numbers: --value "
            f"{value.rpartition(':')[0] or 'NAME'}, got {value}. For a column whose own name has a colon, `agree` "
            f"needs a SAMPLE that has it"
        )
    return {
        "index": [typed(text, columns) for text in names_given(index, "--index")],
        "key": None if key is None else typed(key, columns),
        "unit": None if unit is None else typed(unit, columns),
        "value": value,
    }


def neighbours_of(bounds: Mapping[str, str | None], unit: str, max_keys: int | None) -> Neighbours | None:
    """Return the neighbour relation of an option; None if there is no such option.

    Parameters
    ----------
    bounds
        The bounds that were given, by the name of the option: ``l1``, ``l2``, ``sketch_l2`` or ``one_coordinate``.
    unit
        The name of a unit, in one word.
    max_keys
        The number of keys that a unit may be in; None for the default of the relation.
    """
    kinds = {name: name.replace("_", "-") for name, bound in bounds.items() if bound is not None}
    stated = [(f"--{kind}", NEIGHBOURS[kind], bounds[name]) for name, kind in kinds.items()]
    if len(stated) > 1:
        names = " and ".join(name for name, _, _ in stated)
        raise ss.InvalidInputError(f"{names} each state how much one unit can change; give one of them")
    if not stated:
        return None
    name, relation, bound = stated[0]
    try:
        exact = exact_fraction(bound or "", name)
    except ss.InvalidInputError as error:
        raise ss.InvalidInputError(f"{error}; it is the bound on what one {unit} adds") from None
    return relation(exact, unit) if max_keys is None else relation(exact, unit, max_keys)


def published_keys(
    listed: list[str],
    share: str | None,
    *,
    keys_are_public: bool,
    options: str = "--public-key, --keys-are-public and --set select-keys=EPSILON,DELTA",
) -> Any:
    """Return which keys are published: names, "public" or a private choice; None if nothing says so.

    Parameters
    ----------
    listed
        Names.
    share
        EPSILON,DELTA of a private choice.
    keys_are_public
        Whether all keys of the data are published.
    options
        What states these, in words.
    """
    if bool(listed) + (share is not None) + keys_are_public > 1:
        raise ss.InvalidInputError(f"give one of {options}")
    if share is not None:
        epsilon, _, delta = share.partition(",")
        return ss.Selected(epsilon=epsilon.strip(), delta=delta.strip())
    return "public" if keys_are_public else listed or None


def projection_from(path: Path | None, **options: int | str | None) -> ss.projections.Projection:
    """Return the projection in a file, which excludes other options; without a file, a new SJLT by the options."""
    if path is None:
        from streamsketch.agreement.infer import usual_map  # noqa: PLC0415 - plans without an agreement load none

        return usual_map().replace(**{name: value for name, value in options.items() if value is not None})
    if named := ", ".join(name.replace("_", "-") for name, value in options.items() if value is not None):
        raise ss.InvalidInputError(f"{path} states the whole projection; leave out --set {named}")
    return load_projection(path)


def load_projection(path: Path) -> ss.projections.Projection:
    """Return the projection in a file; errors name the file, and what to do with that of an agreement."""
    try:
        return ss.projections.Projection.from_json(path.read_bytes())
    except ss.InvalidInputError as error:
        reason: object = error
        with contextlib.suppress(ss.InvalidInputError):
            ss.Agreement.load(path)
            reason = "it is an agreement: give --agreement"
        raise ss.InvalidInputError(f"{path} is not a projection: {reason}") from None
