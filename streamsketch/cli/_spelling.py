"""Whether streams spell alike, as `compare --set dictionary` shows it."""

import dataclasses
from pathlib import Path

import streamsketch as ss
from streamsketch.cli._items import agreement_of, items_of_file
from streamsketch.cli._layout import show, table_of
from streamsketch.cli._reading import load_sketches
from streamsketch.cli._saying import say
from streamsketch.cli._showing import plural, show_json


def show_spelling(
    files: list[Path],
    dictionary: Path,
    index: list[str] | None,
    agreement: Path | None,
    *,
    only: list[str] | None,
    signer: list[Path] | None,
    raw: bool,
    as_json: bool,
) -> None:
    """Print how much of each stream a dictionary explains, and which are spelt in another way.

    Raises
    ------
    InvalidInputError
        For a dictionary that cannot be read, and an unknown name in ``only``; and as `load_sketches`.
    """
    sketches = load_sketches(files, least=1, command="compare --set dictionary", raw=raw, signer=signer)
    if unknown := sorted(set(only or ()) - sketches.keys()):
        raise ss.InvalidInputError(f"--only names {', '.join(unknown)}, which is none of the streams")
    sketches = {name: sketch for name, sketch in sketches.items() if not only or name in only}
    any_sketch = next(iter(sketches.values()))
    agreed = agreement_of(any_sketch, agreement)
    items = items_of_file(any_sketch.projection, agreed, dictionary, index=index).items
    spelling = ss.spelling(sketches, items, agreement=agreed)
    if as_json:
        explained = {name: dataclasses.asdict(share) for name, share in spelling.explained.items()}
        otherwise = [dataclasses.asdict(pair) for pair in spelling.otherwise]
        show_json({"names": spelling.names, "explained": explained, "otherwise": otherwise})
    else:
        columns = {
            "stream": list(spelling.explained),
            "explained": [f"{100 * share.share:.0f} %" for share in spelling.explained.values()],
            "95 % interval": [
                f"{100 * share.low:.0f} – {100 * share.high:.0f} %" for share in spelling.explained.values()
            ],
        }
        show(table_of(columns, title=f"Share of the squared norm that {plural(spelling.names, 'name')} explain"))
    for pair in spelling.otherwise:
        say(f"warning: {pair}.")
    if not spelling.otherwise and len(sketches) > 1:
        say("No two streams look like the same names in another spelling.")
    if any(not isinstance(sketch, ss.PrivateSketch) for sketch in sketches.values()):
        say("warning: raw sketches took part: what is printed here is as secret as they are.")
