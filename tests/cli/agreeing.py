"""Calls of tests that state columns, bounds and terms in place: they are made by an agreement of these."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import streamsketch as ss
from streamsketch.cli._agreeing import neighbours_of, projection_from
from streamsketch.core.text import names_given
from streamsketch.storage.first_bytes import is_raw
from streamsketch.storage.raw_files import read_header

_PROJECTION = ("sketch-dim", "sparsity", "seed", "dim", "resolution")
_BOUNDS = ("l1", "sketch-l2")
_WINDOWS = ("window", "zone", "time", "time-format", "clip")
_STATED = ("index", "key", "value", "projection", "unit-column", "unit", "max-keys", *_BOUNDS, *_PROJECTION, *_WINDOWS)
_CHOICE = ("norm", "release-epsilon", "release-delta")
_TERMS = ("epsilon", "delta", "unit", "l1", "sketch-l2", "max-keys", "public-key")
_SET = {"l2": "l2", "one-coordinate": "one-coordinate", "mechanism": "mechanism"}
FILE, TERMS = "stated.json", "stated-terms.json"


def by_agreement(arguments: Sequence[object], folder: Path) -> list[str]:
    """Return a call of `sketch` or `choose-bound` by the agreement of what the given one states: columns, bounds.

    The agreement is a new file in the folder, which also has the windows that a call states beside its own agreement.
    Other calls stay as they are.
    """
    words = list(map(str, arguments))
    if not words or words[0] not in ("sketch", "choose-bound"):
        return words
    if "--index" not in words and not {f"--{name}" for name in _WINDOWS} & set(words):
        return words
    names = (*_STATED, *_CHOICE) if words[0] == "choose-bound" else _STATED
    stated, others = _split(words, names)
    if "--agreement" in others:
        at = others.index("--agreement")
        agreed = _with_windows(ss.Agreement.load(folder / others[at + 1]), stated)
        del others[at : at + 2]
    else:
        agreed = _with_windows(_agreement(stated, others, folder), stated)
    agreed.save(_new(folder))
    return [*others, "--agreement", str(_new(folder))]


def agreeing(arguments: Sequence[object], folder: Path) -> tuple[list[str], list[str]] | None:
    """Return two calls in place of a release of a raw file that states what it spends: `agree RAW`, and `release`.

    None for other calls.
    """
    words = list(map(str, arguments))
    files = [folder / word for word in words[1:2]]
    if not words or words[0] != "release" or "--agreement" in words or "--epsilon" not in words:
        return None
    if not files[0].is_file() or not is_raw(files[0]):
        return None
    stated, others = _split(words, (*_TERMS, *_SET))
    header, made = read_header(files[0]), TERMS
    call = ["agree", words[1]]
    if header.agreement is None:
        call += ["--index", "item:text" if header.projection.dim == 1 << 60 else "item:integer"]
        call += [] if header.keys is None else ["--key", "shop:text"]
    for name, values in stated.items():
        for value in values:
            call += ["--set", f"{_SET[name]}={value}"] if name in _SET else [f"--{name}", value]
    while "--keys-are-public" in others:
        others.remove("--keys-are-public")
        call.append("--keys-are-public")
    (folder / made).unlink(missing_ok=True)
    return [*call, "-o", made], [*others, "--agreement", made]


def _split(words: list[str], names: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    stated: dict[str, list[str]] = {}
    others: list[str] = []
    words = [part for word in words for part in _parts(word, names)]
    while words:
        word = words.pop(0)
        if word.startswith("--") and word.removeprefix("--") in names:
            stated.setdefault(word.removeprefix("--"), []).append(words.pop(0))
        else:
            others.append(word)
    return stated, others


def _parts(word: str, names: Sequence[str]) -> list[str]:
    joined = re.fullmatch("--([a-z0-9-]+)=(.*)", word)
    return [f"--{joined[1]}", joined[2]] if joined is not None and joined[1] in names else [word]


def _with_windows(agreed: ss.Agreement, stated: dict[str, list[str]]) -> ss.Agreement:
    one = {name: stated[name][-1] for name in _WINDOWS if name in stated}
    changes: dict[str, Any] = {"clip": one["clip"]} if "clip" in one else {}
    if "window" in one:
        fields = {"every": one["window"], "zone": one.get("zone"), "format": one.get("time-format")}
        changes["windows"] = ss.Windows(time=one["time"], **fields, are="keys")
    return agreed.replace(**changes)


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
