"""``streamsketch report``: all results of releases, as one page."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

import streamsketch as ss
from streamsketch.cli._features import Shares, load_agreement, shares_of
from streamsketch.cli._fields import INDEX, Field, set_fields, set_option
from streamsketch.cli._items import agreement_of, items_of_file
from streamsketch.cli._keys import Signers
from streamsketch.cli._options import given_options, option
from streamsketch.cli._pairs import BY_NAMES, Joint, Only, check_joint, select_names
from streamsketch.cli._reading import Force, files_in, load_files
from streamsketch.cli._saying import say
from streamsketch.cli._showing import AsJson, show_json
from streamsketch.cli._writing import new_file
from streamsketch.core.documents import Json
from streamsketch.core.files import write_whole
from streamsketch.errors import printable
from streamsketch.estimation.measures import By
from streamsketch.report.differences import Dictionary
from streamsketch.report.federation import federation_of
from streamsketch.report.federation_page import page_of_federation
from streamsketch.report.page import page_with_facts
from streamsketch.report.viewer import viewer_page

FIELDS = {
    "title": Field("TEXT", "heading of the page, by default the name of the folder or the files"),
    "plan": Field("FILE", "show this plan, too: the output of `plan … --json`", Path),
    "index": INDEX,
    "dictionary": Field(
        "FILE", "say whether streams spell alike: a public file of the items that may occur, as for --why", Path
    ),
    "category": Field("COLUMN", "with --why, column of the dictionary by which items are added up"),
    "tolerance": Field("DISTANCE", "(not squared) up to which sites of a federation count as alike", float),
}
"""What `--set` states."""


@dataclass
class _Further:
    """What few pages need."""

    title: str | None = None
    plan: Path | None = None
    index: list[str] | None = None
    dictionary: Path | None = None
    category: str | None = None
    tolerance: float | None = None


def report(  # noqa: PLR0913 - a command's options are its parameters
    places: Annotated[
        list[Path] | None,
        typer.Argument(help="Folders with .sketch files or .parquet tables, or such files.", metavar="DIR"),
    ] = None,
    *,
    output: Annotated[Path, option("Output", "FILE", "File to write, .html.", "--output", "-o")],
    settings: Annotated[list[str] | None, set_option("Output", FIELDS)] = None,
    by: Annotated[By | None, option("Estimates", "MEASURE", BY_NAMES, "--by")] = None,
    joint: Joint = False,
    why: Annotated[
        Path | None,
        option(
            "Input",
            "FILE",
            "Show in which items streams differ: a file of the items that may occur (CSV, JSON lines, Parquet, or "
            ".txt with one item a line). Two streams are compared with each other; of several, each is compared with "
            "the average of the others.",
            "--why",
        ),
    ] = None,
    agreement: Annotated[
        Path | None,
        option(
            "Input",
            "FILE",
            "Agreement by which the streams were sketched, a JSON file. If it has features, the page is the report of "
            "a federation. Otherwise it states the types of the items of --why.",
            "--agreement",
        ),
    ] = None,
    share: Shares = None,
    only: Only = None,
    viewer: Annotated[
        bool,
        option("Output", "", "Write a page without data, on which others drop releases to see the same.", "--viewer"),
    ] = False,
    signer: Signers = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a page: what stands out, neighbours, a map, error bars.

    The page begins with what stands out: groups of streams, or windows that changed. Streams below the noise floor are
    named and not drawn. Cells that cannot be distinguished from 0 are hatched. A pair has one interval on the page, and
    those of all pairs hold together. With --joint, estimates are joint ones and marked as such; what stands out still
    follows from intervals of each pair alone.

    With an agreement that has features, the page is the report of a federation: which sites stand out from the others,
    in which columns, how many people they have and what these are like. If the names of releases are of windows, such
    as "north 2024-05.sketch", the page also states since when a site differs, and compares the last window of each
    site.

    With --set dictionary, the page says which streams look like the same names in another spelling. Without it, the
    page asks for one if a stream has next to nothing in common with any other.

    The page is one file without network access, and as public as the releases are. Its script makes the heat map
    interactive; the page is complete without it.

    With --viewer, the page has no data: it reads .sketch files and .parquet tables that are dropped on it, and a
    dictionary of words, with which it shows what differs. Nothing leaves the computer: the page makes no requests, and
    its Content-Security-Policy forbids them. The file is the same for everybody.

    $ streamsketch report north.parquet -o report.html

    $ streamsketch report --viewer -o viewer.html
    """
    new_file(output, ".html", "a report", force=force)
    more = set_fields(_Further(), FIELDS, settings)
    title, plan, category, tolerance = more.title, more.plan, more.category, more.tolerance
    if viewer:
        others: dict[str, object] = {"set": settings, "by": by, "joint": joint, "why": why}
        others |= {"agreement": agreement, "share": share, "only": only, "signer": signer}
        if wrong := ", ".join([*map(str, places or ()), *filter(None, [given_options(others)])]):
            raise ss.InvalidInputError(f"--viewer writes a page without data: leave out {wrong}")
        _write_viewer(output, as_json=as_json)
        return
    if not places:
        raise ss.InvalidInputError("name folders or files of releases; or give --viewer, for a page that reads them")
    of_features = agreement is not None and why is None and ss.Agreement.load(agreement).features is not None
    of_items = {"--set index": more.index, "--set category": category}
    if of_features:
        _check_federation(
            {"--set plan": plan, "--set dictionary": more.dictionary, "--by": by, "--joint": joint, **of_items}
        )
    else:
        _check_streams(
            why or more.dictionary,
            {**of_items, "--agreement": agreement},
            {"--share": share, "--set tolerance": tolerance},
        )
        if category is not None and why is None:
            raise ss.InvalidInputError("--set category is for what differs: give --why DICTIONARY")
    if joint:
        check_joint(by)
    paths, left_out = files_in(places)
    sketches, published = load_files(paths, least=2, command="report", signer=signer)
    releases = {name: sketch for name, sketch in sketches.items() if isinstance(sketch, ss.PrivateSketch)}
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
    any_release = next(iter(releases.values()))
    page, facts = page_with_facts(
        releases,
        published,
        title=heading,
        plan=None if plan is None else _plan(plan),
        by=by,
        why=None if why is None else _dictionary(any_release, why, more, agreement, category),
        dictionary=None if more.dictionary is None else _dictionary(any_release, more.dictionary, more, agreement),
        together=joint,
    )
    write_whole(output, page.encode())
    comparison = {name: facts[name] for name in ("by", "joint", "spelling")} | {"compared": facts["names"]}
    _say(output, releases, left_out, comparison if as_json else None)


