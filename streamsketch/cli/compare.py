"""``streamsketch compare``: all comparisons between some sketches, or all angles between published signs."""

from typing import Annotated

import typer

from streamsketch.cli._keys import Signers
from streamsketch.cli._pairs import ByOption, Norms, Only, check_top, load_pairs
from streamsketch.cli._reading import Files, Raw
from streamsketch.cli._showing import Confidence, Json, show, show_json, table_of


def compare(  # noqa: PLR0913 - a command's options are its parameters
    files: Files,
    *,
    by: ByOption = "distance",
    top: Annotated[int | None, typer.Option(help="Show only this many pairs, the nearest.", show_default=False)] = None,
    only: Only = None,
    confidence: Confidence = 0.95,
    norm: Norms = None,
    signer: Signers = None,
    raw: Raw = False,
    as_json: Json = False,
) -> None:
    """Estimate squared distances and cosines between private sketches, nearest pair first.

    Each interval is for its pair alone: the least of many estimates is biased down. Where noise dominates, a squared
    distance may be negative and a cosine above 1; intervals are clipped to what is possible.

    Between published signs: how many differ, and angles and cosines, with the flips' share taken out.
    """
    check_top(top)
    among = load_pairs(files, "compare", by=by, only=only, norm=norm, signer=signer, raw=raw)
    pairs = among.nearest_pairs(top)
    named = [(among.names[i], among.names[j]) for i, j in pairs]
    if as_json:
        show_json(
            [
                {"first": first, "second": second, **among.fields(pair, confidence)}
                for pair, (first, second) in zip(pairs, named, strict=True)
            ]
        )
    else:
        names = {"pair": [f"{first} – {second}" for first, second in named]}
        show(table_of(names | among.columns(pairs, confidence), title=among.title(pairs)))
    among.say_notes(pairs)
