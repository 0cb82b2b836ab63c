"""``streamsketch sketch``: from events to a raw sketch."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import streamsketch as ss
from streamsketch.agreement.same import check_agreed
from streamsketch.cli._inputs import STDIN, BadLinesOption, Decimal, Delimiter, Encoding, Format, Multiline
from streamsketch.cli._options import option
from streamsketch.cli._reading import find_duplicate, load_raw_file, new_file
from streamsketch.cli._saying import say
from streamsketch.cli._showing import Json, plural, show_json
from streamsketch.cli._sketching import (
    Pending,
    bounds_of_sum,
    check_bounds,
    sketch_bounded,
    sketch_files,
    sketch_stream,
    tell_bad_lines,
    tell_seen,
)
from streamsketch.data.calendar import EventWindows, event_windows
from streamsketch.data.readers.delimited import check_delimiter
from streamsketch.intake.files import RowReader
from streamsketch.intake.lines import BadLines
from streamsketch.intake.rows import Intake
from streamsketch.intake.seen import Seen
from streamsketch.privacy.bounds import UNKNOWN, Bounds
from streamsketch.privacy.neighbours import Clip
from streamsketch.storage.first_bytes import SUFFIX
from streamsketch.storage.raw_files import append_raw, read_header
from streamsketch.storage.sketches import RawHeader, RawSketch, State

WITHIN = "none"
"""The value of `--clip` for rows that already keep to the bounds of their agreement."""


def sketch(  # noqa: PLR0913 - a command's options are its parameters
    inputs: Annotated[
        list[str], typer.Argument(help="CSV, JSON lines or Parquet files, or - for standard input.", metavar="INPUT")
    ],
    *,
    agreement: Annotated[
        Path, option("Input", "FILE", "Agreement of all parties, which says what is sketched: a JSON file.")
    ],
    output: Annotated[Path, option("Output", "FILE", "File to write, .raw-sketch: secret.", "--output", "-o")],
    append: Annotated[bool, option("Output", "", "Add to the sketch in the output file.", "--append")] = False,
    form: Annotated[
        Format | None,
        option(
            "Input",
            "csv|jsonl|parquet",
            "Format of the input. By default, it follows from the file name.",
            "--format",
        ),
    ] = None,
    delimiter: Delimiter = ",",
    encoding: Encoding = None,
    decimal: Decimal = ".",
    bad_lines: BadLinesOption = "stop",
    multiline: Multiline = None,
    window: Annotated[
        str | None,
        option(
            "Input",
            "LENGTH",
            "Make one sketch for each window and key: of a length, such as '1 day' or '15 min', or a calendar's day, "
            "week or month.",
        ),
    ] = None,
    zone: Annotated[
        str | None,
        option("Input", "ZONE", "Time zone of the calendar, such as Europe/Berlin. By default UTC."),
    ] = None,
    time: Annotated[
        str | None,
        option("Input", "COLUMN", "Column of times, for --window. Times without a zone are in UTC."),
    ] = None,
    time_format: Annotated[
        str | None,
        option("Input", "FORMAT", "Format of times in text, as for strptime. By default ISO 8601."),
    ] = None,
    clip: Annotated[
        str | None,
        option(
            "Privacy",
            "scale|cut|equal|average|none",
            "What to do with a unit beyond the bound, unless the agreement says it; or none, if the rows keep to the "
            "bound already.",
        ),
    ] = None,
    every: Annotated[float, option("Output", "SECONDS", "Seconds between snapshots of standard input.")] = 60.0,
    summary: Annotated[
        Path | None,
        option("Output", "FILE", "Write what was dropped and clipped to a JSON file: secret."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Sketch events exactly, into a secret file for `release`.

    The file keeps what accumulates over days: --append adds to it. To release the rows that are there, `release` needs
    no such file.

    Rows are cast to the types of the agreement. Equal tables then give equal sketches in every format and in Python,
    unless units are clipped: if a unit exceeds the bound, a secret of the run decides what is kept.

    Standard input may be unbounded. A snapshot is written every --every seconds, in one step, and contains every event
    that was read before it. If the machine fails, events after the last snapshot are lost. SIGINT and SIGTERM write a
    last snapshot. An unfinished line is never read. Files are sketched as a whole: if the command is interrupted,
    nothing is written. To release each window of a stream when it is over, use `stream`.

    If the agreement names units, the events of each are summed by key and index, and then clipped to the bound. Rows
    with nulls, or without a unit, are dropped. Otherwise, or with --clip none, `release` can only assert a bound. With
    --append, a unit may be both in the file and in the new rows: the bounds add up, and units are no longer counted.

    A line of CSV is one row if there is a unit column: a quote that is not closed in its line is an error, as it could
    hide the rows of others. With --multiline, cells in quotes may hold line breaks, and releases state the condition
    that the file's writer quotes such cells and doubles quotes in them.

    With --window, each window of a key is a key of its own; without a key column, windows are the keys. A unit keeps as
    many of these keys as its bound allows, by default one, and its protection holds for all windows together. The
    command states the share of units that were in more. To bound a unit in each window by itself, agree on windows.

    Lines that --bad-lines leaves out are counted by reason. If they are more than 1 % of the lines, the command writes
    its output, warns, and ends with status 1.

    $ streamsketch sketch sales.csv --agreement agreement.json -o north.raw-sketch
    """
    agreed, windows = ss.Agreement.load(agreement), _windows_of(window, zone, time, time_format)
    if agreed.windows is not None:
        raise ss.InvalidInputError(
            f"{agreement} has windows, and a raw file holds sums without times: `streamsketch release INPUT "
            "--agreement FILE` releases windows that are keys, and `streamsketch stream file` windows that are releases"
        )
    streaming = STDIN in inputs
    _check_inputs(inputs, form, every)
    keyed = agreed.key is not None or windows is not None
    _check_windows(agreed, windows)
    clipped = _check_clipping(agreed, inputs, clip, summary, whole=bad_lines == "stop")
    intake = Intake(agreed, time=time, time_format=time_format, windows=windows)
    start = _start(output, agreed, keyed=keyed, append=append)
    added = UNKNOWN if clipped is None else Bounds(agreed.neighbours, clipped)
    check_bounds(output, start.bounds, added, keyed=keyed)
    pending = Pending(intake, start, windows)
    with BadLines(bad_lines) as bad:
        written: dict[str, Any] = {"encoding": encoding, "decimal": decimal, "multiline": multiline}
        reader = RowReader(agreed, time, form, check_delimiter(delimiter), bad, **written)
        if not streaming:
            paths = [Path(name) for name in inputs]
            if clipped is not None:
                timed = {"windows": windows, "time": time, "time_format": time_format}
                raw = sketch_bounded(paths, reader, start, clipped, summary, **timed)
                pending.start(append_raw(raw, output, new=not append))
            else:
                sketch_files(pending, paths, reader)
                pending.flush(append_raw(pending.raw, output, new=not append))
        try:
            if streaming:
                sketch_stream(pending, output, reader, every, new=not append)
        finally:
            too_many = _tell_read(pending, bad, reader.seen, agreed)
    header, keys = pending.header, pending.header.keys
    _tell_bounds(output, start.bounds, added, header.bounds)
    if as_json:
        show_json(
            {
                "file": str(output),
                "secret": True,
                "events": header.events,
                "keys": keys,
                "bad_lines": bad.count,
                "projection": agreed.projection.to_json(),
                "fingerprint": agreed.projection.fingerprint,
                "agreement": agreed.fingerprint,
            }
        )
    else:
        _tell_done(output, header, agreed, bounded=added.is_enforced)
    if too_many:
        raise typer.Exit(1)


