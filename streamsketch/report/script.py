"""What brings a page to life: its facts as JSON, and the script that reads them, built from web/src/page."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from markupsafe import Markup

from streamsketch.core.documents import Json
from streamsketch.core.numbers import Floats
from streamsketch.data.windows import window_time
from streamsketch.estimation.measures import MEASURES, By
from streamsketch.report.pairs import Pairs
from streamsketch.report.pictures import Scale
from streamsketch.report.series import series_in

VERSION = 1
"""Of the facts, which the script reads."""


@cache
def script() -> Markup:
    """Return the script, which has no text that would end it in HTML."""
    return Markup((files("streamsketch.report") / "page.js").read_text("utf-8"))  # noqa: S704 - our own


@cache
def script_digest() -> str:
    """Return the source of the script for a Content-Security-Policy: the only one that may run."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script().encode()).digest()).decode()}'"


def facts_as_json(facts: Mapping[str, object]) -> Markup:
    """Return facts as JSON in which no text reads as HTML."""
    text = json.dumps(facts, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))  # noqa: S704 - escaped


def comparison_facts(
    names: Sequence[str], pairs: Pairs, by: By, scale: Scale, unit: tuple[float, str], *, together: bool
) -> Json:
    """Return the facts of a comparison of n streams by their names."""
    return {
        "version": VERSION,
        "by": by,
        "quantity": MEASURES[by].title,
        "largest": MEASURES[by].sign < 0,
        "factor": unit[0],
        "unit": unit[1],
        "together": together,
        "names": list(names),
        "windows": _windows(names),
        "scale": {"nearest": scale.nearest, "farthest": scale.farthest, "logarithmic": scale.logarithmic},
        "pairs": pairs.packed(),
    }


def tree_facts(tree: Floats, similar: Sequence[int], groups: Sequence[Sequence[int]]) -> Json:
    """Return the facts of the tree of n streams, (n - 1, 4), and of the groups in it."""
    return {
        "tree": [[int(first), int(second), float(f"{size:.6g}")] for first, second, size in tree[:, :3].tolist()],
        "similar": list(similar),
        "groups": [list(group) for group in groups],
    }


def _windows(names: Sequence[str]) -> Json | None:
    """Return keys, windows in time order and the places of each stream in both, if all names are of windows."""
    series = series_in(names)
    if not series:
        return None
    keys = list(series)
    windows = sorted(
        {window for members in series.values() for window in members}, key=lambda window: window_time(window) or 0
    )
    places = {
        name: [keys.index(key), windows.index(window)]
        for key, members in series.items()
        for window, name in members.items()
    }
    return {"keys": keys, "names": windows, "of": [places[name] for name in names]}
