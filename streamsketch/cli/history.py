"""``streamsketch history``: any range of the windows that were published by a schedule."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_args

import streamsketch as ss
from streamsketch.cli._fields import Field, set_fields, set_option
from streamsketch.cli._keys import Signers
from streamsketch.cli._layout import show, show_facts, table_of
from streamsketch.cli._options import option
from streamsketch.cli._reading import WindowFiles, load_windows
from streamsketch.cli._saying import say
from streamsketch.cli._showing import UNDEFINED, AsJson, join_names, meant, plural, show_json
from streamsketch.cli._writing import new_file
from streamsketch.continual.history import History
from streamsketch.core.files import write_whole
from streamsketch.estimation.changes import Changes
from streamsketch.estimation.estimate import format_value, value_text
from streamsketch.estimation.measures import MEASURES
from streamsketch.estimation.same import SameBy, SameTest
from streamsketch.report.changes import picture_of_changes, picture_of_series

if TYPE_CHECKING:
    from streamsketch.core.libraries import pa

Of: TypeAlias = Literal["changes", "squared_norm", "units"]
"""The estimates of a series of ranges."""

_TITLES = {"squared_norm": "squared norm", "units": "number of units"}
_APART = ".."
_LENGTHS = (1, 7, 24, 30, 168, 365)

FIELDS = {
    "every": Field("WINDOWS", "number of windows from one range of the series to the next, by default --length", int),
    "of": Field("changes|squared_norm|units", "what is estimated for each range of the series, by default changes"),
    "by": Field(
        "distance|profile|cosine",
        "what ranges are compared by, by default distance; profile and cosine compare what they consist of, whatever "
        "their length",
    ),
    "level": Field("LEVEL", "probability of any false alarm in the series, by default 0.05", float),
    "picture": Field("FILE", "draw the curve of the series and its band into an .svg file", Path),
}
"""What `--set` states."""


@dataclass
class _Further:
    """What few histories need."""

    every: int | None = None
    of: Of = "changes"
    by: SameBy = "distance"
    level: float = 0.05
    picture: Path | None = None


def history(  # noqa: PLR0913 - a command's options are its parameters
    places: WindowFiles,
    *,
    key: Annotated[
        str | None, option("Input", "KEY", "Key whose history is read. Needed if there are several.")
    ] = None,
    ranges: Annotated[
        list[str] | None,
        option(
            "Input",
            "RANGE",
            "Range of windows. 2024, 2024-05 or 2024-05-31: windows that begin in this time. 2024-05-01..2024-05-08, "
            "or by number 0..7: from the first window up to, but without, the last. Repeat the option to compare "
            "ranges.",
            "--range",
        ),
    ] = None,
    length: Annotated[
        int | None,
        option(
            "Estimates",
            "WINDOWS",
            "Show a series of ranges of this many windows instead, and whether each range differs from the one before "
            "(see of).",
            min=1,
        ),
    ] = None,
    settings: Annotated[list[str] | None, set_option("Estimates", FIELDS)] = None,
    tolerance: Annotated[
        float,
        option("Estimates", "DISTANCE", "Distance (not squared) up to which two ranges count as the same.", min=0.0),
    ] = 0.0,
    output: Annotated[
        Path | None,
        option(
            "Output",
            "FILE",
            "Write the release of the one --range to a .sketch file, for all other commands.",
            "--output",
            "-o",
        ),
    ] = None,
    signer: Signers = None,
    as_json: AsJson = False,
) -> None:
    """Read any range of the windows that were published by a schedule, at no further privacy cost.

    The names of releases state which windows they are, in the form that `stream file` with a schedule uses. All
    windows from the first one on are needed. Without options, the command shows the schedule, and the noise of ranges
    of several lengths.

    $ streamsketch history releases/ --range 2024-05
    """
    wanted, more = ranges or [], set_fields(_Further(), FIELDS, settings)
    every, of, level, picture = more.every, more.of, more.level, more.picture
    if of not in get_args(Of):
        raise ss.InvalidInputError(f"--set of takes {'|'.join(get_args(Of))}, got {of!r:.40}")
    _check(wanted, length=length, every=every, picture=picture, output=output)
    series = load_windows(places, signer=signer)
    name, history = _history_of(series, key)
    if length is not None:
        if of == "changes":
            changes = history.changes(length, every, tolerance=tolerance, by=more.by, level=level)
            drawn = picture_of_changes({name: changes})
            _show_changes(changes, length, level, as_json=as_json)
        else:
            series = history.series(length, every or length, what=of)
            drawn = picture_of_series(series, _TITLES[of])
            _show_series(series, _TITLES[of], as_json=as_json)
        if picture is not None:
            write_whole(picture, drawn.encode())
    elif wanted:
        _show_ranges(history, wanted, tolerance, more.by, as_json=as_json)
        if output is not None:
            _range_of(history, wanted[0]).save(output)
    else:
        _show_history(name, history, as_json=as_json)


def _check(
    ranges: list[str], *, length: int | None, every: int | None, picture: Path | None, output: Path | None
) -> None:
    if ranges and length is not None:
        raise ss.InvalidInputError("--range and --length are two questions: ask one at a time")
    for name, value in (("--set every", every), ("--set picture", picture)):
        if value is not None and length is None:
            raise ss.InvalidInputError(f"{name} goes with --length: how many windows are in a range")
    if picture is not None:
        new_file(picture, ".svg", "a picture")
    if output is not None:
        if len(ranges) != 1:
            raise ss.InvalidInputError(f"--output writes one range: give --range once, got {len(ranges)}")
        new_file(output, ".sketch", "a release")


def _history_of(series: Mapping[str, Mapping[str, ss.PrivateSketch]], key: str | None) -> tuple[str, History]:
    """Return the history of a key, and its name."""
    if not series:
        raise ss.InvalidInputError("there are no windows: releases are windows by their names, such as 2024-05.sketch")
    names = list(series)
    if key is None and len(names) > 1:
        raise ss.InvalidInputError(f"there are {len(names)} keys, {join_names(names)}: name one by --key")
    chosen = names[0] if key is None else key
    if chosen not in series:
        raise ss.InvalidInputError(f"there is no key {chosen}; keys are {join_names(names)}{meant(chosen, names)}")
    windows = series[chosen]
    return chosen, History(windows.values(), names=list(windows))


def _split(text: str) -> Any:
    """Return a range in the form that `History` takes."""
    first, apart, last = text.partition(_APART)
    if not apart:
        return text
    return tuple(int(part) if part.isdecimal() else part for part in (first, last))


def _range_of(history: History, text: str) -> ss.PrivateSketch:
    start, stop = history.numbers(_split(text))
    return history.range(start, stop)


# --- what is shown ------------------------------------------------------------------------------------------


def _show_history(name: str, history: History, *, as_json: bool) -> None:
    schedule, names = history.schedule, history.names or []
    laplace = history.guarantee.mechanism.the_noise is not None and history.guarantee.delta == 0
    lengths = sorted({length for length in (*_LENGTHS, history.windows) if length <= history.windows})
    errors = {length: schedule.error(history.windows - length, history.windows, laplace=laplace) for length in lengths}
    if as_json:
        fields = {"windows": history.windows, "first": names[0], "last": names[-1], "schedule": schedule.to_dict()}
        noise = [{"windows": length, "error": error} for length, error in errors.items()]
        show_json(
            ({"key": name} if name else {}) | fields | {"guarantee": history.guarantee.to_dict(), "ranges": noise}
        )
        return
    facts = {
        "windows": f"{history.windows:,} of {schedule.horizon:,}, {names[0]} to {names[-1]}",
        "schedule": str(schedule),
        "guarantee": str(history.guarantee),
        "": "It holds for all windows together, and for all their ranges.",
    }
    show_facts(name or "history", facts)
    columns = {
        "the last windows": [f"{length:,}" for length in errors],
        "noise": [f"{error:.2f}" for error in errors.values()],
        "of separate releases": [f"{math.sqrt(length):.2f}" for length in errors],
    }
    show(table_of(columns, title="noise, over that of one window released alone"))


def _show_ranges(history: History, wanted: list[str], tolerance: float, by: SameBy, *, as_json: bool) -> None:
    releases = {text: _range_of(history, text) for text in wanted}
    pairs = {
        (a, b): history.sameness(history.numbers(_split(a)), history.numbers(_split(b)), tolerance, by=by)
        for a, b in itertools.combinations(releases, 2)
    }
    norms = {text: ss.squared_norm(release) for text, release in releases.items()}
    units = {text: release.units for text, release in releases.items() if release.counts is not None}
    if as_json:
        fields = [
            {"range": text, "start": history.numbers(_split(text))[0], "stop": history.numbers(_split(text))[1]}
            | norms[text].to_dict("squared_norm")
            | (units[text].to_dict("units") if text in units else {})
            for text in releases
        ]
        tests = [{"range": list(pair)} | test.to_dict() for pair, test in pairs.items()]
        show_json({"ranges": fields, "comparisons": tests})
        return
    columns = {
        "range": list(releases),
        "windows": [str(len(range(*history.numbers(_split(text))))) for text in releases],
        "squared norm": [value_text(number) for number in norms.values()],
    }
    if units:
        columns["units"] = [value_text(number) for number in units.values()]
    show(table_of(columns, title="ranges of windows"))
    if pairs:
        _show_pairs(pairs, by)


def _show_pairs(pairs: Mapping[tuple[str, str], SameTest], by: SameBy) -> None:
    columns = {
        "range": [a for a, _ in pairs],
        "other": [b for _, b in pairs],
        MEASURES[by].title: [_estimate(test) for test in pairs.values()],
        "p": [f"{test.p_value:.2g}" for test in pairs.values()],
    }
    show(table_of(columns, title="comparisons", texts=2))


def _estimate(test: SameTest) -> str:
    return UNDEFINED if math.isnan(test.distance.value) else value_text(test.distance)


def _show_changes(changes: Changes, length: int, level: float, *, as_json: bool) -> None:
    if as_json:
        names = {"estimate": MEASURES[changes.by].column, "error": "standard_error"}
        rows = [{names.get(name, name): value for name, value in row.items()} for row in changes.table.to_pylist()]
        show_json(changes.to_dict() | {"length": length, "windows": rows})
        return
    rows = changes.table.to_pylist()
    columns = {
        "from": [row["window"] for row in rows],
        changes.measure: [_estimate(test) for test in changes.tests if test is not None],
        "p": [f"{row['p_value']:.2g}" for row in rows],
        "alarm from": ["" if row["line"] is None else format_value(row["line"], row["error"]) for row in rows],
        "": ["alarm" if row["alarm"] else "" for row in rows],
    }
    show(table_of(columns, title=f"change of {plural(length, 'window')} from the {length} before"))
    alarms = changes.alarms
    say(
        f"{plural(len(alarms), 'alarm')}{': ' + join_names(alarms) if alarms else ''}. The probability of any alarm in "
        f"a series that does not change is at most {100 * level:g} %."
    )


def _show_series(series: "pa.Table", title: str, *, as_json: bool) -> None:
    rows = series.to_pylist()
    if as_json:
        show_json({"of": title, "ranges": rows})
        return
    cells = [[format_value(row[name], row["error"]) for name in ("estimate", "error", "low", "high")] for row in rows]
    columns = {
        "from": [row["window"] for row in rows],
        title: [f"{value} ± {error}" for value, error, _, _ in cells],
        "95 % interval": [f"{low} … {high}" for _, _, low, high in cells],
    }
    show(table_of(columns, title=f"{title} of ranges of windows"))
