"""``streamsketch changes``: when a stream changed, window by window."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import streamsketch as ss
from streamsketch.cli._features import load_agreement
from streamsketch.cli._fields import Field, set_fields, set_option, yes_or_no
from streamsketch.cli._keys import Signers
from streamsketch.cli._layout import show, table_of
from streamsketch.cli._options import option
from streamsketch.cli._populations import apart_cells, apart_heads, column_fields, columns_apart
from streamsketch.cli._reading import WindowFiles, load_windows, say_agreement_is_missing
from streamsketch.cli._saying import say
from streamsketch.cli._showing import UNDEFINED, AsJson, join_names, meant, plural, show_json
from streamsketch.cli._writing import new_file
from streamsketch.core.documents import Json
from streamsketch.core.files import write_whole
from streamsketch.data.windows import window_time
from streamsketch.estimation.changes import Against, Changes, Control
from streamsketch.estimation.estimate import format_value, value_text
from streamsketch.estimation.measures import MEASURES
from streamsketch.estimation.same import SameBy
from streamsketch.release.private_sketch import PrivateSketch
from streamsketch.report.changes import LEAST_TYPICAL, picture_of_changes

_TYPICAL = "typical"
_MOST_COLUMNS = 3  # of an alarm
_MONTH = len("2024-05")

FIELDS = {
    "against": Field("previous|first", "compare each window with the previous one (the default), or with the first"),
    "samples": Field(
        "yes|no",
        "whether units are samples, and the populations they come from are compared, with --by mean; the default for "
        "features",
        yes_or_no,
    ),
    "control": Field(
        "any|rate",
        "any (the default): --level is the probability of any false alarm in a series; rate: it is the expected share "
        "of false alarms among the alarms",
    ),
    "picture": Field("FILE", "draw the curve, its band, the alarm line and the alarms into an .svg file", Path),
}
"""What `--set` states."""


@dataclass
class _Further:
    """What few tests need."""

    against: Against = "previous"
    samples: bool | None = None
    control: Control = "any"
    picture: Path | None = None


def changes(  # noqa: PLR0913 - a command's options are its parameters
    places: WindowFiles,
    *,
    key: Annotated[
        list[str] | None,
        option("Input", "KEY", "Test only the windows of this key. Repeatable. By default, all keys are tested."),
    ] = None,
    by: Annotated[
        SameBy | None,
        option(
            "Estimates",
            "MEASURE",
            "distance of sums (the default); profile or cosine: of what windows consist of, whatever their size; or "
            "mean: of averages, if units were counted (the default for features).",
            "--by",
        ),
    ] = None,
    tolerance: Annotated[
        str,
        option(
            "Estimates",
            "DISTANCE|typical",
            "Distance, not squared and in data units, also --by profile, up to which two windows count as the same. "
            "typical uses the usual distance in the series.",
        ),
    ] = "0",
    settings: Annotated[list[str] | None, set_option("Estimates", FIELDS)] = None,
    agreement: Annotated[
        Path | None,
        option(
            "Input",
            "FILE",
            "Agreement by which features were sketched, a JSON file. Each alarm then names the column that changed.",
            "--agreement",
        ),
    ] = None,
    level: Annotated[
        float, option("Estimates", "LEVEL", "Probability (or share, see control) of false alarms, in (0, 1).")
    ] = 0.05,
    signer: Signers = None,
    as_json: AsJson = False,
) -> None:
    """Test whether a stream has changed from window to window, with few false alarms over the series.

    The names of releases state which windows they are, in the form that windows of an agreement have:
    2024-05.sketch, tables 2024-05.parquet, keys such as "north 2024-05", and folders 2024-05-01T13-00-00Z. The windows
    of each key are compared in order of time.

    With an --agreement that has features, populations are tested for drift by their averages. Units are then samples,
    because the people of another month may be other people. Each alarm names the column that differs most clearly.

    Real streams always change a little. So without a tolerance, and with little noise, each window raises an alarm.
    State the smallest distance that matters by --tolerance, or pass --tolerance typical. Where windows differ in
    length or size, test their mix by --by profile.

    $ streamsketch changes windows.parquet --tolerance typical
    """
    allowed, more = _tolerance(tolerance), set_fields(_Further(), FIELDS, settings)
    picture = more.picture
    if picture is not None:
        new_file(picture, ".svg", "a picture")
    series = load_windows(places, signer=signer)
    wanted = _wanted(series, key, allowed)
    agreed = None if agreement is None else _agreed(agreement, wanted)
    if agreed is None and by is None:
        say_agreement_is_missing(next(iter(next(iter(wanted.values())).values())))
    by = by or ("distance" if agreed is None else "mean")
    samples = (agreed is not None and by == "mean") if more.samples is None else more.samples
    results = {
        name: ss.changes(
            windows, by=by, against=more.against, tolerance=allowed, samples=samples, level=level, control=more.control
        )
        for name, windows in wanted.items()
    }
    columns = {name: _columns_of(wanted[name], result, agreed) for name, result in results.items()}
    gaps = {name: _gaps(list(windows)) for name, windows in wanted.items()}
    if picture is not None:
        write_whole(picture, picture_of_changes(results).encode())
    if as_json:
        show_json([_fields(name, result, columns[name], gaps[name]) for name, result in results.items()])
        return
    _show(results)
    _show_columns(columns)
    for name, ones in gaps.items():
        for gap in ones:
            missing = plural(gap["missing"], "window")
            say(f"Missing{f' of {name}' if name else ''}: {missing} between {gap['after']} and {gap['before']}.")
    if allowed == _TYPICAL:
        usual = {name: format_value(result.tolerance, result.tolerance / 100) for name, result in results.items()}
        units = "data units per unit" if by == "mean" else "data units"
        distances = join_names([f"{name} {distance}".lstrip() for name, distance in usual.items()])
        say(f"Typical distances, in {units}: {distances}.")
    alarms = [f"{name} {window}".lstrip() for name, result in results.items() for window in result.alarms]
    say(
        f"{plural(len(alarms), 'alarm')}{': ' + join_names(alarms) if alarms else ''}. {_of_level(level, more.control)}"
    )


def _tolerance(text: str) -> Any:
    if text == _TYPICAL:
        return text
    try:
        return float(text)
    except ValueError:
        raise ss.InvalidInputError(f"--tolerance must be a number, or typical, got {text}") from None


def _wanted(
    series: Mapping[str, dict[str, PrivateSketch]], keys: list[str] | None, tolerance: object
) -> dict[str, dict[str, PrivateSketch]]:
    """Return the series of some keys, without series that are too short."""
    names = list(series)
    for key in keys or []:
        if key not in series:
            among = f"keys are {join_names([name for name in names if name])}" if any(names) else "windows have no keys"
            raise ss.InvalidInputError(f"there is no key {key}; {among}{meant(key, names)}")
    chosen = {name: series[name] for name in keys or names}
    least = LEAST_TYPICAL if tolerance == _TYPICAL else 2
    short = [name for name, windows in chosen.items() if len(windows) < least]
    if len(short) == len(chosen):
        what = "typical changes need" if tolerance == _TYPICAL else "changes needs"
        most = max(map(len, chosen.values()), default=0)
        raise ss.InvalidInputError(
            f"{what} at least {least} windows of one key, got {most}. Windows are recognised by name, such as "
            f"2024-05.parquet or the key 'north 2024-05'"
        )
    if short:
        say(f"Left out, with fewer than {least} windows: {join_names(short)}.")
    return {name: windows for name, windows in chosen.items() if name not in short}


def _agreed(path: Path, series: Mapping[str, Mapping[str, PrivateSketch]]) -> ss.Agreement:
    """Return the agreement in a file, which has features and which all windows follow."""
    for name, windows in series.items():
        for window, release in windows.items():
            agreed, _ = load_agreement(path, {f"{name} {window}".lstrip(): release})
    return agreed


def _columns_of(
    windows: Mapping[str, PrivateSketch], changes: Changes, agreed: ss.Agreement | None
) -> dict[str, list[Json]]:
    """Return how far the columns of each window with an alarm are from those of the window before, by window."""
    if agreed is None:
        return {}
    rows: list[dict[str, str]] = changes.table.filter(changes.table["alarm"]).select(["window", "before"]).to_pylist()
    pairs = [(row["window"], row["before"]) for row in rows]
    return {
        window: columns_apart(windows[window], windows[before], agreed, samples=changes.samples)
        for window, before in pairs
    }


def _gaps(windows: list[str]) -> list[Json]:
    """Return where windows are missing: a window should follow the last one by the smallest step in the series."""
    if len(windows) < 3:
        return []
    months = all(len(window) == _MONTH for window in windows)
    starts = [12 * int(window[:4]) + int(window[5:]) if months else int(window_time(window) or 0) for window in windows]
    apart = [after - before for before, after in itertools.pairwise(starts)]
    step = min(apart)
    return [
        {"after": before, "before": after, "missing": difference // step - 1}
        for (before, after), difference in zip(itertools.pairwise(windows), apart, strict=True)
        if difference > step and difference % step == 0
    ]


def _show_columns(changed: Mapping[str, Mapping[str, list[Json]]]) -> None:
    """Print for each alarm the columns that differ, at most three, or the clearest column; by key and window."""
    rows: list[tuple[str, ...]] = []
    for key, windows in changed.items():
        for window, columns in windows.items():
            differing = [row for row in columns if row["differs"]]
            for place, row in enumerate(differing[:_MOST_COLUMNS] or columns[:1]):
                rows.append((f"{key} {window}".lstrip() if place == 0 else "", row["column"], *apart_cells(row)))
    heads = ("alarm", "column", *apart_heads())
    if rows:
        columns_shown = {head: [row[place] for row in rows] for place, head in enumerate(heads)}
        show(table_of(columns_shown, title="columns that changed most clearly", texts=2))


def _show(results: Mapping[str, Changes]) -> None:
    """Print a table for people."""
    names: list[str] = []
    columns: dict[str, list[str]] = {}
    for name, result in results.items():
        for place, (row, test) in enumerate(zip(result.table.to_pylist(), result.tests, strict=True)):
            undefined = row["estimate"] is None
            cells = {
                "window": row["window"],
                MEASURES[result.by].title: UNDEFINED if test is None or undefined else value_text(test.distance),
                "p": "" if test is None else f"{test.p_value:.2g}",
                "alarm from": "" if row["line"] is None else format_value(row["line"], row["error"]),
                "": "alarm" if row["alarm"] else "",
            }
            names.append(name if place == 0 else "")
            for column, cell in cells.items():
                columns.setdefault(column, []).append(cell)
    first = next(iter(results.values()))
    since = "window before" if first.against == "previous" else "first window"
    show(table_of(({"key": names} if any(names) else {}) | columns, title=f"change from the {since}"))


def _fields(key: str, changes: Changes, changed: Mapping[str, list[Json]], gaps: list[Json]) -> Json:
    """Return the JSON fields of a series; null if an interval has no end, or if there is no average."""
    names = {"estimate": MEASURES[changes.by].column, "error": "standard_error"}
    windows: list[dict[str, Any]] = [
        {
            names.get(name, name): None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in row.items()
        }
        for row in changes.table.to_pylist()
    ]
    for row in windows:
        if (columns := changed.get(str(row["window"]))) is not None:
            row["columns"] = column_fields(columns)
    return ({"key": key} if key else {}) | changes.to_dict() | {"windows": windows, "gaps": gaps}


def _of_level(level: float, control: Control) -> str:
    share = f"{100 * level:g} %"
    if control == "any":
        return f"The probability of any alarm in a series that does not change is at most {share}."
    return f"Of the alarms of a series, at most {share} are false on average."
