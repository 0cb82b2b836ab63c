"""``streamsketch explain``: what releases guarantee, alone and together."""

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

import streamsketch as ss
from streamsketch.cli._keys import Signers
from streamsketch.cli._reading import Files, load_published
from streamsketch.cli._releasing import NOT_DISJOINT, PopulationsOption
from streamsketch.cli._showing import Json, show_json
from streamsketch.core.text import filled
from streamsketch.errors import printable
from streamsketch.explanation.base import BaseExplanation
from streamsketch.explanation.joint import INDIVIDUAL, explain_jointly, heading_of, one_release
from streamsketch.privacy.guarantee import Populations
from streamsketch.privacy.redundancy import sharing_data
from streamsketch.release.published import Published
from streamsketch.release.published_table import PublishedTable

_SHARED = "{} and {} share data, so their populations are not disjoint."
_SHOWN_PAIRS = 5
_ELSEWHERE = {"each", "sharing"}  # of a joint explanation: said by file
_DIFFERENT = "Together: these releases have different neighbour relations, {}, so their ε do not add up."


def explain(
    files: Files,
    *,
    populations: PopulationsOption = None,
    delta: Annotated[
        float | None, typer.Option(help="δ at which to account for the files together. By default, the sum of theirs.")
    ] = None,
    signer: Signers = None,
    registry: Annotated[
        bool, typer.Option("--registry", help="Print an entry for the public registry of deployments, as JSON.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show who is protected and how, the noise that this needs, and what is not protected.

    For several files, the output also has the guarantee of all files together.

    With --registry, the files are one entry of the Differential Privacy Deployments Registry, in its fields. Fields
    that no release can fill are null, and listed under to_fill.

    $ streamsketch explain north.parquet
    """
    published = [load_published(file, signer=signer) for file in files]
    if len(published) > 1 or delta is not None:
        _refuse_individual(files, published)
    sharing = _find_sharing(files, published, populations)
    relations = list(dict.fromkeys(release.guarantee.neighbours for release in published))
    together = None
    if len(relations) == 1 and (len(published) > 1 or delta is not None):
        together = explain_jointly(published, populations=populations or "overlapping", delta=delta)
        together = dataclasses.replace(together, sharing=())  # named below, by the files' names
    if registry:
        _show_entry(together or published[0].explain(), relations)
        return
    groups = [(file, *group) for file, release in zip(files, published, strict=True) for group in _alike(release)]
    if as_json:
        fields = [{"file": str(file), "keys": list(map(printable, keys))} | one.to_dict() for file, one, keys in groups]
        joint = None if together is None else {k: v for k, v in together.to_dict().items() if k not in _ELSEWHERE}
        show_json({"releases": fields, "sharing": sharing, "together": joint})
        return
    typer.echo("\n\n".join(f"{_title(file, keys)}\n\n{one}" for file, one, keys in groups))
    tables = [release for release in published if isinstance(release, PublishedTable)]
    for sentence in dict.fromkeys(one_release(table.guarantee.neighbours) for table in tables):
        typer.echo(f"\n{filled(sentence)}")
    if together is not None:
        typer.echo(f"\n{together}")
    for one, two in sharing[:_SHOWN_PAIRS]:
        typer.echo(f"\n{filled(_SHARED.format(printable(one), printable(two)))}")
    if len(sharing) > _SHOWN_PAIRS:
        typer.echo(f"\nSo do {len(sharing) - _SHOWN_PAIRS:,} more pairs.")
    if len(relations) > 1:
        typer.echo(f"\n{filled(_DIFFERENT.format(', '.join(map(repr, relations))))}")


def _find_sharing(
    files: list[Path], published: list[Published], populations: Populations | None
) -> list[tuple[str, str]]:
    """Return which files share data; refuse populations that are stated to be disjoint but are not."""
    sharing = [(str(files[i]), str(files[j])) for i, j in sharing_data(published)] if len(published) > 1 else []
    if sharing and populations == "disjoint":
        raise ss.InvalidInputError(NOT_DISJOINT.format(*sharing[0]))
    return sharing


def _show_entry(explanation: Any, relations: list[Any]) -> None:
    if len(relations) > 1:
        raise ss.InvalidInputError(
            f"one entry is for one neighbour relation, and these releases have {', '.join(map(repr, relations))}: make "
            f"an entry of each"
        )
    show_json(explanation.to_registry())


def _refuse_individual(files: list[Path], published: list[Published]) -> None:
    for file, release in zip(files, published, strict=True):
        if isinstance(release, ss.signs.IndividualSignSketch):
            raise ss.InvalidInputError(f"{file}: {INDIVIDUAL}. Explain it by itself, without --delta")


def _alike(release: Published) -> list[tuple[BaseExplanation, tuple[Any, ...]]]:
    """Return the explanations of a file's content, each with its keys, if any."""
    explanation = release.explain()
    return list(explanation.groups) if isinstance(release, PublishedTable) else [(explanation, ())]


def _title(file: Path, keys: tuple[Any, ...]) -> str:
    return f"{printable(file)}: {heading_of(keys)}" if keys else printable(file)
