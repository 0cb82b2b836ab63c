"""``streamsketch explain``: what releases promise, alone and together."""

import dataclasses
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

import streamsketch as ss
from streamsketch.cli._combining import NOT_DISJOINT
from streamsketch.cli._reading import SIGNS, TABLE, Files, holds_signs, load_release, load_signs_of, load_table
from streamsketch.cli._showing import Json, printable, show_json
from streamsketch.core import filled
from streamsketch.explanation import INDIVIDUAL, Explained, places_that_count, sharing_data

_PARQUET = b"PAR1"
_NAMED_KEYS = 5
_TABLE = (
    "A table counts as one release: the promise of each key covers all of its keys, as long as no unit is in more keys "
    "than the promise says (in one, where it says nothing). A unit in more of them spends ε in each."
)
_SHARED = "{} and {} hold some of the same data, so their populations are not disjoint."
_SHOWN_PAIRS = 5
_ELSEWHERE = {"each", "sharing"}  # of a joint explanation: said by file and key
_DIFFERENT = "Together: these releases hide different changes, {}, so their ε do not add up to one promise."


class Populations(StrEnum):
    """Whether one privacy unit may be in several of the files."""

    OVERLAPPING = "overlapping"
    DISJOINT = "disjoint"


class _Source(NamedTuple):
    """Releases of one file, sketches or signs, by key where it is a table."""

    file: Path
    releases: dict[Any, Any]
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
    if len(sources) > 1 or delta is not None:
        _refuse_individual(sources)
    standing = _counted(sources)
    spending = [release for _, release in standing]
    sharing = _sharing(standing)
    if sharing and populations == Populations.DISJOINT:
        raise ss.InvalidInputError(NOT_DISJOINT.format(*sharing[0]))
    relations = list(dict.fromkeys(release.guarantee.neighbours for release in spending))
    together = None
    if len(relations) == 1 and (len(spending) > 1 or delta is not None):
        together = ss.explain_together(spending, populations=populations.value, delta=delta)
        together = dataclasses.replace(together, sharing=())  # told below, by the files' names
    groups = [(source, *group) for source in sources for group in _alike(source)]
    if as_json:
        told = [{"file": str(source.file), "keys": keys} | one.to_dict() for source, one, keys in groups]
        joint = None if together is None else {k: v for k, v in together.to_dict().items() if k not in _ELSEWHERE}
        show_json({"releases": told, "sharing": sharing, "together": joint})
        return
    typer.echo("\n\n".join(f"{_title(source, keys)}\n\n{one}" for source, one, keys in groups))
    if any(source.is_table for source in sources):
        typer.echo(f"\n{filled(_TABLE)}")
    if together is not None:
        typer.echo(f"\n{together}")
    for one, two in sharing[:_SHOWN_PAIRS]:
        typer.echo(f"\n{filled(_SHARED.format(printable(one), printable(two)))}")
    if len(sharing) > _SHOWN_PAIRS:
        typer.echo(f"\nSo do {len(sharing) - _SHOWN_PAIRS:,} more pairs.")
    if len(relations) > 1:
        typer.echo(f"\n{filled(_DIFFERENT.format(', '.join(map(repr, relations))))}")


def _read(file: Path) -> _Source:
    if file.suffix == SIGNS or holds_signs(file):
        source = _Source(file, load_signs_of(file), file.suffix == TABLE)
    else:
        with file.open("rb") as opened:
            is_table = opened.read(len(_PARQUET)) == _PARQUET
        source = _Source(file, load_table(file) if is_table else {None: load_release(file)}, is_table)
    if not source.releases:
        raise ss.InvalidInputError(f"{file} is a table without a row: it holds no release to explain")
    return source


def _refuse_individual(sources: list[_Source]) -> None:
    for source in sources:
        if any(isinstance(release, ss.signs.IndividualSignSketch) for release in source.releases.values()):
            raise ss.InvalidInputError(f"{source.file}: {INDIVIDUAL}. Explain it by itself, without --delta")


def _counted(sources: list[_Source]) -> list[tuple[_Source, Any]]:
    """Return what the files spend, with the file: a table's one promise once, as it covers all keys; else all releases.

    A table stands as a release of it that no other table has, as one that two have would count once for both. One all
    of whose releases are in others of its promise spends nothing more: it stands as a copy of one of those.
    """
    tables = [source for source in sources if _promises_once(source)]
    for source in list(tables):
        others = [other for other in tables if other is not source]
        if _ids(source) <= frozenset().union(*map(_ids, _with_promise(_promise_of(source), others))):
            tables = others
    found: list[tuple[_Source, Any]] = []
    for source in sources:
        if not _promises_once(source):
            found += [(source, release) for release in source.releases.values()]
            continue
        counted = any(source is table for table in tables)
        table = source if counted else _with_promise(_promise_of(source), tables)[0]
        found.append((table, _stand_in(table, tables)))
    return found


def _sharing(standing: list[tuple[_Source, Any]]) -> list[tuple[str, str]]:
    """Return which files and keys hold some of the same data, of those that count: all keys of a table do."""
    if any(isinstance(release, ss.signs.IndividualSignSketch) for _, release in standing):
        return []  # explained alone: nothing composes with it
    members: list[Any] = []
    names: list[str] = []
    counting = [standing[place] for place in places_that_count([release for _, release in standing])]
    for source, stand_in in counting:
        every = _promises_once(source)
        for key, release in source.releases.items():
            if every or release is stand_in:
                members.append(release)
                names.append(f"{source.file}, key {key}" if source.is_table else str(source.file))
    return [(names[one], names[two]) for one, two in sharing_data([[member] for member in members])]


def _stand_in(source: _Source, tables: list[_Source]) -> Any:
    elsewhere = frozenset().union(*(_ids(other) for other in tables if other is not source))
    releases = list(source.releases.values())
    own = [release for release in releases if not _ids_of(release) <= elsewhere]
    own = own or releases  # forged: released with two promises
    verdicts = [release.explain().check.verdict for release in own]
    worst = next(verdict for verdict in ("too little", "not checked", "enough") if verdict in verdicts)
    return own[verdicts.index(worst)]


def _with_promise(promise: Any, tables: list[_Source]) -> list[_Source]:
    return [table for table in tables if _promise_of(table) == promise]


def _promises_once(source: _Source) -> bool:
    return source.is_table and len({release.guarantee for release in source.releases.values()}) == 1


def _promise_of(source: _Source) -> Any:
    return next(iter(source.releases.values())).guarantee


def _ids(source: _Source) -> frozenset[bytes]:
    return frozenset().union(*map(_ids_of, source.releases.values()))


def _ids_of(release: Any) -> frozenset[bytes]:
    return frozenset(release.release_ids if isinstance(release, ss.PrivateSketch) else [release.release_id])


def _alike(source: _Source) -> list[tuple[Explained, list[str]]]:
    """Return the file's explanations, each with the keys it holds for."""
    groups: dict[Explained, list[str]] = {}
    for key, release in source.releases.items():
        groups.setdefault(release.explain(), []).append(printable(key))
    return [(one, keys if source.is_table else []) for one, keys in groups.items()]


def _title(source: _Source, keys: list[str]) -> str:
    file = printable(source.file)
    if not keys:
        return file
    named = ", ".join(keys[:_NAMED_KEYS]) + (", …" if len(keys) > _NAMED_KEYS else "")
    return f"{file}: {len(keys)} {'keys' if len(keys) > 1 else 'key'} ({named})"
