"""``streamsketch report``: all results of releases, as one page."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

import streamsketch as ss
from streamsketch.cli._features import Shares, load_agreement, shares_of
from streamsketch.cli._items import Index, agreement_of, items_of_file
from streamsketch.cli._keys import Signers
from streamsketch.cli._pairs import BY_NAMES, Only, select_names
from streamsketch.cli._reading import Force, files_in, load_files, new_file
from streamsketch.cli._saying import say
from streamsketch.cli._showing import Json, show_json
from streamsketch.core.files import write_whole
from streamsketch.errors import printable
from streamsketch.estimation.measures import By
from streamsketch.report.differences import Dictionary
from streamsketch.report.federation import federation_of
from streamsketch.report.federation_page import page_of_federation
from streamsketch.report.page import page_of


def report(  # noqa: PLR0913 - a command's options are its parameters
    places: Annotated[
        list[Path], typer.Argument(help="Folders with .sketch files or .parquet tables, or such files.", metavar="DIR")
    ],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write, .html.")],
    title: Annotated[
        str | None,
        typer.Option(help="Heading of the page. By default, it names the folder or the files.", show_default=False),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(help="Show this plan together with the result: the output of `plan --json`.", show_default=False),
    ] = None,
    by: Annotated[
        By | None,
        typer.Option(
            "--by",
            help=BY_NAMES,
            metavar="MEASURE",
            show_default=False,
        ),
    ] = None,
    why: Annotated[
        Path | None,
        typer.Option(
            "--why",
            help="Show in which items streams differ: a file of the items that may occur (CSV, JSON lines, "
            "Parquet, or .txt with one item a line). Two streams are compared with each other; of "
            "several, each is compared with the average of the others.",
            metavar="DICTIONARY",
            show_default=False,
        ),
    ] = None,
    index: Index = None,
    category: Annotated[
        str | None, typer.Option(help="Column of the dictionary by which items are added up.", show_default=False)
    ] = None,
    agreement: Annotated[
        Path | None,
        typer.Option(
            "--agreement",
            help=(
                "Agreement by which the streams were sketched, a JSON file. If it has features, the page is the report "
                "of a federation. Otherwise it states the types of the items of --why."
            ),
            show_default=False,
        ),
    ] = None,
    share: Shares = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            help="Distance (not squared) up to which sites of a federation count as alike.", show_default=False
        ),
    ] = None,
    only: Only = None,
    signer: Signers = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a page of cosines or distances, neighbours and a map, with error bars and guarantees.

    The page begins with what stands out: groups of streams, or windows that changed. Streams below the noise floor are
    named and not drawn. Cells that cannot be distinguished from 0 are hatched. A pair has one interval on the page, and
    those of all pairs hold together.

    With an agreement that has features, the page is the report of a federation: which sites stand out from the others,
    in which columns, how many people they have and what these are like. If the names of releases are of windows, such
    as "north 2024-05.sketch", the page also states since when a site differs, and compares the last window of each
    site.

    The page is one file without network access, and as public as the releases are. Its script makes the heat map
    interactive; the page is complete without it.

    $ streamsketch report north.parquet -o report.html
    """
    new_file(output, ".html", "a report", force=force)
    of_features = agreement is not None and why is None and ss.Agreement.load(agreement).features is not None
    if of_features:
        other = {"--plan": plan, "--by": by, "--index": index, "--category": category}
        for option, given in other.items():
            if given:
                raise ss.InvalidInputError(f"{option} is not for the report of a federation: leave it out")
    elif share or tolerance is not None:
        raise ss.InvalidInputError("--share and --tolerance are for releases of features: name their --agreement")
    elif why is None and (index or category or agreement):
        raise ss.InvalidInputError(
            "--index, --category and --agreement, if it has no features, are for what differs: give --why DICTIONARY"
        )
    paths, left_out = files_in(places)
    found, published = load_files(paths, least=2, command="report", signer=signer)
    releases = {name: sketch for name, sketch in found.items() if isinstance(sketch, ss.PrivateSketch)}
    releases = select_names(releases, only, "report")
    heading = title if title is not None else f"Private sketches in {_named(places)}"
    if of_features and agreement is not None:
        agreed, features = load_agreement(agreement, releases)
        shares = shares_of(features, share)
        federation = federation_of(releases, agreed, shares=shares, tolerance=tolerance or 0.0)
        heading = title if title is not None else f"Sites in {_named(places)}" if len(places) == 1 else "Sites compared"
        write_whole(output, page_of_federation(federation, published, title=heading).encode())
        _say(output, releases, left_out, federation.to_dict() if as_json else None)
        if not as_json:
            typer.echo(printable(federation.answer))
        return
    page = page_of(
        releases,
        published,
        title=heading,
        plan=None if plan is None else _plan(plan),
        by=by,
        why=None if why is None else _dictionary(next(iter(releases.values())), why, index, category, agreement),
    )
    write_whole(output, page.encode())
    _say(output, releases, left_out, {} if as_json else None)


def _named(places: list[Path]) -> str:
    """Return the names of one or two places, or of the first and the number of others."""
    first, *others = [place.resolve().name for place in places]
    if len(others) > 1:
        return f"{first} and {len(others)} more"
    return " and ".join([first, *others])


def _say(
    output: Path,
    releases: dict[str, ss.PrivateSketch],
    left_out: list[str],
    facts: dict[str, Any] | None,
) -> None:
    """Print what was written, and facts as JSON if they are given."""
    if facts is not None:
        checks = {name: release.explain().check.verdict for name, release in releases.items()}
        show_json({"file": str(output), "releases": list(releases), "checks": checks, "left_out": left_out} | facts)
        return
    say(f"{output}: {len(releases)} releases." + (f" Left out, as secret: {', '.join(left_out)}." if left_out else ""))


def _dictionary(
    release: ss.PrivateSketch, path: Path, index: list[str] | None, category: str | None, agreement: Path | None
) -> Dictionary:
    agreed = agreement_of(release, agreement)
    items, of_category = items_of_file(release.projection, agreed, index, path, category)
    return Dictionary(items, of_category, agreed)


def _plan(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ss.InvalidInputError(f"{path} is not a plan: name a file with what `streamsketch plan --json` printed")
    return found
