"""Calls of tests that state columns and bounds in place: they are made by an agreement of these."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import streamsketch as ss
from streamsketch.cli._agreeing import neighbours_of, projection_from
from streamsketch.core.text import names_given

_PROJECTION = ("sketch-dim", "sparsity", "seed", "dim", "resolution")
_BOUNDS = ("l1", "sketch-l2")
_STATED = ("index", "key", "value", "projection", "unit-column", "unit", "max-keys", *_BOUNDS, *_PROJECTION)
_CHOICE = ("norm", "release-epsilon", "release-delta")
FILE = "stated.json"


def by_agreement(arguments: Sequence[object], folder: Path) -> list[str]:
    """Return a call of `sketch` or `choose-bound` by the agreement of what the given one states: columns, bounds.

    The agreement is a new file in the folder. Other calls, and those that name an agreement, stay as they are.
    """
    words = list(map(str, arguments))
    if not words or words[0] not in ("sketch", "choose-bound") or "--agreement" in words or "--index" not in words:
        return words
    names = (*_STATED, *_CHOICE) if words[0] == "choose-bound" else _STATED
    stated: dict[str, list[str]] = {}
    others: list[str] = []
    while words:
        word = words.pop(0)
        if word.removeprefix("--") in names and word.startswith("--"):
            stated.setdefault(word.removeprefix("--"), []).append(words.pop(0))
        else:
            others.append(word)
    _agreement(stated, others, folder).save(_new(folder))
    return [*others, "--agreement", str(_new(folder))]


def _new(folder: Path) -> Path:
    return folder / FILE


def _agreement(stated: dict[str, list[str]], others: list[str], folder: Path) -> ss.Agreement:
    one = {name: values[-1] for name, values in stated.items()}
    unit, path = one.get("unit-column"), one.get("projection")
    sizes: dict[str, Any] = {
        name.replace("-", "_"): value if name == "resolution" else int(value)
        for name, value in one.items()
        if name in _PROJECTION
    }
    neighbours = None
    if unit is not None:
        bounds = {name.replace("-", "_"): one.get(name) for name in _BOUNDS}
        neighbours = neighbours_of(bounds, one.get("unit", unit), int(one["max-keys"]) if "max-keys" in one else None)
    columns: dict[str, Any] = {"key": one.get("key"), "value": one.get("value"), "unit": unit}
    if "--candidates" in others:
        bound = ss.SketchL2 if one.get("norm") == "l2" else ss.L1
        neighbours = bound(100_000, one.get("unit", unit or ""), int(one.get("max-keys", 1)))
    projection = projection_from(None if path is None else folder / path, **sizes)
    index = names_given(stated["index"], "--index")
    agreed = ss.Agreement.of(projection, index=index, **columns, neighbours=neighbours)
    if "release-epsilon" not in one:
        return agreed
    delta = "1e-6" if one.get("norm") == "l2" else "0"
    return agreed.replace(
        terms=ss.Terms(epsilon=one["release-epsilon"], delta=delta), keys="public" if "key" in one else None
    )
