"""``streamsketch demo``: an example on data that every machine has."""

import math
import re
import sysconfig
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Annotated

import typer

import streamsketch as ss
from streamsketch.cli._layout import folded, show, table_of, terminal_width
from streamsketch.cli._options import option
from streamsketch.cli._saying import say
from streamsketch.cli._showing import AsJson, estimate_fields, guarantee_fields, show_json
from streamsketch.cli._warmup import warmup as compile_all
from streamsketch.cli._writing import new_file

_PARTIES = ("asyncio", "ctypes", "email", "html", "http", "json", "logging", "unittest", "urllib", "xml")
_WORD = re.compile(r"[A-Za-z_]{3,}")
_SHOWN = 10


def demo(
    *,
    output: Annotated[
        Path | None,
        option(
            "Output",
            "FILE",
            "Write the releases to a .parquet table. By default, nothing is written.",
            "--output",
            "-o",
        ),
    ] = None,
    warmup: Annotated[
        bool,
        option("Kernels", "", "Compile all kernels instead, so that no later command or worker has to.", "--warmup"),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare ten packages of Python's standard library, as an example.

    The command sketches their source and releases it: each package is a party, and each word in its source is an event.
    It takes a few seconds, and writes nothing without --output.

    With --warmup, the command compiles all kernels instead, in about a minute, once. Use it in images of containers,
    and for workers before they get work. Machine code is kept next to the package's files, or in the folder
    NUMBA_CACHE_DIR if that is set, or else in the user's cache. The code is for this version of Python, Numba and the
    package, and for this type of processor.

    $ streamsketch demo
    """
    if warmup:
        if output is not None:
            raise ss.InvalidInputError("--warmup writes no table: leave out --output")
        compile_all(as_json=as_json)
        return
    if output is not None:
        new_file(output, ".parquet", "the table of releases")
    words = {party: _words(party) for party in _PARTIES}
    if not all(words.values()):
        raise ss.InvalidInputError("this Python has no source of its standard library to make a demo of")
    projection = ss.CountSketch(sketch_dim=1024, seed=2024)
    releases: dict[str, ss.PrivateSketch] = {}
    for party, counts in words.items():
        sketch = projection.sketch()
        sketch.update(list(counts.elements()))  # each word is an event
        releases[party] = sketch.release(epsilon=1.0, neighbours=ss.L1(1, unit="word"))
    cosines = [(ss.cosine(releases[a], releases[b]), a, b) for a, b in combinations(_PARTIES, 2)]
    cosines.sort(key=lambda pair: -pair[0].value)
    exact = [_exact(words[first], words[second]) for _, first, second in cosines]
    distances = [ss.squared_distance(releases[first], releases[second]) for _, first, second in cosines]
    inside = [
        cosine.interval()[0] <= truth <= cosine.interval()[1]
        for (cosine, _, _), truth in zip(cosines, exact, strict=True)
    ]
    sizes = {party: max(ss.squared_norm(release).value, 0.0) ** 0.5 for party, release in releases.items()}
    if output is not None:
        ss.PrivateTable(releases).save(output)
    guarantee = releases[_PARTIES[0]].guarantee
    if as_json:
        pairs = [
            {
                "first": first,
                "second": second,
                **estimate_fields(cosine, 0.95, "cosine"),
                "exact": truth,
                "squared_distance": {"value": distance.value, "standard_error": distance.standard_error},
            }
            for (cosine, first, second), truth, distance in zip(cosines, exact, distances, strict=True)
        ]
        show_json({"guarantee": guarantee_fields(guarantee), "inside": sum(inside), "pairs": pairs})
        return
    estimates = [cosine for cosine, _, _ in cosines[:_SHOWN]]
    columns = {
        "pair": [f"{first} – {second}" for _, first, second in cosines[:_SHOWN]],
        "cosine": [f"{cosine.value:.2f} ± {cosine.standard_error:.2f}" for cosine in estimates],
        "95 % interval": ["{:.2f} … {:.2f}".format(*cosine.interval()) for cosine in estimates],
        "exact*": [f"{truth:.2f}" for truth in exact[:_SHOWN]],
        "in": ["yes" if hit else "no" for hit in inside[:_SHOWN]],
        "sizes": [f"{sizes[first]:.0f}:{sizes[second]:.0f}" for _, first, second in cosines[:_SHOWN]],
    }
    events = sum(counts.total() for counts in words.values())
    title = (
        f"Which packages use the same words? Cosines between ten, {events:,} words in all; "
        f"the {_SHOWN} most similar of {len(cosines)} pairs"
    )
    show(table_of(columns, title=title))
    typer.echo("\n".join(folded(f"Each release: {guarantee}.", terminal_width())))
    say(
        f"* Computed from the private words, to check the estimates. {sum(inside)} of {len(cosines)} intervals contain "
        f"it; about {0.95 * len(cosines):.0f} are expected. Sizes are Euclidean norms of the words' counts."
        + (f" Releases written to {output}." if output is not None else "")
    )
    say(
        "Next: `streamsketch guide choose-method` names the method for your question, and `streamsketch guide "
        "privacy-officer` explains what ε promises."
    )


def _words(party: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for path in sorted(Path(sysconfig.get_path("stdlib"), party).rglob("*.py")):
        counts.update(_WORD.findall(path.read_text(encoding="utf-8", errors="replace")))
    return counts


def _exact(x: Counter[str], y: Counter[str]) -> float:
    product, *squares = (sum(left[word] * right[word] for word in left) for left, right in ((x, y), (x, x), (y, y)))
    return product / math.sqrt(squares[0] * squares[1])