def _check_federation(others: dict[str, object]) -> None:
    for name, value in others.items():
        if value:
            raise ss.InvalidInputError(f"{name} is not for the report of a federation: leave it out")


def _check_streams(why: Path | None, of_items: dict[str, object], of_features: dict[str, object]) -> None:
    if any(value not in (None, []) for value in of_features.values()):
        raise ss.InvalidInputError("--share and --set tolerance are for releases of features: name their --agreement")
    if why is None and any(of_items.values()):
        raise ss.InvalidInputError(
            "--set index, category and --agreement, if it has no features, are for names: give --why DICTIONARY, "
            "for what differs, or --set dictionary=DICTIONARY, for how they are spelt"
        )


def _write_viewer(output: Path, *, as_json: bool) -> None:
    page = viewer_page().encode()
    write_whole(output, page)
    if as_json:
        show_json({"file": str(output), "bytes": len(page)})
    else:
        say(f"{output}: open it in a browser, and drop releases on it.")


def _named(places: list[Path]) -> str:
    """Return the names of one or two places, or of the first and the number of others."""
    first, *others = [place.resolve().name for place in places]
    if len(others) > 1:
        return f"{first} and {len(others)} more"
    return " and ".join([first, *others])


def _say(output: Path, releases: dict[str, ss.PrivateSketch], left_out: list[str], facts: Json | None) -> None:
    """Print what was written, and facts as JSON if they are given."""
    if facts is not None:
        checks = {name: release.explain().check.verdict for name, release in releases.items()}
        show_json({"file": str(output), "releases": list(releases), "checks": checks, "left_out": left_out} | facts)
        return
    say(f"{output}: {len(releases)} releases." + (f" Left out, as secret: {', '.join(left_out)}." if left_out else ""))


def _dictionary(
    release: ss.PrivateSketch, path: Path, more: _Further, agreement: Path | None, category: str | None = None
) -> Dictionary:
    agreed = agreement_of(release, agreement)
    items, of_category = items_of_file(release.projection, agreed, path, index=more.index, category=category)
    return Dictionary(items, of_category, agreed)


def _plan(path: Path) -> Json:
    try:
        plan = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        plan = None
    if not isinstance(plan, dict):
        raise ss.InvalidInputError(f"{path} is not a plan: name a file with what `streamsketch plan … --json` printed")
    return plan
