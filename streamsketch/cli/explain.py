"""``streamsketch explain``: what releases guarantee, alone and together."""

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

import streamsketch as ss
from streamsketch.cli._contents import contents_of, raw_contents, show_system
from streamsketch.cli._keys import Signers
from streamsketch.cli._options import option
from streamsketch.cli._reading import load_published
from streamsketch.cli._releasing import NOT_DISJOINT, PopulationsOption
from streamsketch.cli._showing import AsJson, show_json
from streamsketch.core.text import filled
from streamsketch.errors import printable
from streamsketch.explanation.alone import INDIVIDUAL, heading_of, one_release
from streamsketch.explanation.base import BaseExplanation
from streamsketch.privacy.guarantee import Populations
from streamsketch.release.published import Published
from streamsketch.release.published_table import PublishedTable
from streamsketch.release.redundancy import sharing_data
from streamsketch.storage.first_bytes import SUFFIX, is_raw

_SHARED = "{} and {} share data, so their populations are not disjoint."
_SHOWN_PAIRS = 5
_ELSEWHERE = {"each", "sharing"}  # of a joint explanation: said by file
_DIFFERENT = "Together: these releases have different neighbour relations, {}, so their ε do not add up."


def explain(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Files .sketch or .signs, .parquet tables, agreements (.json), or one .raw-sketch.", metavar="FILE"
        ),
    ] = None,
    *,
    populations: PopulationsOption = None,
    delta: Annotated[
        float | None,
        option("Privacy", "DELTA", "δ at which to account for the files together. By default, the sum of theirs."),
    ] = None,
    signer: Signers = None,
    registry: Annotated[
        bool, option("Output", "", "Print an entry for the public registry of deployments, as JSON.", "--registry")
    ] = False,
    system: Annotated[
        bool, option("Output", "", "Show how this machine hashes, instead of a file.", "--system")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what a file holds, and whom its guarantee protects.

    The output says what is in the file, with the noise and norms in the units of the data; who is protected and how,
    the noise that this needs, and what is not protected. The grid step is the size of one step of the integers in the
    file. Of a raw sketch, which is secret, no sum is shown.

    For several files, the output also has the guarantee of all files together. Of an agreement (.json), it says what
    parties agreed on, and what each release spends.

    With --registry, the files are one entry of the Differential Privacy Deployments Registry, in its fields. Fields
    that no release can fill are null, and listed under to_fill.

    $ streamsketch explain north.parquet
    """
    if system == bool(files):
        raise typer.BadParameter("name files, or give --system")
    if not files:
        show_system(as_json=as_json)
        return
    if all(file.suffix == ".json" for file in files):
        from streamsketch.cli._agreements import show_agreements  # noqa: PLC0415 - which load much, for these alone

        show_agreements(files, as_json=as_json)
        return
    if raw := [file for file in files if file.suffix == SUFFIX or (file.is_file() and is_raw(file))]:
        _show_raw(raw[0], alone=len(files) == 1, signed=bool(signer), as_json=as_json)
        return
    published = [load_published(file, signer=signer) for file in files]
    if len(published) > 1 or delta is not None:
        _refuse_individual(files, published)
    sharing = _find_sharing(files, published, populations)
    relations = list(dict.fromkeys(release.guarantee.neighbours for release in published))
    together = None
    if len(relations) == 1 and (len(published) > 1 or delta is not None):
        from streamsketch.explanation.joint import explain_jointly  # noqa: PLC0415 - which one release does not need

        together = explain_jointly(published, populations=populations or "overlapping", delta=delta)
        together = dataclasses.replace(together, sharing=())  # named below, by the files' names
    if registry:
        _show_entry(together or published[0].explain(), relations)
        return
    contents = [contents_of(file, release) for file, release in zip(files, published, strict=True)]
    groups = [(file, *group) for file, release in zip(files, published, strict=True) for group in _alike(release)]
    if as_json:
        fields = [
            {"file": str(file), "keys": list(map(printable, keys))} | explanation.to_dict()
            for file, explanation, keys in groups
        ]
        joint = None if together is None else {k: v for k, v in together.to_dict().items() if k not in _ELSEWHERE}
        held = [each.fields for each in contents]
        show_json({"files": held, "releases": fields, "sharing": sharing, "together": joint})
        return
    typer.echo("\n\n".join(f"{_title(file, keys)}\n\n{explanation}" for file, explanation, keys in groups))
    for each in contents:
        typer.echo()
        each.show()
    _show_together(published, together, sharing, relations)


def _show_together(published: list[Published], together: Any, sharing: list[tuple[str, str]], relations: Any) -> None:
    tables = [release for release in published if isinstance(release, PublishedTable)]
    for sentence in dict.fromkeys(one_release(table.guarantee.neighbours) for table in tables):
        typer.echo(f"\n{filled(sentence)}")
    if together is not None:
        typer.echo(f"\n{together}")
    for first, second in sharing[:_SHOWN_PAIRS]:
        typer.echo(f"\n{filled(_SHARED.format(printable(first), printable(second)))}")
    if len(sharing) > _SHOWN_PAIRS:
        typer.echo(f"\nSo do {len(sharing) - _SHOWN_PAIRS:,} more pairs.")
    if len(relations) > 1:
        typer.echo(f"\n{filled(_DIFFERENT.format(', '.join(map(repr, relations))))}")


def _show_raw(file: Path, *, alone: bool, signed: bool, as_json: bool) -> None:
    if not alone:
        raise ss.InvalidInputError(f"{file} is a raw sketch, without noise or guarantee: explain it by itself")
    if signed:
        raise ss.InvalidInputError(f"{file} is a raw sketch, which is your own: --signer is for files of others")
    contents = raw_contents(file)
    if as_json:
        show_json(contents.fields)
    else:
        contents.show()


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


def _title(file: Path, keys: tuple[object, ...]) -> str:
    return f"{printable(file)}: {heading_of(keys)}" if keys else printable(file)
