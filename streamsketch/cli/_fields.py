"""Fields of an agreement that ``agree --set NAME=VALUE`` states: what few agreements need."""

import dataclasses
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import streamsketch as ss
from streamsketch.agreement.text import TextRule
from streamsketch.core.numbers import number_hint, short

AreWindows: TypeAlias = Literal["keys", "releases"]


@dataclasses.dataclass
class Further:
    """Fields of an agreement, each None where it is not stated."""

    title: str = ""
    clip: str | None = None
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


class _Field(NamedTuple):
    takes: str
    text: str
    read: Callable[[str], Any] = str
    attribute: str = ""


def _yes_or_no(text: str) -> bool:
    return {"yes": True, "no": False}[text]


def _text(text: str) -> TextRule | None:
    return None if text == "as-is" else TextRule.parse(text)


def _windows(text: str) -> AreWindows:
    kinds: dict[str, AreWindows] = {"keys": "keys", "releases": "releases"}
    return kinds[text]


FIELDS = {
    "title": _Field("TEXT", "its subject"),
    "clip": _Field("scale|cut|equal|average", "what to do with a unit beyond the bound"),
    "count": _Field("yes|no", "whether to publish the number of units, for 3 % more noise", _yes_or_no),
    "l2": _Field("BOUND", "in place of --l1: the Euclidean norm of one unit's vector; not for hashed indices"),
    "one-coordinate": _Field("BOUND", "in place of --l1: one unit changes one index, by at most this much"),
    "mechanism": _Field("NOISE", "laplace, gaussian, …, or a mechanism of signs, such as DP-SignOPORP-RR"),
    "select-keys": _Field("EPSILON,DELTA", "choose the published keys privately, at this share of ε and δ"),
    "last": _Field("TIME", "start of the last window"),
    "zone": _Field("ZONE", "time zone of a day, week or month"),
    "time-format": _Field("FORMAT", "of times in text, as for strptime"),
    "windows": _Field("keys|releases", "whether all windows are keys of one release", _windows, "windows_are"),
    "schedule": _Field("FILE", "of sums of windows, from `plan windows`", Path),
    "text": _Field(
        "STEPS", "spelling of names: NFC|NFKC,trim|collapse,fold,drop, or as-is; by default NFC,collapse", _text
    ),
    "projection": _Field("FILE", "in place of a new SJLT", Path),
    "sketch-dim": _Field("NUMBER", "cells of a sketch, k, by default 1024", int),
    "sparsity": _Field("NUMBER", "nonzeros in a column, s, by default 4", int),
    "resolution": _Field("STEP", "grid of the values, such as 1/100"),
    "seed": _Field("NUMBER", "public, by default drawn now", int),
    "items": _Field("NUMBERS", "with --units: different items of one unit in a key, by default 10"),
    "catalogue": _Field("NUMBER", "with --units: how many different items can occur", float),
}
"""What each name takes, in the order of the help."""

FIELDS_HELP = f"{'; '.join(f'{name}={field.takes}: {field.text}' for name, field in FIELDS.items())}."


def further_fields(stated: Iterable[str]) -> Further:
    """Return the fields in texts NAME=VALUE.

    Raises
    ------
    InvalidInputError
        For a text of another form, an unknown name, a name that is stated twice, or a value that it does not take.
    """
    found, names = Further(), set()
    for text in stated:
        name, is_stated, value = text.partition("=")
        field = FIELDS.get(name)
        if field is None or not is_stated or not value:
            raise ss.InvalidInputError(
                f"--set takes NAME=VALUE, with one of the names {', '.join(FIELDS)}, got {short(text)}"
            )
        if name in names:
            raise ss.InvalidInputError(f"--set {name} is stated twice: leave one out")
        names.add(name)
        try:
            setattr(found, field.attribute or name.replace("-", "_"), field.read(value))
        except (ValueError, KeyError):
            raise ss.InvalidInputError(
                f"--set {name} takes {field.takes}, got {short(value)}{number_hint(value)}"
            ) from None
    return found
