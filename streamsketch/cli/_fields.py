"""What ``--set NAME=VALUE`` states: fields that few calls of a command need, and those of an agreement."""

import dataclasses
import difflib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import streamsketch as ss
from streamsketch.agreement.text import TextRule
from streamsketch.cli._options import option
from streamsketch.core.numbers import number_hint, short
from streamsketch.core.text import names_given

AreWindows: TypeAlias = Literal["keys", "releases"]


@dataclasses.dataclass
class Further:
    """Fields of an agreement, each None where it is not stated."""

    title: str = ""
    clip: str | None = None
    rows_of_unit: str | None = None
    count: bool | None = None
    l2: str | None = None
    one_coordinate: str | None = None
    mechanism: str | None = None
    select_keys: str | None = None
    time_format: str | None = None
    zone: str | None = None
    last: str | None = None
    windows_are: AreWindows | None = None
    schedule: Path | None = None
    text: TextRule | Literal["new"] | None = "new"
    projection: Path | None = None
    sketch_dim: int | None = None
    sparsity: int | None = None
    resolution: str | None = None
    seed: int | None = None
    items: str | None = None
    catalogue: float | None = None


class Field(NamedTuple):
    """A field that ``--set NAME=VALUE`` states.

    Parameters
    ----------
    takes, text
        The placeholder of its value, and what the help says of it.
    read
        Returns its value, or raises ValueError or KeyError.
    attribute
        Where the value is kept, by default under the name with underscores.
    """

    takes: str
    text: str
    read: Callable[[str], Any] = str
    attribute: str = ""


def set_option(panel: str, fields: Mapping[str, Field]) -> Any:
    """Return the declaration of ``--set`` for some fields, which its help lists."""
    descriptions = "; ".join(f"{name}={field.takes}: {field.text}" for name, field in fields.items())
    return option(panel, "NAME=VALUE", f"{descriptions}. Repeat it for several fields.", "--set")


Held = TypeVar("Held")


def set_fields(held: Held, fields: Mapping[str, Field], stated: Iterable[str] | None) -> Held:
    """Set the attributes of an object that texts NAME=VALUE state, and return it.

    Raises
    ------
    InvalidInputError
        For a text of another form, an unknown name, a name that is stated twice, or a value that it does not take.
    """
    names = set()
    for text in stated or ():
        name, is_stated, value = text.partition("=")
        name = name.replace("_", "-")
        field = fields.get(name)
        if field is None or not is_stated or not value:
            close = difflib.get_close_matches(name, fields, n=1)
            raise ss.InvalidInputError(
                f"--set takes NAME=VALUE, with one of the names {', '.join(fields)}, got {short(text)}"
                + (f". Did you mean {close[0]}?" if close and field is None else "")
            )
        if name in names:
            raise ss.InvalidInputError(f"--set {name} is stated twice: leave one out")
        names.add(name)
        try:
            setattr(held, field.attribute or name.replace("-", "_"), field.read(value))
        except ss.InvalidInputError:
            raise  # which says more
        except (ValueError, KeyError):
            raise ss.InvalidInputError(
                f"--set {name} takes {field.takes}, got {short(value)}{number_hint(value)}"
            ) from None
    return held


def names_in(text: str) -> list[str]:
    """Return names that are separated by commas."""
    return names_given([text], "--set")


INDEX = Field(
    "COLUMN", "column of the dictionary that holds the items, where no agreement says it; several: A,B", names_in
)


def yes_or_no(text: str) -> bool:
    """Return what "yes" or "no" means; `KeyError` for others."""
    return {"yes": True, "no": False}[text]


def _text(text: str) -> TextRule | None:
    return None if text == "as-is" else TextRule.parse(text)


def _windows(text: str) -> AreWindows:
    kinds: dict[str, AreWindows] = {"keys": "keys", "releases": "releases"}
    return kinds[text]


FIELDS = {
    "title": Field("TEXT", "its subject"),
    "clip": Field("scale|cut|equal|average", "what to do with a unit beyond the bound"),
    "rows-of-unit": Field(
        "CHOICE", "with --features, of a unit's rows: mean (the default), 'latest by TIME', 'first by TIME' or all"
    ),
    "count": Field("yes|no", "whether to publish the number of units, for 3 % more noise", yes_or_no),
    "l2": Field("BOUND", "in place of --l1: the Euclidean norm of one unit's vector; not for hashed indices"),
    "one-coordinate": Field("BOUND", "in place of --l1: one unit changes one index, by at most this much"),
    "mechanism": Field("NOISE", "laplace, gaussian, …, or a mechanism of signs, such as DP-SignOPORP-RR"),
    "select-keys": Field("EPSILON,DELTA", "choose the published keys privately, at this share of ε and δ"),
    "last": Field("TIME", "start of the last window"),
    "zone": Field("ZONE", "time zone of a day, week or month"),
    "time-format": Field("FORMAT", "of times in text, as for strptime"),
    "windows": Field("keys|releases", "whether all windows are keys of one release", _windows, "windows_are"),
    "schedule": Field("FILE", "which sums of windows are published; `plan windows` chooses it", Path),
    "text": Field(
        "STEPS", "spelling of names: NFC|NFKC,trim|collapse,fold,drop, or as-is; by default NFC,collapse", _text
    ),
    "projection": Field("FILE", "in place of one that is planned", Path),
    "sketch-dim": Field("NUMBER", "cells of a sketch, k, in place of the planned number", int),
    "sparsity": Field("NUMBER", "nonzeros in a column, s", int),
    "resolution": Field("STEP", "grid of the values, such as 1/100"),
    "seed": Field("NUMBER", "public, by default drawn now", int),
    "items": Field("NUMBERS", "for the plan: different items of one unit in a key, by default 10"),
    "catalogue": Field("NUMBER", "for the plan: how many different items can occur", float),
}
"""What each name takes, in the order of the help."""
