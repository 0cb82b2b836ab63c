"""What options of `plan` state: numbers, lengths, shifts of sites and files of keys."""

import csv
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import typer

import streamsketch as ss
from streamsketch.cli._agreeing import published_keys
from streamsketch.cli._fields import Field, names_in, yes_or_no
from streamsketch.cli._saying import say
from streamsketch.core.libraries import pa, pa_csv
from streamsketch.data.canonical import HASHED_DIM
from streamsketch.data.readers.parquet import read_parquet
from streamsketch.data.windows import microseconds

if TYPE_CHECKING:
    from streamsketch.agreement.agreement import Agreement
    from streamsketch.agreement.windows import Windows
    from streamsketch.planning.site_facts import SiteShift

_TWO = 2
MECHANISMS = {
    "DP-SignOPORP-RR": "DPSignOPORPRR",
    "DP-SignOPORP-RR-smooth": "DPSignOPORPRRSmooth",
    "DP-SignRP-RR-smooth": "DPSignRPRRSmooth",
    "DP-Sign-logistic": "DPSignLogistic",
    "iDP-SignOPORP": "IDPSignOPORP",
    "iDP-SignRP-RR": "IDPSignRPRR",
}
"""The mechanisms of signs that take ε and neighbours alone, and their classes in `signs`, which load when one is used.
"""


@dataclass
class FurtherFacts:
    """What few plans need to know."""

    l1: str | None = None
    dim: str = "hashed"
    events: int | None = None
    step: str = "1"
    max_cells: int = 1 << 16
    accept: bool = False
    key: str | None = None
    value: str | None = None
    public_key: str | None = None
    keys_are_public: bool = False
    select_keys: str | None = None
    in_keys: str | None = None
    match: float | None = None
    catalogue: float | None = None
    question: str = "cosine"
    picture: Path | None = None
    moved: float | None = None
    times: float | None = None
    in_columns: int | None = None
    power: float = 0.8
    max_windows: str = "1"
    gap: int = 1
    zone: str | None = None
    last: str | None = None
    time_format: str | None = None
    nearest: int = 10
    top: int | None = None
    rest: str | None = None
    mechanism: str = next(iter(MECHANISMS))
    norm: float | None = None
    exact_query: bool = False

    @property
    def keys(self) -> Any:
        """Which keys the agreement publishes, None if that is not stated."""
        listed = [] if self.public_key is None else names_in(self.public_key)
        options = "--set public-key=KEY,…, keys-are-public=yes and select-keys=EPSILON,DELTA"
        return published_keys(listed, self.select_keys, keys_are_public=self.keys_are_public, options=options)