def _tell_read(pending: Pending, bad: BadLines, seen: Seen, agreed: ss.Agreement) -> bool:
    """Print what was lost and left out, and what is strange; return whether more lines are bad than is usual."""
    for note in filter(None, (pending.warning, _left_out(pending.dropped))):
        say(note)
    tell_seen(seen, None if agreed.unit is None else agreed.unit.name)
    return tell_bad_lines(bad)


def _tell_bounds(output: Path, before: Bounds, added: Bounds, after: Bounds) -> None:
    """Print which bound holds for a file to which rows were added."""
    if holding := bounds_of_sum(output, "the file and in the new rows", [before, added], after):
        say(holding)


def _tell_done(output: Path, header: RawHeader, agreed: ss.Agreement, *, bounded: bool) -> None:
    """Print what a file holds now and, if its rows are bounded, how to release it."""
    of_keys = "" if header.keys is None else f" of {plural(header.keys, 'key')}"
    say(f"{output}, secret: {plural(header.events, 'event')}{of_keys}. Agreement {agreed.fingerprint}.")
    if bounded and header.bounds.is_enforced and header.events:
        command = _release_command(output, header, agreed)
        say(f"Bound enforced: {header.neighbours}. To release it: {command}")


def _release_command(output: Path, header: RawHeader, agreed: ss.Agreement) -> str:
    """Return the command that releases a file within its bounds, with the options that it needs."""
    keys, suffix = ("", ".sketch") if header.keys is None else (" --public-key KEY", ".parquet")
    files = [shlex.quote(str(path)) for path in (output, output.with_suffix(suffix))]
    delta = " --delta DELTA" if header.neighbours is not None and header.neighbours.of_sketches else ""
    spent = f" --epsilon EPSILON{delta}{keys}" if agreed.terms is None else ""
    return f"streamsketch release {files[0]}{spent} -o {files[1]}"


