"""What separates two streams, as `compare --why` shows it."""

import math
from pathlib import Path
from typing import NamedTuple

import streamsketch as ss
from streamsketch.cli._items import agreement_of, items_of_file, plain_item
from streamsketch.cli._layout import show, table_of
from streamsketch.cli._pairs import SketchPairs, load_pairs
from streamsketch.cli._reading import name_in_errors
from streamsketch.cli._saying import say
from streamsketch.cli._showing import interval_name, plural, show_json
from streamsketch.cli._writing import new_file
from streamsketch.core.documents import Json
from streamsketch.core.files import write_whole
from streamsketch.estimation.differences import DifferenceBy, Differences
from streamsketch.estimation.estimate import format_value
from streamsketch.estimation.measures import By
from streamsketch.report.differences import item_text, more_in, picture_of_differences, row_cells


class Why(NamedTuple):
    """The options of `compare --why`."""

    dictionary: Path
    columns: list[str] | None
    category: str | None
    agreement: Path | None
    picture: Path | None


def show_differences(  # noqa: PLR0913 - the options of a command
    files: list[Path],
    why: Why,
    *,
    by: By,
    top: int,
    only: list[str] | None,
    confidence: float,
    norm: list[str] | None,
    signer: list[Path] | None,
    raw: bool,
    as_json: bool,
) -> None:
    """Print what separates two streams, and write it as a picture.

    Raises
    ------
    InvalidInputError
        For published signs, another measure than distances and means, a dictionary that cannot be read, and as
        `load_pairs`.
    """
    if why.picture is not None:
        new_file(why.picture, ".svg", "a picture")
    of_what: dict[str, DifferenceBy] = {"distance": "distance", "mean": "mean"}
    if by not in of_what:
        raise ss.InvalidInputError(
            f"--why shows by how much sums differ, or with --by mean averages; streams do not differ in items by {by}"
        )
    among = load_pairs(files, "compare", by=by, only=only, norm=norm, signer=signer, raw=raw)
    if not isinstance(among, SketchPairs):
        raise ss.InvalidInputError("published signs do not show in which items streams differ: leave out --why")
    pairs = among.nearest_pairs(None)
    pair = next((candidate for candidate in reversed(pairs) if among.is_defined(candidate)), pairs[-1])
    first, second = (among.names[place] for place in pair)
    a, b = among.sketches[first], among.sketches[second]
    agreed = agreement_of(a, why.agreement)
    dictionary = items_of_file(a.projection, agreed, why.dictionary, index=why.columns, category=why.category)
    with name_in_errors(first, second):
        differences = ss.top_differences(
            *(a, b, dictionary.items, top),
            by=of_what[by],
            category=dictionary.category,
            agreement=agreed,
            confidence=confidence,
        )
    if why.picture is not None:
        write_whole(why.picture, picture_of_differences(differences, first, second).encode())
    if as_json:
        show_json(_fields(differences, first, second))
    else:
        of = "averages" if by == "mean" else "sums"
        show(
            table_of(
                _columns(differences, first, second, why.category or "item"),
                title=f"{first} – {second}: differences of {of}",
            )
        )
        if len(pairs) > 1:
            say(f"Of {plural(len(pairs), 'pair')} this is the one farthest apart; --only names another.")
        rows = "categories" if why.category else "items"
        numbers = f"{differences.n_separated:,} of {differences.candidates:,} {rows}"
        say(f"{numbers} {'is' if differences.n_separated == 1 else 'are'} separated. All intervals hold at once.")
        if not differences.n_separated:
            say(_hidden(differences))
        if agreed is not None and agreed.neighbours is not None and agreed.clip == "equal":
            say(f"Each {agreed.neighbours.unit} counts the same, so these are {of} of votes, not of rows or values.")
    if differences.secret:
        say("warning: raw sketches took part: what is printed here is as secret as they are.")


def _hidden(differences: Differences) -> str:
    """Return how large a difference may be where nothing is separated."""
    reach = min(max(row["high"], -row["low"]) for row in differences.table.to_pylist())
    return (
        f"The narrowest of these intervals reaches {format_value(reach, reach / 10)}, so differences up to that may be "
        "hidden. More cells or a larger ε narrow the intervals."
    )


def _fields(differences: Differences, first: str, second: str) -> Json:
    """Return the differences as JSON."""
    rows = [
        {"item": plain_item(row["item"]), "estimate": row["estimate"], "standard_error": row["error"]}
        | {end: row[end] if math.isfinite(row[end]) else None for end in ("low", "high")}
        | {"separated": more_in(row) != "neither"}
        for row in differences.table.to_pylist()
    ]
    fields = {
        "first": first,
        "second": second,
        "by": differences.by,
        "items": rows,
        "confidence": differences.confidence,
    }
    fields |= {"candidates": differences.candidates, "separated": differences.n_separated}
    return fields | ({"secret": True} if differences.secret else {})


def _columns(differences: Differences, first: str, second: str, what: str) -> dict[str, list[str]]:
    """Return the differences as the columns of a table for people."""
    rows = differences.table.to_pylist()
    cells = [row_cells(row) for row in rows]
    more = {"first": first, "second": second, "neither": "either"}
    return {
        what: [item_text(row["item"]) for row in rows],
        "difference": [value for value, _, _ in cells],
        "± s.e.": [error for _, error, _ in cells],
        interval_name(differences.confidence): [interval for _, _, interval in cells],
        "more in": [more[more_in(row)] for row in rows],
    }
