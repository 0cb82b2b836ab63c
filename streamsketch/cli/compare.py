"""``streamsketch compare``: all comparisons between some sketches, or all angles between published signs."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import streamsketch as ss
from streamsketch.cli._fields import INDEX, Field, set_fields, set_option
from streamsketch.cli._keys import Signers
from streamsketch.cli._layout import show, table_of
from streamsketch.cli._options import given_options, option
from streamsketch.cli._pairs import BY_HELP, Joint, Norms, Only, Pairs, SketchPairs, check_top, load_pairs
from streamsketch.cli._reading import Files, FollowedAgreement, Raw, hold_signs, say_agreement_is_missing
from streamsketch.cli._showing import AsJson, Confidence, show_json
from streamsketch.estimation.measures import By

if TYPE_CHECKING:
    from streamsketch.core.documents import Json

FIELDS = {
    "index": INDEX,
    "dictionary": Field(
        "FILE", "show whether streams spell alike: a public file of the items that may occur, as for --why", Path
    ),
    "category": Field("COLUMN", "with --why, column of the dictionary by which items are added up"),
    "picture": Field("FILE", "draw what --why shows into an .svg file", Path),
}
"""What `--set` states."""


@dataclass
class _Further:
    """What few comparisons need."""

    index: list[str] | None = None
    dictionary: Path | None = None
    category: str | None = None
    picture: Path | None = None


def compare(  # noqa: C901, PLR0913 - a command's options are its parameters
    files: Files,
    *,
    by: Annotated[
        By | None, option("Estimates", "MEASURE", f"{BY_HELP} For features, their discrepancy.", "--by")
    ] = None,
    top: Annotated[
        int | None,
        option(
            "Estimates", "NUMBER", "Number of pairs to show, nearest first. With --why, number of items, by default 10."
        ),
    ] = None,
    only: Only = None,
    confidence: Confidence = 0.95,
    together: Annotated[
        bool,
        option("Estimates", "", "Make intervals hold for all pairs together, whichever pairs are shown.", "--together"),
    ] = False,
    joint: Joint = False,
    why: Annotated[
        Path | None,
        option(
            "Input",
            "FILE",
            "Show in which items two streams differ: a file of the items that may occur (CSV, JSON lines, Parquet, or "
            ".txt with one item a line). If there are more than two streams, the pair that is farthest apart is "
            "shown.",
            "--why",
        ),
    ] = None,
    settings: Annotated[list[str] | None, set_option("Input", FIELDS)] = None,
    agreement: FollowedAgreement = None,
    norm: Norms = None,
    signer: Signers = None,
    raw: Raw = False,
    as_json: AsJson = False,
) -> None:
    """Estimate distances and cosines of releases, most similar first.

    Each interval holds for its pair alone: the smallest of many estimates is too small on average. With --together, the
    intervals hold for all pairs together. If noise dominates, an estimated squared distance may be negative and a
    cosine above 1. Intervals are clipped to what is possible. With --joint, an estimate is drawn towards what the cells
    of all sketches say of it; the output marks it as a joint estimate.

    If --agreement has features, the measure is the discrepancy of two populations, from 0 to 4, with p-values of the
    hypothesis that they are the same, and the columns in which the two farthest populations differ. --by chooses
    another measure.

    With --why, the output lists the items of a public dictionary in which the sums of two streams differ most (or their
    averages, with --by mean). All of these intervals hold together. --only selects two of many streams.

    With --set dictionary, the output says how much of each stream a public dictionary explains, and which two streams
    look like the same things in another spelling, such as upper case or a blank at the end.

    For published signs, the output has the number of signs that differ, and angles and cosines, corrected for the
    flips.

    $ streamsketch compare north.parquet south.parquet --by cosine
    """
    check_top(top)
    more = set_fields(_Further(), FIELDS, settings)
    if more.dictionary is not None:
        others = {"by": by, "top": top, "why": why, "norm": norm, "together": together, "joint": joint}
        if stated := given_options(others | {"set category": more.category, "set picture": more.picture}):
            raise ss.InvalidInputError(
                f"{stated}: --set dictionary shows whether streams spell alike, and takes none of these"
            )
        from streamsketch.cli._spelling import show_spelling  # noqa: PLC0415 - most comparisons load no rows or items

        show_spelling(files, more.dictionary, more.index, agreement, only=only, signer=signer, raw=raw, as_json=as_json)
        return
    of_why = {"--set index": more.index, "--set category": more.category, "--set picture": more.picture}
    agreed_on_features = _features_file(agreement, {"--why": why, **of_why, "--norm": norm})
    if joint and (why is not None or (agreed_on_features is not None and by is None) or hold_signs(files)):
        raise ss.InvalidInputError("--joint is for distances and cosines of sketches: leave it out")
    if agreed_on_features is not None and by is None:
        from streamsketch.cli._populations import show_populations  # noqa: PLC0415 - as above

        show_populations(
            files,
            agreed_on_features,
            top=top,
            together=together,
            only=only,
            signer=signer,
            raw=raw,
            confidence=confidence,
            as_json=as_json,
        )
        return
    if why is not None:
        if together:
            raise ss.InvalidInputError("the intervals of --why always hold together: leave out --together")
        from streamsketch.cli._differences import Why, show_differences  # noqa: PLC0415 - as above

        asked = Why(why, more.index, more.category, agreement, more.picture)
        show_differences(
            files,
            asked,
            by=by or "distance",
            top=top or 10,
            norm=norm,
            only=only,
            signer=signer,
            raw=raw,
            confidence=confidence,
            as_json=as_json,
        )
        return
    for name, value in (of_why | {"--agreement": None if agreed_on_features else agreement}).items():
        if value is not None:
            raise ss.InvalidInputError(f"{name} is for what separates two streams: give --why DICTIONARY")
    among = load_pairs(files, "compare", by=by, norm=norm, joint=joint, only=only, signer=signer, raw=raw)
    if isinstance(among, SketchPairs):
        if agreed_on_features is not None:
            from streamsketch.cli._features import load_agreement  # noqa: PLC0415 - as above

            load_agreement(agreed_on_features, among.sketches)
        elif by is None:
            say_agreement_is_missing(next(iter(among.sketches.values())))
    _show(among, top, confidence, together=together, as_json=as_json)


def _features_file(agreement: Path | None, others: dict[str, Any]) -> Path | None:
    """Return the file of an agreement with features, which excludes some options; None for other agreements."""
    if agreement is None or ss.Agreement.load(agreement).features is None:
        return None
    if names := [name for name, value in others.items() if value]:
        raise ss.InvalidInputError(f"{agreement} has features, which are no items: leave out {', '.join(names)}")
    return agreement


def _show(among: Pairs, top: int | None, confidence: float, *, together: bool, as_json: bool) -> None:
    """Print pairs, nearest first."""
    candidates = len(among.names) * (len(among.names) - 1) // 2 if together else None
    pairs = among.nearest_pairs(top)
    names = [(among.names[i], among.names[j]) for i, j in pairs]
    if as_json:
        rows: list[Json] = [
            {"first": first, "second": second, **among.fields(pair, confidence, candidates)}
            for pair, (first, second) in zip(pairs, names, strict=True)
        ]
        show_json(rows)
    else:
        column = {"pair": [f"{first} – {second}" for first, second in names]}
        show(table_of(column | among.columns(pairs, confidence, candidates), title=among.title(pairs)))
    among.say_notes(pairs)