def _left_out(rows: int) -> str:
    return f"{plural(rows, 'row')} left out, as something in them is missing; secret, as the sketch is" if rows else ""


def _check_windows(agreed: ss.Agreement, windows: EventWindows | None) -> None:
    """Raise `InvalidInputError` if windows do not go with the keys."""
    if windows is not None and agreed.key is not None and agreed.key.type != "text":
        raise ss.InvalidInputError(
            f"a window makes text of keys, such as 'north 2024-05': agree on {agreed.key.name} as text, not "
            f"{agreed.key.type}"
        )


def _windows_of(window: str | None, zone: str | None, time: str | None, time_format: str | None) -> EventWindows | None:
    if (time is None) != (window is None) or (time_format is not None and time is None):
        raise ss.InvalidInputError("--window, --time and, for text, --time-format go together")
    if zone is not None and window is None:
        raise ss.InvalidInputError("--zone goes with --window day, week or month")
    return None if window is None else event_windows(window, zone, "--window")


def _check_clipping(
    agreed: ss.Agreement, inputs: list[str], clip: str | None, summary: Path | None, *, whole: bool
) -> Clip | None:
    """Return how units are clipped, if they are; raise `InvalidInputError` if not all of their events are present."""
    if agreed.unit is None or agreed.neighbours is None or clip == WITHIN:
        if summary is not None or clip not in (None, WITHIN):
            raise ss.InvalidInputError("nothing is clipped here, so leave out --clip and --summary")
        return None
    found = agreed.clip_of(clip)  # type: ignore[arg-type] # checked there
    if summary is not None:
        new_file(summary, ".json", "a summary")
    remedy = f"or, if rows keep to the agreement's bounds, give --clip {WITHIN}"
    if STDIN in inputs or any(Path(name).is_fifo() for name in inputs):
        raise ss.InvalidInputError(
            f"a unit is bounded when all its events are there: name files, not standard input; {remedy}"
        )
    if not whole:
        raise ss.InvalidInputError(
            "which lines are left out may depend on one unit: sketch all lines of the files, without --bad-lines; "
            f"{remedy}"
        )
    return found


def _check_inputs(inputs: list[str], form: Format | None, every: float) -> None:
    if STDIN not in inputs:
        paths = [Path(name) for name in inputs]
        if twice := find_duplicate(paths):
            raise ss.InvalidInputError(f"{twice}; its events would count twice")
        for path in paths:
            if not path.is_fifo():  # a pipe opens once
                path.open("rb").close()  # before an hour's work on the others
        return
    if len(inputs) > 1:
        raise ss.InvalidInputError("standard input (-) is read alone; sketch the files by themselves and merge")
    if sys.stdin is None:
        raise ss.InvalidInputError("standard input (-) is closed; there is nothing to read")
    if form not in ("csv", "jsonl"):
        raise ss.InvalidInputError("state what standard input is: --format csv, with a header line, or --format jsonl")
    if not 0 < every < float("inf"):
        raise ss.InvalidInputError(f"--every must be a number of seconds > 0, got {every:g}")


def _start(output: Path, agreed: ss.Agreement, *, keyed: bool, append: bool) -> RawHeader:
    state: State = ss.SketchTable(agreed) if keyed else ss.Sketch(agreed)
    if append and output.exists():
        header: RawHeader = load_raw_file(output, read_header)
        header.projection.check_same(agreed.projection)
        if header.agreement is None:
            raise ss.InvalidInputError(f"the rows in {output} follow no agreement: sketch the new ones into a new file")
        check_agreed(header.agreement, agreed)
        if (header.keys is not None) != keyed:
            holds = "one sketch for each key" if header.keys is not None else "one sketch"
            raise ss.InvalidInputError(f"{output} holds {holds}; {'leave out' if keyed else 'give'} --window")
        return header
    new_file(output, SUFFIX, "a raw sketch")
    return RawHeader.of(RawSketch(state))
