"""``streamsketch explain``: what releases promise, alone and together."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

import streamsketch as ss
from streamsketch.commands._reading import Files, load_release, load_table
from streamsketch.commands._showing import Json, printable, show_json
from streamsketch.text import filled

_PARQUET = b"PAR1"
_NAMED_KEYS = 5
_DIFFERENT = "Together: these releases hide different changes, {}, so their ε do not add up to one promise."


class Populations(StrEnum):
    """Whether one privacy unit may be in several of the files."""

    OVERLAPPING = "overlapping"
    DISJOINT = "disjoint"


class _Source(NamedTuple):
    """Releases of one file, by key where it is a table."""

    file: Path
    releases: dict[Any, ss.PrivateSketch]
    is_table: bool


def explain(
    files: Files,
    *,
    populations: Annotated[
        Populations, typer.Option(help="Whether one unit may be in several of the files.")
    ] = Populations.OVERLAPPING,
    delta: Annotated[
        float | None, typer.Option(help="The δ at which to account for them together; by default the sum of theirs.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say who is protected and how, how much noise that means, and what is not protected."""
    sources = [_read(file) for file in files]
    spending = [release for source in sources for release in _counted(source)]
    relations = list(dict.fromkeys(release.guarantee.neighbours for release in spending))
    together = None
    if len(relations) == 1 and (len(spending) > 1 or delta is not None):
        together = ss.explain_together(spending, populations=populations.value, delta=delta)
    groups = [(source, *group) for source in sources for group in _alike(source)]
    if as_json:
        told = [{"file": str(source.file), "keys": keys} | one.to_dict() for source, one, keys in groups]
        joint = None if together is None else {k: v for k, v in together.to_dict().items() if k != "each"}
        show_json({"releases": told, "together": joint})
        return
    typer.echo("\n\n".join(f"{_title(source, keys)}\n\n{one}" for source, one, keys in groups))
    if any(source.is_table for source in sources):
        typer.echo(f"\n{filled('A table counts as one release: the promise of each key covers all of its keys.')}")
    if together is not None:
        typer.echo(f"\n{together}")
    elif len(relations) > 1:
        typer.echo(f"\n{filled(_DIFFERENT.format(', '.join(map(repr, relations))))}")


def _read(file: Path) -> _Source:
    with file.open("rb") as opened:
        is_table = opened.read(len(_PARQUET)) == _PARQUET
    return _Source(file, load_table(file) if is_table else {None: load_release(file)}, is_table)


def _counted(source: _Source) -> list[ss.PrivateSketch]:
    """Return what a file spends: a table's one promise once, as it covers all keys; else all of its releases."""
    releases = list(source.releases.values())
    promises = {release.guarantee for release in releases}
    return releases[:1] if source.is_table and len(promises) == 1 else releases


def _alike(source: _Source) -> list[tuple[ss.Explanation, list[str]]]:
    """Return the file's explanations, each with the keys it holds for."""
    groups: dict[ss.Explanation, list[str]] = {}
    for key, release in source.releases.items():
        groups.setdefault(release.explain(), []).append(printable(key))
    return [(one, keys if source.is_table else []) for one, keys in groups.items()]


def _title(source: _Source, keys: list[str]) -> str:
    if not keys:
        return str(source.file)
    named = ", ".join(keys[:_NAMED_KEYS]) + (", …" if len(keys) > _NAMED_KEYS else "")
    return f"{source.file}: {len(keys)} {'keys' if len(keys) > 1 else 'key'} ({named})"