_L1 = Field("BOUND", "one unit adds at most this much in total, by default 1")
_DIM = Field("NUMBER|hashed", "number of possible indices")
_ACCEPT = Field("yes|no", "whether to write the agreement although the plan misses the goal", yes_or_no)
_KEY = Field("COLUMN", "column of keys of the agreement, with its type")
_PICTURE = Field("FILE", "draw the result into an .svg file", Path)
_KEYS = {
    "public-key": Field("KEY,…", "keys that are published, named without looking at data"),
    "keys-are-public": Field("yes|no", "publish all keys of the data: which have data is no secret", yes_or_no),
}
_SELECTED = _KEYS | {"select-keys": Field("EPSILON,DELTA", "choose the published keys at this share of ε and δ")}
STREAMS = {
    "l1": _L1,
    "dim": _DIM,
    "events": Field("NUMBER", "number of updates in one stream", int),
    "step": Field("STEP|real", "of which all values are multiples, such as 1 (the default) or 1/100; real if none is"),
    "max-cells": Field("NUMBER", "maximum number of cells of a sketch, by default 65536", int),
    "accept": _ACCEPT,
    "key": _KEY,
    "value": Field("COLUMN", "column of numbers to add up, of the agreement"),
    **_KEYS,
}
UNITS = {
    "in-keys": Field("NUMBERS", "number of keys that one unit is in, by default 1"),
    "match": Field(
        "PROBABILITY",
        "that pieces of two units are of the same item, Σp², on which the size hangs; without it the plan is for a "
        "range",
        float,
    ),
    "catalogue": Field("NUMBER", "in place of match: how many different items can occur", float),
    "question": Field("QUESTION", "to the releases: cosine (the default), distance, mean or point"),
    "picture": _PICTURE,
    **_SELECTED,
}
SITES = {
    "moved": Field("SHARE", "in place of --shift: share of people in another category that should be found", float),
    "times": Field("FACTOR", "in place of --shift: by which a class of people is more frequent", float),
    "in-columns": Field("NUMBER", "of columns in which the shift or the class appears", int),
    "power": Field("PROBABILITY", "with which the shift must be found, by default 0.8", float),
    "accept": _ACCEPT,
    "key": _KEY,
    "picture": _PICTURE,
    **_SELECTED,
}
WINDOWS = {
    "max-windows": Field("NUMBER|all", "number of windows that a unit may be in, by default 1"),
    "gap": Field("WINDOWS", "smallest distance between two windows of a unit, by default 1", int),
    "zone": Field("ZONE", "time zone of a day, week or month"),
    "last": Field("TIME", "start of the last window"),
    "time-format": Field("FORMAT", "of times in text, as for strptime"),
}
SIGNS = {
    "l1": _L1,
    "dim": _DIM,
    "nearest": Field("NUMBER", "of true neighbours that are wanted, by default 10", int),
    "top": Field("NUMBER", "of members that a search returns, by default that of nearest", int),
    "rest": Field("NUMBERS", "cosine of the other members, or several, by default 0"),
    "mechanism": Field("MECHANISM", f"that publishes the signs: {', '.join(MECHANISMS)}"),
    "norm": Field("NORM", "Euclidean norm of the vectors, if flips depend on the cells", float),
    "exact-query": Field("yes|no", "whether the query is your own vector, which is not published", yes_or_no),
}
"""What `--set` of each plan states."""


def refuse_to_miss(why: str, output: Path | None) -> NoReturn:
    """Say that a plan misses its goal, and end with status 1."""
    unwritten = "" if output is None else f", and {output} is not written"
    say(
        f"The goal is missed{unwritten}{why}. Ask for less, allow more, or take it all the same with --set accept=yes",
        note=False,
    )
    raise typer.Exit(1)


def units_of(units: str | None) -> list[float] | dict[str, float] | None:
    """Return how many units each key has, as stated or from a file."""
    if units is None:
        return None
    keys = Path(units)
    if not keys.suffix or re.fullmatch(r"[\d.,eE+]+", units):
        return numbers_in(units, "--units")
    try:
        if keys.suffix == ".parquet":
            table = read_parquet(keys)
        else:
            # as text, so that a key 007 or a date stays as it is written
            names, header = _header_of(keys)
            text = pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
            read = pa_csv.ReadOptions(column_names=names, skip_rows=int(header))
            table = pa_csv.read_csv(keys, read_options=read, convert_options=text)
    except pa.ArrowInvalid:
        raise ss.InvalidInputError(f"{keys} is not a CSV or Parquet file of keys and their numbers of units") from None
    if {"key", "units"} <= set(table.column_names):
        table = table.select(["key", "units"])
    elif table.num_columns != _TWO:
        raise ss.InvalidInputError(
            f"{keys} must have columns key and units, or two columns in this order, got "
            f"{', '.join(map(repr, table.column_names)):.100}"
        )
    names, numbers = (column.to_pylist() for column in table.columns)
    counts: dict[str, float] = {}
    for row, (name, number) in enumerate(zip(names, numbers, strict=True), start=1):
        try:
            counts[str(name)] = float(number)
        except (TypeError, ValueError):
            raise ss.InvalidInputError(
                f"the number of units in row {row} of {keys} is not a number, got {number!r:.40}"
            ) from None
    if len(counts) < len(names):
        raise ss.InvalidInputError(f"{keys} has {len(names):,} rows and {len(counts):,} different keys: one row a key")
    return counts


