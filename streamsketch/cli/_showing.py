"""What commands print: tables for people, JSON for programs."""

import contextlib
import difflib
import math
import os
import sys
from typing import Annotated, Any

import typer

import streamsketch as ss
from streamsketch.cli._layout import show_facts
from streamsketch.cli._options import option
from streamsketch.cli._saying import is_quiet, json_for
from streamsketch.core.documents import Json
from streamsketch.estimation.estimate import estimate_cells
from streamsketch.estimation.intervals import Interval

AsJson = Annotated[
    bool, option("", "", "Print the result as JSON. Errors and notes are then JSON lines on standard error.", "--json")
]
Confidence = Annotated[float, option("Estimates", "CONFIDENCE", "Confidence of the intervals, in (0, 1).")]

UNKNOWN, UNDEFINED = "unknown", "undefined"

_NAMED = 20  # of the names in an error


def plural(number: int, noun: str) -> str:
    """Return "1 event", "1,000 events"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def join_names(names: list[str]) -> str:
    """Return names for an error, at most 20 of them."""
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def meant(name: str, names: list[str]) -> str:
    """Return a question for an error about a name that is close to a known public name."""
    closest = difflib.get_close_matches(name, names, n=1)
    return f". Did you mean {closest[0]}?" if closest else ""


def show_json(result: object) -> None:
    """Print a result as JSON, in which control and direction characters are escaped."""
    try:
        text = json_for(sys.stdout, result, indent=2, allow_nan=False)
    except ValueError:
        raise ss.InvalidInputError("a result is not finite, which JSON cannot express; leave out --json") from None
    typer.echo(text)


def show_result(title: str, facts: dict[str, str], fields: object, *, as_json: bool) -> None:
    """Print a result: facts for people, or fields for programs."""
    if as_json:
        show_json(fields)
    else:
        show_facts(title, facts)


def estimate_columns(
    estimates: list[ss.estimation.Estimate | None], confidence: float, name: str, *, candidates: int | None = None
) -> dict[str, list[str]]:
    """Return estimates as the columns of a table for people; ``candidates`` is given if they were selected."""

    def cells(estimate: ss.estimation.Estimate | None) -> tuple[str, str, str]:
        if estimate is None:
            return UNDEFINED, "", ""
        return estimate_cells(estimate, interval_of(estimate, confidence, candidates))

    rows = [cells(estimate) for estimate in estimates]
    heads = (name, "± s.e.", interval_name(confidence))
    return {head: [row[place] for row in rows] for place, head in enumerate(heads)}


def interval_of(estimate: ss.estimation.Estimate, confidence: float, candidates: int | None) -> Interval:
    """Return the interval of an estimate; ``candidates`` is given if it was selected."""
    return estimate.interval(confidence) if candidates is None else estimate.selected_interval(candidates, confidence)


def interval_name(confidence: float) -> str:
    """Return the heading of a column of intervals."""
    return f"{100 * confidence:.4g} % interval"


def estimate_fields(
    estimate: ss.estimation.Estimate, confidence: float, name: str = "squared_distance"
) -> dict[str, float | None]:
    """Return an estimate as JSON fields; a missing end of an interval is null."""
    fields = estimate.with_interval(confidence)
    ends = {end: at if math.isfinite(at) else None for end, at in fields.items() if end in ("low", "high")}
    marks = {mark: fields[mark] for mark in ("secret", "joint") if mark in fields}
    shown = {name: fields["value"], "standard_error": fields["standard_error"], **ends, "confidence": confidence}
    return shown | marks


def selected_fields(estimate: ss.estimation.Estimate, confidence: float, candidates: int | None, name: str) -> Json:
    """Return the JSON fields of an estimate, selected from ``candidates`` if given; null if there is no upper end."""
    if candidates is None:
        return estimate_fields(estimate, confidence, name)
    low, high = estimate.selected_interval(candidates, confidence)
    ends = {"low": low, "high": high if math.isfinite(high) else None, "candidates": candidates}
    return estimate_fields(estimate, confidence, name) | ends


def guarantee_fields(guarantee: ss.Guarantee) -> Json:
    """Return a guarantee as JSON fields."""
    return guarantee.to_dict() | {"text": str(guarantee)}


class _NoBar:
    """Takes the place of a bar that is not drawn, so that the library of bars is not loaded."""

    def add_task(self, *_: object, **__: Any) -> Any:
        """Show nothing."""

    def update(self, *_: object, **__: Any) -> None:
        """Show nothing."""


def progress_bar(counted: str = "events", *, shown: bool = True) -> contextlib.AbstractContextManager[Any]:
    """Return a bar that counts ``events``, on standard error if that is a terminal and the bar is to be ``shown``."""
    if not shown or is_quiet() or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return contextlib.nullcontext(_NoBar())
    from rich.console import Console  # noqa: PLC0415 - most commands show no bar
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415 - as above

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn(f"{{task.fields[events]:,}} {counted}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