def _header_of(file: Path) -> tuple[list[str], bool]:
    """Return the names of a CSV file's columns, and whether its first row contains them."""
    with file.open(newline="", encoding="utf-8-sig", errors="replace") as lines:
        first = next(csv.reader(lines), [])
    if len(first) == _TWO and re.fullmatch(r"\s*\d[\d_.,eE+]*\s*", first[1]):
        return ["key", "units"], False
    return first, True


def numbers_in(text: str, option: str) -> list[float]:
    """Return the numbers in a text with commas, such as 3,10,40."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ss.InvalidInputError(f"{option} takes numbers with commas, such as 3,10,40, got {text!r:.40}") from None


def dim_of(text: str) -> int:
    """Return the number of indices that an option states."""
    if text == "hashed":
        return HASHED_DIM
    try:
        return int(text)
    except ValueError:
        raise ss.InvalidInputError(f"dim must be a whole number or 'hashed', got {text!r:.40}") from None


def number_of_windows(text: str) -> int:
    """Return the number in --set max-windows, which may also be "all"."""
    try:
        return int(text)
    except ValueError:
        raise ss.InvalidInputError(f"--set max-windows takes a number, or all, got {text!r:.40}") from None


def range_of(text: str, window: str | None, windows: int) -> int | Literal["prefix"]:
    """Return a range in windows, of which there are so many and each is ``window`` long, if that is known."""
    if text == "prefix":
        return "prefix"
    if text.isdecimal():
        return int(text)
    if window is None:
        raise ss.InvalidInputError(
            f"--range takes a number of windows, 'prefix' or, with --window, a length as '1 day'; got {text!r:.40}"
        )
    length, size = microseconds(text, "--range"), microseconds(window, "--window")
    if length % size:
        raise ss.InvalidInputError(f"--range must be a multiple of --window, got {text} and {window}")
    return min(length // size, windows)


def windows_in(
    base: "Agreement | None", *, window: str | None, time: str | None, first: str | None, more: FurtherFacts
) -> "Windows | None":
    """Return the windows of an agreement, or of options; None if neither states them."""
    stated = (time, first, more.zone, more.last, more.time_format)
    if base is not None and base.windows is not None:
        if any(stated) or window is not None:
            raise ss.InvalidInputError(f"the agreement has the windows {base.windows}; leave out options of windows")
        return base.windows
    if window is None or time is None:
        if any(stated):
            raise ss.InvalidInputError("windows have a length and a column of times: --window LENGTH --time COLUMN")
        return None
    name, _, kind = time.rpartition(":")
    column: Any = (name, kind) if name and kind in ("date", "timestamp") else time
    return ss.Windows(time=column, every=window, format=more.time_format, zone=more.zone, first=first, last=more.last)


def units_of_sites(text: str) -> float | list[float]:
    """Return the number of units of all sites, or of two."""
    try:
        units = [float(part) for part in text.split(",")]
    except ValueError:
        raise ss.InvalidInputError(f"--units takes one number or two, such as 2800,280, got {text!r:.40}") from None
    return units[0] if len(units) == 1 else units


def shift_of(shift: float | None, moved: float | None, times: float | None, columns: int | None) -> "SiteShift":
    """Return the difference between sites that options state."""
    if (shift is not None) + (moved is not None) + (times is not None) != 1:
        raise ss.InvalidInputError(
            "state one difference to be found: --shift 0.5, in standard deviations of a number; --set moved=0.05, the "
            "share of people in another category; or --set times=1.4, how many times as frequent a class is"
        )
    in_columns: dict[str, int] = {} if columns is None else {"columns": columns}
    if moved is not None:
        if in_columns:
            raise ss.InvalidInputError("--set in-columns does not apply to moved: leave it out")
        return ss.planning.ShareShift(moved)
    if shift is not None:
        return ss.planning.MeanShift(shift, **in_columns)
    return ss.planning.ClassShift(times, **in_columns)  # type: ignore[arg-type] # one of them is there
